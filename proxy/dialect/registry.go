package dialect

import "sync"

// all are the dialects. The order is that in which the first frame of a stream
// is compared with them; no frame is certain for two.
var all = []*Dialect{
	openAIChat, openAICompletions, openAIResponses, openAIAssistants, anthropicMessages,
	gemini, interactions, cohere, ollama, aiUI, aiData, agUI, assistantTransport, mastra,
	langGraph, langServe, letta, dify, fastGPT, flowise, n8n, replicate, mcp, a2a, bedrock, generic,
}

// Lookup returns the dialect of a name.
func Lookup(name string) (*Dialect, bool) {
	for _, d := range all {
		if d.Name == name {
			return d, true
		}
	}
	return nil, false
}

// Names are the names of the dialects.
func Names() []string {
	names := make([]string, len(all))
	for i, d := range all {
		names[i] = d.Name
	}
	return names
}

// ResumePaths are the templates of every dialect, each once; see
// [Dialect].Resume.
func ResumePaths() []string {
	var templates []string
	seen := map[string]bool{}
	for _, d := range all {
		for _, t := range d.Resume {
			if !seen[t] {
				seen[t] = true
				templates = append(templates, t)
			}
		}
	}
	return templates
}

// Registry is the dialects that one engine knows: those of this package, and
// the tables of its configurations. The zero value has none of the latter. It
// may be used by many goroutines.
type Registry struct {
	mu  sync.RWMutex
	own map[string]*Dialect
}

// Add makes a custom dialect known. A run keeps the dialect of its start, so
// none is ever taken away; the same table twice is one dialect.
func (r *Registry) Add(c *Custom) *Dialect {
	d := c.Dialect()
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.own[d.Name]; ok {
		return known
	}
	if r.own == nil {
		r.own = make(map[string]*Dialect)
	}
	r.own[d.Name] = d
	return d
}

// Lookup returns the dialect of a name.
func (r *Registry) Lookup(name string) (*Dialect, bool) {
	if d, ok := Lookup(name); ok {
		return d, true
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	d, ok := r.own[name]
	return d, ok
}
