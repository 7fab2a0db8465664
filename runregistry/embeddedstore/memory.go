package embeddedstore

// SetMemory changes the bound of [Options].Memory while the store is in use. A
// store that is above it refuses new runs and goes on with those it has.
func (s *Store) SetMemory(bytes int64) {
	if bytes <= 0 {
		bytes = defaultMemory
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory = bytes
}
