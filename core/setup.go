package core

// setup is the sinks and limits of an Interceptor. It does not change: Bridge.Apply puts
// another in its place, and a call keeps to the one with which it began.
type setup struct {
	limits  Limits
	sinks   map[string]*Dispatcher
	ordered []string
	calls   calls // that began with it and may use its sinks
}

func newSetup(limits Limits, sinks []*Dispatcher) *setup {
	s := &setup{limits: limits.withDefaults(), sinks: make(map[string]*Dispatcher, len(sinks))}
	for _, d := range sinks {
		s.sinks[d.Name] = d
		s.ordered = append(s.ordered, d.Name)
	}
	return s
}

// begin returns the present setup, which stays open until the caller calls
// calls.group.Done; or false if the Bridge has ended.
func (i *Interceptor) begin() (*setup, bool) {
	for {
		s := i.setup.Load()
		if s.calls.begin() {
			return s, true
		}
		if s == i.setup.Load() { // nothing will take its place
			return s, false
		}
	}
}

// sinkOr returns name, or the only sink if name is empty and there is but one.
func (s *setup) sinkOr(name string) string {
	if name == "" && len(s.ordered) == 1 {
		return s.ordered[0]
	}
	return name
}

func (s *setup) checkRef(ref Ref) error {
	if err := CheckID(ref.ID); err != nil {
		return err
	}
	if len(ref.Key) > MaxKeyLen {
		return Invalidf("key", "is longer than %d bytes", MaxKeyLen)
	}
	if _, ok := s.sinks[ref.Sink]; !ok && ref.Sink != "" {
		return unknownSink(ref.Sink)
	}
	return nil
}
