package proxy

import "sync"

// maxPaths bounds a set of paths: strangers choose what they ask for.
const maxPaths = 1000

// paths is a small set of request paths.
type paths struct {
	mu  sync.RWMutex // guards set
	set map[string]bool
}

// add reports whether the path is new and was remembered.
func (p *paths) add(path string) bool {
	if p.has(path) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.set == nil {
		p.set = make(map[string]bool)
	}
	if len(p.set) >= maxPaths || p.set[path] {
		return false
	}
	p.set[path] = true
	return true
}

func (p *paths) has(path string) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.set[path]
}
