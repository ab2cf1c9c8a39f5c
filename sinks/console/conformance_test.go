package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/sinks/sinktest"
)

// screen is a console whose lines are read back.
type screen struct {
	mu      sync.Mutex
	lines   []record
	changed chan struct{} // closed at the next line
	stall   sync.RWMutex  // held for writing while the screen takes nothing
}

func (s *screen) Write(p []byte) (int, error) {
	s.stall.RLock()
	defer s.stall.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range bytes.Lines(p) {
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			return 0, fmt.Errorf("line %q: %w", line, err)
		}
		s.lines = append(s.lines, r)
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return len(p), nil
}

// consume reads the lines of one topic.
func (s *screen) consume(_ testing.TB, topic string) sinktest.Reader {
	next := 0
	return func(ctx context.Context) (sinktest.Received, error) {
		for {
			s.mu.Lock()
			lines, changed := s.lines, s.changed
			s.mu.Unlock()
			for next < len(lines) {
				if next++; lines[next-1].Topic == topic {
					return received(lines[next-1]), nil
				}
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return sinktest.Received{}, ctx.Err()
			}
		}
	}
}

func received(r record) sinktest.Received {
	got := sinktest.Received{Body: bytesOf(r.Body, r.BodyBase64), Key: bytesOf(r.Key, r.KeyBase64)}
	for _, h := range r.Headers {
		got.Headers = append(got.Headers, core.Header{Name: h.Name, Value: bytesOf(h.Value, h.ValueBase64)})
	}
	return got
}

func bytesOf(text *string, data []byte) []byte {
	if text != nil {
		return []byte(*text)
	}
	return data
}

func TestConformance(t *testing.T) {
	out := &screen{changed: make(chan struct{})}
	open := func(t testing.TB) core.Sink {
		s, err := New(out, JSON)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	stall := func(testing.TB) func() {
		out.stall.Lock()
		return out.stall.Unlock
	}
	sinktest.Run(t, kit(open, out.consume, stall))
}

func kit(open func(testing.TB) core.Sink, consume func(testing.TB, string) sinktest.Reader, stall func(testing.TB) func()) sinktest.Kit {
	var topics atomic.Int32
	return sinktest.Kit{
		Open:     open,
		NewTopic: func(testing.TB) string { return fmt.Sprintf("topic-%d", topics.Add(1)) },
		Consume:  consume,
		Can: []sinktest.Capability{sinktest.Headers, sinktest.HeaderOrder, sinktest.RepeatedHeaders, sinktest.BinaryHeaders,
			sinktest.NullHeaders, sinktest.EmptyBody, sinktest.NullBody, sinktest.Keys, sinktest.NullKeys, sinktest.Ordered},
		Faults: sinktest.Faults{Stall: stall},
	}
}
