package memstore

// Kill takes all buckets from their owners, who get to know it at their next
// call, as when an instance has died with what it had in flight.
func (s *Store) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sink := range s.sinks {
		for _, b := range sink.buckets {
			b.owner = nil
		}
	}
}
