package suite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// mutant is the reference sink with one thing wrong.
type mutant struct {
	*memory
	deliver func(ctx context.Context, batch []*core.Message) error
	check   func(m *core.Message) error
	checks  func(ctx context.Context, batch []*core.Message) error
	health  func(ctx context.Context) error
	close   func() error
}

func (m *mutant) Deliver(ctx context.Context, batch []*core.Message) error {
	if m.deliver != nil {
		return m.deliver(ctx, batch)
	}
	return m.memory.Deliver(ctx, batch)
}

func (m *mutant) Check(ctx context.Context, batch []*core.Message) error {
	switch {
	case m.checks != nil:
		return m.checks(ctx, batch)
	case m.check != nil:
		return core.CheckEach(ctx, batch, m.check)
	}
	return m.memory.Check(ctx, batch)
}

func (m *mutant) Health(ctx context.Context) error {
	if m.health != nil {
		return m.health(ctx)
	}
	return m.memory.Health(ctx)
}

func (m *mutant) Close() error {
	if m.close != nil {
		return m.close()
	}
	return m.memory.Close()
}

// alter is a sink that sends other messages than it was given.
func alter(change func(m *core.Message)) func(*memory) core.Sink {
	return func(s *memory) core.Sink {
		return &mutant{memory: s, deliver: func(ctx context.Context, batch []*core.Message) error {
			altered := make([]*core.Message, len(batch))
			for i, m := range batch {
				altered[i] = clone(m)
				change(altered[i])
			}
			return s.Deliver(ctx, altered)
		}}
	}
}

// alterValues is alter for the values of headers.
func alterValues(change func([]byte) []byte) func(*memory) core.Sink {
	return alter(func(m *core.Message) {
		for i := range m.Headers {
			m.Headers[i].Value = change(m.Headers[i].Value)
		}
	})
}

// classify is a sink that says something else than it knows.
func classify(change func(err error, batch []*core.Message) error) func(*memory) core.Sink {
	return func(s *memory) core.Sink {
		return &mutant{memory: s, deliver: func(ctx context.Context, batch []*core.Message) error {
			return change(s.Deliver(ctx, batch), batch)
		}}
	}
}

// each applies change to every result.
func each(change func(error) error) func(*memory) core.Sink {
	return classify(func(err error, batch []*core.Message) error {
		results, ok := errors.AsType[core.BatchError](err)
		if !ok {
			return change(err)
		}
		for i := range results {
			results[i] = change(results[i])
		}
		return results
	})
}

// classed gives errors of one class another.
func classed(from, to core.Class) func(*memory) core.Sink {
	return each(func(err error) error {
		if err != nil && core.ClassOf(err) == from {
			return core.Classify(to, errors.New("mutant"))
		}
		return err
	})
}

// mutants lists each planted fault and the cases that must find it.
func mutants() map[string]struct {
	wrap func(*memory) core.Sink
	want string
} {
	var kept [][]byte
	var keptMu sync.Mutex
	const keptAtMost, keptEach = 40, 4 << 20 // far more than K28 allows, after a few failures
	return map[string]struct {
		wrap func(*memory) core.Sink
		want string
	}{
		"makes a nil body empty": {alter(func(m *core.Message) {
			if m.Body == nil {
				m.Body = []byte{}
			}
		}), "K4"},
		"drops an empty body": {alter(func(m *core.Message) {
			if len(m.Body) == 0 {
				m.Body = nil
			}
		}), "K3 K4"},
		"makes header values text": {alterValues(func(v []byte) []byte {
			return bytes.ToValidUTF8(v, []byte("?"))
		}), "K7 K9"},
		"trims header values": {alterValues(func(v []byte) []byte {
			if i := bytes.IndexAny(v, "\r\n"); i >= 0 && len(v) < 100 {
				return v[:i]
			}
			return v
		}), "K9"},
		"keeps one of repeated headers": {alter(func(m *core.Message) {
			seen := map[string]bool{}
			m.Headers = slices.DeleteFunc(m.Headers, func(h core.Header) bool {
				repeated := seen[h.Name]
				seen[h.Name] = true
				return repeated
			})
		}), "K8"},
		"folds the case of header names": {alter(func(m *core.Message) {
			for i := range m.Headers {
				m.Headers[i].Name = strings.ToLower(m.Headers[i].Name)
			}
		}), "K9"},
		"drops the 60th header and those after it": {alter(func(m *core.Message) {
			m.Headers = m.Headers[:min(len(m.Headers), 60)]
		}), "K9"},
		"strips nothing": {alter(func(m *core.Message) {
			for i := range m.Headers {
				m.Headers[i].Name = strings.Replace(m.Headers[i].Name, "X-Delay", "X-Delay ", 1)
			}
		}), "K31"},
		"always says attempt 1": {alter(func(m *core.Message) { m.Attempt = 1 }), "K26"},
		"cuts large bodies":     {alter(func(m *core.Message) { m.Body = m.Body[:min(len(m.Body), memoryMaxBody)] }), "K6 K25"},
		"carries less than it says": {func(s *memory) core.Sink {
			return &mutant{memory: s, deliver: func(ctx context.Context, batch []*core.Message) error {
				for _, m := range batch {
					if len(m.Body) >= memoryMaxBody {
						return core.Classify(core.Permanent, errors.New("too large"))
					}
				}
				return s.Deliver(ctx, batch)
			}}
		}, "K5 K28"},
		"lets large bodies in": {func(s *memory) core.Sink {
			return &mutant{memory: s, check: func(m *core.Message) error {
				small := *m
				small.Body = nil
				return s.check(&small)
			}}
		}, "K6"},
		"knows every option": {func(s *memory) core.Sink {
			return &mutant{memory: s, check: func(m *core.Message) error {
				bare := *m
				bare.Options = nil
				return s.check(&bare)
			}}
		}, "K33"},
		"refuses the engine's options": {func(s *memory) core.Sink {
			return &mutant{memory: s, check: func(m *core.Message) error {
				if len(m.Options) > 0 {
					return core.Invalidf("options", "are not known")
				}
				return s.check(m)
			}}
		}, "K33"},
		"refuses a batch for one message": {func(s *memory) core.Sink {
			return &mutant{memory: s, checks: func(ctx context.Context, batch []*core.Message) error {
				err := s.Check(ctx, batch)
				if results, ok := err.(core.BatchError); ok {
					for i := range results {
						results[i] = results[0]
					}
				}
				return err
			}}
		}, "K34"},
		"checks as if nobody waited": {func(s *memory) core.Sink {
			return &mutant{memory: s, checks: func(ctx context.Context, batch []*core.Message) error {
				if len(batch) == checkedBatch {
					<-s.closed
				}
				return s.Check(ctx, batch)
			}}
		}, "K34"},
		"loses the last of a batch": {func(s *memory) core.Sink {
			return &mutant{memory: s, deliver: func(ctx context.Context, batch []*core.Message) error {
				if len(batch) == manyBatch {
					batch = batch[:manyBatch-1]
				}
				err := s.Deliver(ctx, batch)
				if results, ok := errors.AsType[core.BatchError](err); ok && len(batch) == manyBatch-1 {
					return append(results, nil)
				}
				return err
			}}
		}, "K2 K19"},
		"sends one of a batch twice": {func(s *memory) core.Sink {
			return &mutant{memory: s, deliver: func(ctx context.Context, batch []*core.Message) error {
				err := s.Deliver(ctx, batch)
				if err == nil && len(batch) == orderBatch {
					return s.Deliver(ctx, batch[:1])
				}
				return err
			}}
		}, "K10"},
		"sends a batch backwards": {func(s *memory) core.Sink {
			return &mutant{memory: s, deliver: func(ctx context.Context, batch []*core.Message) error {
				backwards := slices.Clone(batch)
				slices.Reverse(backwards)
				err := s.Deliver(ctx, backwards)
				if results, ok := errors.AsType[core.BatchError](err); ok {
					slices.Reverse(results)
				}
				return err
			}}
		}, "K10"},
		"spreads a key": {func(s *memory) core.Sink {
			return &mutant{memory: s, deliver: func(ctx context.Context, batch []*core.Message) error {
				err := s.Deliver(ctx, batch)
				s.b.change(func() {
					for i, r := range s.b.topics[batch[0].Topic] {
						r.Lane = fmt.Sprint(i % memoryLanes)
						s.b.topics[batch[0].Topic][i] = r
					}
				})
				return err
			}}
		}, "K10"},
		"changes the messages": {func(s *memory) core.Sink {
			return &mutant{memory: s, deliver: func(ctx context.Context, batch []*core.Message) error {
				err := s.Deliver(ctx, batch)
				if len(batch) == 1 && len(batch[0].Headers) == 2 && batch[0].Headers[0].Name == "content-type" {
					batch[0].Headers[0].Name = "Content-Type"
				}
				return err
			}}
		}, "K1"},
		"swallows a refusal": {each(func(err error) error {
			if core.ClassOf(err) == core.TopicBlocked {
				return nil
			}
			return err
		}), "K9 K11 K12 K18 K25"},
		"calls a missing topic permanent":        {classed(core.TopicBlocked, core.Permanent), "K9 K11 K12 K18 K25"},
		"calls a missing topic transient":        {classed(core.TopicBlocked, core.Retry), "K9 K11 K12 K18 K25"},
		"blocks the sink for one topic":          {classed(core.TopicBlocked, core.Blocked), "K9 K11 K12 K18 K25"},
		"calls what is too large transient":      {classed(core.Permanent, core.Retry), "K6 K25"},
		"calls a refused login transient":        {classed(core.Blocked, core.Retry), "K32"},
		"calls trouble permanent":                {classed(core.Retry, core.Permanent), "K13 K14 K17 K19 K20 K21 K23 K25 K28"},
		"calls trouble unknown":                  {classed(core.Retry, core.Unknown), "K13 K17 K25"},
		"says that what is unknown was not sent": {classed(core.Unknown, core.Retry), "K15 K16"},
		"says that what is unknown was sent": {each(func(err error) error {
			if core.ClassOf(err) == core.Unknown {
				return nil
			}
			return err
		}), "K16"},
		"blames the batch for one message": {classify(func(err error, batch []*core.Message) error {
			if results, ok := errors.AsType[core.BatchError](err); ok {
				return core.Classify(core.Unknown, errors.New(results.Error()))
			}
			return err
		}), "K6 K9 K11 K12 K17 K18 K25"},
		"blames the messages for the sink": {classify(func(err error, batch []*core.Message) error {
			if _, ok := errors.AsType[core.BatchError](err); err == nil || ok {
				return err
			}
			results := make(core.BatchError, len(batch))
			for i := range results {
				results[i] = err
			}
			return results
		}), "K13 K32"},
		"forgets a result": {classify(func(err error, batch []*core.Message) error {
			if results, ok := errors.AsType[core.BatchError](err); ok {
				return results[1:]
			}
			return err
		}), "K6 K9 K11 K12 K15 K17 K18 K25 K27"},
		"does not look at the context": {func(s *memory) core.Sink {
			return &mutant{memory: s, deliver: func(_ context.Context, batch []*core.Message) error {
				return s.Deliver(context.Background(), batch)
			}}
		}, "K14 K16 K20 K27 K28"},
		"waits for one topic before others": {func(s *memory) core.Sink {
			var turn sync.Mutex
			return &mutant{memory: s, deliver: func(ctx context.Context, batch []*core.Message) error {
				turn.Lock()
				defer turn.Unlock()
				return s.Deliver(ctx, batch)
			}}
		}, "K27"},
		"keeps what it could not send": {func(s *memory) core.Sink {
			return &mutant{memory: s, deliver: func(ctx context.Context, batch []*core.Message) error {
				err := s.Deliver(ctx, batch)
				if err != nil && len(batch[0].Body) == 10_000 {
					keptMu.Lock()
					defer keptMu.Unlock()
					if len(kept) < keptAtMost {
						kept = append(kept, make([]byte, keptEach))
					}
				}
				return err
			}}
		}, "K28"},
		"is always healthy": {func(s *memory) core.Sink {
			return &mutant{memory: s, health: func(context.Context) error { return nil }}
		}, "K29"},
		"is never healthy again": {func(s *memory) core.Sink {
			var last error
			return &mutant{memory: s, health: func(ctx context.Context) error {
				last = errors.Join(last, s.Health(ctx))
				return last
			}}
		}, "K29"},
		"leaves a goroutine": {func(s *memory) core.Sink {
			go func() {
				select {
				case <-s.closed:
					time.Sleep(3 * time.Second)
				case <-time.After(10 * time.Second):
				}
			}()
			return s
		}, "K30"},
		"works on when closed": {func(s *memory) core.Sink {
			return &mutant{memory: s, close: func() error { return nil }}
		}, "K23"},
		"hangs in Close": {func(s *memory) core.Sink {
			var calls atomic.Int32
			return &mutant{memory: s, close: func() error {
				if calls.Add(1) == 2 {
					time.Sleep(2500 * time.Millisecond)
				}
				return s.Close()
			}}
		}, "K21 K22 K23 K24"},
		"panics at the second Close": {func(s *memory) core.Sink {
			var once atomic.Bool
			return &mutant{memory: s, close: func() error {
				if once.Swap(true) {
					panic("close of closed channel")
				}
				return s.Close()
			}}
		}, "K21 K22 K23 K24"},
		"leaves its callers waiting when closed": {func(s *memory) core.Sink {
			return &mutant{memory: s, deliver: func(ctx context.Context, batch []*core.Message) error {
				err := s.Deliver(ctx, batch)
				if errors.Is(err, errClosed) {
					time.Sleep(5 * time.Second)
				}
				return err
			}}
		}, "K21 K23"},
		"confirms what it drops when closed": {each(func(err error) error {
			if errors.Is(err, errClosed) {
				return nil
			}
			return err
		}), "K21 K23"},
		"closes what others use": {func(s *memory) core.Sink {
			return &mutant{memory: s, deliver: func(ctx context.Context, batch []*core.Message) error {
				if bytes.Contains(batch[0].Body, []byte("the first being closed")) {
					return errClosed
				}
				return s.Deliver(ctx, batch)
			}}
		}, "K24"},
	}
}

// caseOf is the case with a number like K1.
func caseOf(number string) Case {
	return cases[slices.IndexFunc(cases, func(c Case) bool { return strings.HasPrefix(c.Name, number+" ") })]
}

// fails tells whether a case finds a fault within a few runs: some faults show
// only if goroutines meet in a certain order.
func fails(t *testing.T, c Case, kit plainKit) bool {
	for range 5 {
		if check(t.Context(), c, kit).Status == Failed {
			return true
		}
	}
	return false
}

func TestMutantsAreFound(t *testing.T) {
	for name, mutant := range mutants() {
		t.Run(name, func(t *testing.T) {
			kit := newBroker().kit(mutant.wrap)
			for _, number := range strings.Fields(mutant.want) {
				if c := caseOf(number); !fails(t, c, kit) {
					t.Errorf("passes %s", c.Name)
				}
			}
		})
	}
}

// TestOneMomentIsPardoned: a machine that stands still once, for longer than the
// sink waits, does not make the sink a bad one.
func TestOneMomentIsPardoned(t *testing.T) {
	for _, class := range []core.Class{core.Retry, core.Unknown} {
		for _, number := range strings.Fields("K1 K2 K10 K24 K26 K27") {
			var calls atomic.Int32
			kit := newBroker().kit(func(s *memory) core.Sink {
				return &mutant{memory: s, deliver: func(ctx context.Context, batch []*core.Message) error {
					if calls.Add(1) != 1 {
						return s.Deliver(ctx, batch)
					}
					if class == core.Unknown {
						s.Deliver(ctx, batch)
					}
					return core.Classify(class, errors.New("no answer in time"))
				}}
			})
			kit.ReadTimeout, kit.patience = 0, patience{}
			if r := check(t.Context(), caseOf(number), kit); r.Status != Passed {
				t.Errorf("%s with one try of class %s: %s %q", r.Name, class, r.Status, r.Log)
			}
		}
	}
}
