package events

import (
	"slices"
	"strings"

	"github.com/delaybridge/delaybridge/core"
)

// Filter selects events. An empty field selects all; an event that lacks what a field
// asks for is not selected.
type Filter struct {
	Sinks  []string
	Events []string
	Topic  string // or the beginning of one, before a * at the end
	ID     string
	Key    []byte
}

// Check returns a *core.InvalidError if an event does not exist.
func (f *Filter) Check() error {
	for _, name := range f.Events {
		if !slices.Contains(All(), name) {
			return core.Invalidf("event", "must be one of %s", strings.Join(All(), ", "))
		}
	}
	return nil
}

func (f *Filter) wants(event string) bool {
	return len(f.Events) == 0 || slices.Contains(f.Events, event)
}

func (f *Filter) selects(e *Event) bool {
	return f.wants(e.Event) && (len(f.Sinks) == 0 || slices.Contains(f.Sinks, e.Sink)) &&
		f.hasTopic(e.Topic) && (f.ID == "" || f.ID == e.ID) && f.hasKey(e)
}

func (f *Filter) hasTopic(topic string) bool {
	if start, ok := strings.CutSuffix(f.Topic, "*"); ok {
		return topic != "" && strings.HasPrefix(topic, start)
	}
	return f.Topic == "" || f.Topic == topic
}

func (f *Filter) hasKey(e *Event) bool {
	switch {
	case f.Key == nil:
		return true
	case e.Key != nil:
		return *e.Key == string(f.Key)
	}
	return e.KeyBase64 != nil && string(e.KeyBase64) == string(f.Key)
}
