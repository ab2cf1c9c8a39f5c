package core_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
)

const (
	simSink     = "orders"
	simBuckets  = 3
	simMessages = 60
	simTimeout  = 3 * time.Second
	simTrouble  = 40 * time.Second // while faults last
	simAttempts = 4
	// simPatience is how long after the last fault everything must be settled:
	// the longest back-off and the longest delivery, with room.
	simPatience = 3 * time.Minute
)

// TestSimulation runs the engine in virtual time on a store and a sink that
// fail by a seed: nothing may be lost, early, or delivered after it was
// cancelled, while faults last, and everything must be settled soon after they
// have stopped. DELAYBRIDGE_SEEDS says how many seeds, DELAYBRIDGE_SEED which one.
func TestSimulation(t *testing.T) {
	first, count := uint64(1), uint64(numberFrom(t, "DELAYBRIDGE_SEEDS", 200))
	if one := numberFrom(t, "DELAYBRIDGE_SEED", 0); one > 0 {
		first, count = uint64(one), 1
	}
	seen := new(rare)
	for seed := first; seed < first+count; seed++ {
		synctest.Test(t, func(t *testing.T) { simulate(t, seed, 0.3, seen) })
		if t.Failed() {
			t.Fatalf("replay with DELAYBRIDGE_SEED=%d go test -run TestSimulation ./core", seed)
		}
	}
	if err := seen.unreached(); err != nil && count > 1 {
		t.Error(err)
	}
}

// TestSimulationWithoutFaults: then nothing is delivered twice.
func TestSimulationWithoutFaults(t *testing.T) {
	seen := new(rare)
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) { simulate(t, seed, 0, seen) })
	}
	if n := seen.repeats.Load(); n > 0 {
		t.Errorf("%d repeats without a fault", n)
	}
}

func numberFrom(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// simulation is one run, and the ledger of what its producers were told.
type simulation struct {
	*testing.T
	*faults
	seed  uint64
	seen  *rare
	began time.Time
	in    *core.Interceptor
	store *memstore.Store
	sink  *shakySink

	mu      sync.Mutex
	ledgers map[string]*account
}

// account is what is known of one message.
type account struct {
	poison    bool
	accepted  bool          // a receipt says that it is stored
	notBefore time.Duration // since the run began; by the most lenient reading
	cancelled bool          // for sure, before any attempt
	withdrawn bool          // perhaps
	ttl       bool
}

func simulate(t *testing.T, seed uint64, rate float64, seen *rare) {
	f := newFaults(seed, rate)
	s := &simulation{T: t, faults: f, seed: seed, seen: seen, began: time.Now(), ledgers: make(map[string]*account),
		store: memstore.New(memstore.Config{Buckets: simBuckets}),
		sink:  &shakySink{faults: f, seen: seen, began: time.Now(), arrived: make(map[string][]arrival), panicked: make(map[string]bool)}}
	shaky := &shakyStore{Store: s.store, faults: f, seen: seen}
	d := &core.Dispatcher{Name: simSink, Sink: s.sink, Timeout: simTimeout, MaxBatch: 1 + f.below(20),
		Retry: core.RetryPolicy{Initial: 200 * time.Millisecond, Max: 5 * time.Second, MaxAttempts: simAttempts}}
	bridge := core.NewBridge(shaky, core.Options{}, d)
	s.in = bridge.Interceptor
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- bridge.Run(ctx) }()
	s.produce(ctx)
	time.Sleep(simTrouble)
	s.heal()
	time.Sleep(simPatience)
	s.deliversAgain(d)
	s.check()
	stop()
	if err := <-ended; err != nil {
		t.Errorf("seed %d: bridge ended with %v", seed, err)
	}
	shaky.zombies.Wait()
}

// produce has every message sent by a producer of its own, who insists, and
// some of them changed later on.
func (s *simulation) produce(ctx context.Context) {
	for n := range simMessages {
		id := fmt.Sprintf("m-%d", n)
		m := core.Message{ID: id, Sink: simSink, Topic: "t", Body: []byte(id), Delay: time.Duration(s.below(int(simTrouble)))}
		a := &account{poison: s.below(20) == 0, ttl: s.below(10) == 0, notBefore: time.Since(s.began) + m.Delay}
		if a.poison {
			m.Body = []byte(poison)
		}
		if a.ttl {
			m.TTL = m.Delay + time.Second
		}
		if s.below(3) == 0 {
			m.Key = []byte{byte(s.below(4))}
		}
		s.ledgers[id] = a
		change := s.below(4)
		go func() {
			if s.insist(ctx, m, a) {
				time.Sleep(time.Duration(s.below(int(simTrouble))))
				s.change(ctx, change, core.Ref{ID: id, Sink: simSink, Key: m.Key}, a)
			}
		}()
	}
}

// insist sends m until it is told that it is stored, as long as faults last.
func (s *simulation) insist(ctx context.Context, m core.Message, a *account) bool {
	for time.Since(s.began) < simTrouble {
		again := m
		receipt := s.in.Accept(ctx, &again)[0]
		switch {
		case receipt.Err == nil:
			s.mu.Lock()
			defer s.mu.Unlock()
			a.accepted = true
			return true
		case !errors.Is(receipt.Err, core.ErrUnavailable) && !errors.Is(receipt.Err, core.ErrUnknown):
			s.Errorf("seed %d: %s was refused: %v", s.seed, m.ID, receipt.Err)
			return false
		}
		time.Sleep(time.Duration(s.below(int(time.Second))))
	}
	return false
}

// change cancels or reschedules, by what; mostly it does nothing.
func (s *simulation) change(ctx context.Context, what int, ref core.Ref, a *account) {
	var receipt core.Receipt
	var err error
	switch what {
	case 0:
		s.mu.Lock()
		a.withdrawn = true
		s.mu.Unlock()
		receipt, err = s.in.Cancel(ctx, ref)
	case 1:
		after := time.Duration(s.below(int(10 * time.Second)))
		s.mu.Lock()
		a.notBefore = min(a.notBefore, time.Since(s.began)+after)
		s.mu.Unlock()
		receipt, err = s.in.Reschedule(ctx, ref, core.When{After: after})
	default:
		return
	}
	if errors.Is(err, core.ErrTooLate) {
		s.seen.tooLate.Add(1)
	}
	if what == 0 && err == nil && receipt.Attempt == 0 {
		s.seen.cancelled.Add(1)
		s.mu.Lock()
		defer s.mu.Unlock()
		a.cancelled = true
	}
}

// deliversAgain sends one more message, as a sink that was paused when it had
// nothing left to deliver stays so until it has.
func (s *simulation) deliversAgain(d *core.Dispatcher) {
	receipt := s.in.Accept(s.Context(), &core.Message{ID: "last", Sink: simSink, Topic: "t"})[0]
	time.Sleep(2 * time.Second)
	if reason, _ := d.Paused(); receipt.Err != nil || len(s.sink.arrivals("last")) != 1 || reason != "" {
		s.Errorf("seed %d: after all faults a message was not delivered: %v; the sink is paused: %q", s.seed, receipt.Err, reason)
	}
}

// check holds the ledger against what arrived and what the store still has.
func (s *simulation) check() {
	stats, err := s.store.Stats(s.Context(), simSink)
	if err != nil {
		s.Fatal(err)
	}
	if stats[0].Scheduled > 0 {
		s.Errorf("seed %d: %d messages are not settled %s after the last fault", s.seed, stats[0].Scheduled, simPatience)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, a := range s.ledgers {
		if err := s.audit(id, a); err != nil {
			s.Errorf("seed %d: %s: %v; arrivals %+v", s.seed, id, err, s.sink.arrivals(id))
		}
	}
}

// audit returns what the contract says may not be.
func (s *simulation) audit(id string, a *account) error {
	arrivals, firsts := s.sink.arrivals(id), 0
	for _, one := range arrivals {
		if one.after < a.notBefore {
			return fmt.Errorf("early: due at %s", a.notBefore)
		}
		if one.attempt == 1 {
			firsts++
		}
	}
	entry, err := s.store.Get(s.Context(), core.Ref{ID: id, Sink: simSink})
	dead := err == nil && (entry.State == core.Dead || entry.State == core.Expired)
	if dead && entry.Reason == "attempts" || dead && entry.Reason == "crashed" {
		s.seen.attemptsSpent.Add(1)
	}
	switch {
	case a.cancelled && len(arrivals) > 0:
		return errors.New("delivered though cancelled before any attempt")
	case a.poison && len(arrivals) > 0:
		return errors.New("delivered though the broker refuses it")
	case firsts > 1 && !s.sink.panicked[id]:
		return errors.New("two arrivals claim to be the first attempt")
	case dead && entry.State == core.Expired && !a.ttl:
		return errors.New("expired without an expiry")
	case a.accepted && len(arrivals) == 0 && !dead && !a.withdrawn:
		return fmt.Errorf("lost: the store says %+v, %v", entry, err)
	}
	return nil
}
