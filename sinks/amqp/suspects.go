package amqp

import "sync"

// maxSuspects bounds what is remembered. Beyond it all is forgotten: then a
// culprit is looked for again.
const maxSuspects = 5000

// suspects are the IDs of messages of which one made the broker close a channel
// or a connection. They are to go alone. Safe for concurrent use.
type suspects struct {
	mu  sync.Mutex
	ids map[string]bool
}

func (s *suspects) add(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids == nil || len(s.ids) >= maxSuspects {
		s.ids = map[string]bool{}
	}
	s.ids[id] = true
}

func (s *suspects) has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[id]
}

func (s *suspects) clear(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ids, id)
}
