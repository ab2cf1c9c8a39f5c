package redisstore

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

func TestMemoryOfSeveralMasters(t *testing.T) {
	full, empty := masterMemory{used: 90, dataset: 80, limit: 100, uncounted: 1}, masterMemory{used: 20, dataset: 10, limit: 100}
	for _, test := range []struct {
		name string
		of   []masterMemory
		want Memory
	}{
		{"one", []masterMemory{empty}, Memory{Used: 20, Dataset: 10, Limit: 100, Free: 80}},
		{"the fullest counts", []masterMemory{empty, full}, Memory{Used: 110, Dataset: 90, Limit: 200, Free: 22}},
		{"one without a limit", []masterMemory{full, {used: 5, dataset: 4}}, Memory{Used: 95, Dataset: 84}},
		{"beyond its limit", []masterMemory{{used: 12, limit: 10}, empty}, Memory{Used: 32, Dataset: 10, Limit: 110}},
	} {
		if got := together(test.of); got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
}

func TestMemoryIsTold(t *testing.T) {
	s := open(t, freshConfig(t))
	if m, err := s.Memory(t.Context()); err != nil || m.Used <= 0 || m.Dataset <= 0 || m.Dataset > m.Used {
		t.Errorf("%+v, %v", m, err)
	}
}

// calls is what Config.Called was told.
type calls struct {
	mu       sync.Mutex
	failures map[string][]error
}

func (c *calls) called(script string, took time.Duration, failure error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if took <= 0 {
		failure = errors.New("took no time")
	}
	c.failures[script] = append(c.failures[script], failure)
}

func TestCallsAreTold(t *testing.T) {
	told := calls{failures: make(map[string][]error)}
	config := freshConfig(t)
	config.Called = told.called
	s := open(t, config)
	// A server's first call is refused until its clock is known, and sent again.
	parkAll(t, s, &core.Message{ID: "m", Sink: "orders", Topic: "t", Delay: time.Hour})
	if _, err := s.Cancel(t.Context(), core.Ref{ID: "m", Sink: "orders"}); err != nil {
		t.Fatal(err)
	}
	s.scripts.count = newScript("count", "return redis.error_reply('ERR no')")
	if _, err := s.Stats(t.Context(), "orders"); err == nil {
		t.Error("no error")
	}
	told.mu.Lock()
	defer told.mu.Unlock()
	for _, script := range []string{"park", "cancel"} {
		if got := told.failures[script]; len(got) != 1 || got[0] != nil {
			t.Errorf("%s: %v, want one call", script, got)
		}
	}
	if got := told.failures["count"]; len(got) != 1 || got[0] != core.ErrUnknown {
		t.Errorf("count: %v", got)
	}
}
