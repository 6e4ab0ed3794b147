package dedup

import "sync"

type memory struct {
	mu       sync.RWMutex
	captures map[string]Capture // nil: closed
}

// NewMemory returns an index that lives as long as the process and grows with
// every payload.
func NewMemory() Index { return &memory{captures: make(map[string]Capture)} }

func (m *memory) Lookup(digest string) (Capture, bool, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.captures == nil {
		return Capture{}, false, ErrClosed
	}
	c, ok := m.captures[digest]
	return c, ok, nil
}

func (m *memory) Commit(entries []Entry) error {
	if err := check(entries); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.captures == nil {
		return ErrClosed
	}
	for _, e := range entries {
		m.captures[e.Digest] = e.Capture
	}
	return nil
}

func (m *memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.captures = nil
	return nil
}
