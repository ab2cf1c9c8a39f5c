package suite

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// targetDown checks that an unreachable target is trouble of the sink as a
// whole, said in time, and that the messages go out when it is back.
func targetDown(e *env) {
	sink, topic := e.open(), e.kit.NewTopic(e.T)
	e.mustDeliver(sink, e.message(topic, "first"))
	heal := e.fault("down", e.kit.Faults.Down)
	// The first tries may find a connection that looks alive.
	var err error
	for range 5 {
		ctx, cancel := context.WithTimeout(e.Context(), e.kit.Timeout)
		batch := e.messages(topic, 3)
		err = e.once(ctx, sink, batch)
		cancel()
		for i, m := range batch {
			e.ledger.note(m, resultOf(err, i))
			e.transient(resultOf(err, i))
		}
	}
	_, each := errors.AsType[core.BatchError](err)
	if err == nil || each || core.ClassOf(err) != core.Retry {
		e.Errorf("the target is down: %v, want one error of class retry for the sink", err)
	}
	heal()
	e.untilConfirmed(e.ample, sink, e.messages(topic, 3)...)
	e.audit(topic)
}

func resultOf(err error, i int) error {
	if each, ok := errors.AsType[core.BatchError](err); ok && i < len(each) {
		return each[i]
	}
	return err
}

func targetStalls(e *env) {
	sink, topic := e.open(), e.kit.NewTopic(e.T)
	e.mustDeliver(sink, e.message(topic, "first"))
	heal := e.fault("stall", e.kit.Faults.Stall)
	var senders sync.WaitGroup
	for range 4 {
		senders.Go(func() {
			for i, err := range e.deliverWithin(e.kit.Timeout, sink, e.messages(topic, 50)...) {
				if err == nil {
					e.Errorf("message %d is confirmed, but the target stalls", i)
				}
				e.transient(err)
			}
		})
	}
	senders.Wait()
	heal()
	e.untilConfirmed(e.ample, sink, e.messages(topic, 3)...)
	e.audit(topic)
}

const cuts = 4

// cutWhileSending resets the connections while messages are on their way, and
// sends again what was not confirmed.
func cutWhileSending(e *env) {
	if e.kit.Faults.Cut == nil {
		e.lacks("cut")
	}
	sink, topic := e.open(), e.kit.NewTopic(e.T)
	e.mustDeliver(sink, e.message(topic, "first"))
	for range cuts {
		var senders sync.WaitGroup
		begun := make(chan struct{}, 4)
		for range cap(begun) {
			senders.Go(func() {
				begun <- struct{}{}
				e.untilConfirmed(e.ample, sink, e.messages(topic, 200)...)
			})
		}
		<-begun
		e.kit.Faults.Cut(e.T)
		senders.Wait()
	}
	e.audit(topic)
}

// replyLost lets the target do what it is asked without the sink hearing of it.
func replyLost(e *env) {
	sink, topic := e.open(), e.kit.NewTopic(e.T)
	e.mustDeliver(sink, e.message(topic, "first"))
	heal := e.fault("lose replies", e.kit.Faults.LoseReplies)
	batch := e.messages(topic, 3)
	for i, err := range e.deliverWithin(e.kit.Timeout, sink, batch...) {
		if err == nil {
			e.Errorf("message %d is confirmed, but the target's answers are lost", i)
		}
		e.transient(err)
	}
	heal()
	for i := range batch {
		batch[i] = again(batch[i])
	}
	e.untilConfirmed(e.ample, sink, batch...)
	e.audit(topic)
}

// targetRestarts kills the target under load. Nothing that was confirmed may be
// lost, and work continues by itself.
func targetRestarts(e *env) {
	if e.kit.Faults.Restart == nil {
		e.lacks("restart")
	}
	sink, topic := e.open(), e.kit.NewTopic(e.T)
	var sender sync.WaitGroup
	stop, begun := make(chan struct{}), make(chan struct{}, 1)
	sender.Go(func() {
		for {
			e.untilConfirmed(4*e.ample, sink, e.messages(topic, 20)...)
			select {
			case begun <- struct{}{}:
			case <-stop:
				return
			default:
			}
		}
	})
	end := sync.OnceFunc(func() { close(stop); sender.Wait() })
	defer end() // also if the target does not come back
	<-begun
	e.kit.Faults.Restart(e.T)
	back := time.Now()
	end()
	if late := time.Since(back); late > 2*e.ample {
		e.Errorf("the first success came %s after the target was back, want at most %s", late, 2*e.ample)
	}
	e.audit(topic)
}

func contextEnds(e *env) {
	sink, topic := e.open(), e.kit.NewTopic(e.T)
	e.mustDeliver(sink, e.message(topic, "first"))
	ended, cancel := context.WithCancel(e.Context())
	cancel()
	e.deliveredSoon(func() { e.deliver(ended, sink, e.messages(topic, 3)...) })

	heal := e.fault("stall", e.kit.Faults.Stall)
	ctx, cancel := context.WithCancel(e.Context())
	cancelled := make(chan time.Time, 1)
	time.AfterFunc(50*time.Millisecond, func() { cancelled <- time.Now(); cancel() })
	for _, err := range e.deliver(ctx, sink, e.messages(topic, 20)...) {
		e.transient(err)
	}
	if late := time.Since(<-cancelled); late > e.soon {
		e.Errorf("Deliver returned %s after its context had ended, want at most %s", late, e.soon)
	}
	heal()
	e.untilConfirmed(e.ample, sink, e.messages(topic, 3)...)
	e.audit(topic)
}

func (e *env) deliveredSoon(call func()) {
	e.Helper()
	begin := time.Now()
	call()
	if took := time.Since(begin); took > e.soon {
		e.Errorf("Deliver took %s although its context had ended, want at most %s", took, e.soon)
	}
}

const (
	maxGrowth     = 64 << 20
	maxGoroutines = 300
)

// memoryBounded keeps sending into a stalled target, as an engine that owns
// sixteen buckets would.
func memoryBounded(e *env) {
	sink, topic := e.open(), e.kit.NewTopic(e.T)
	e.mustDeliver(sink, e.message(topic, "first"))
	heal := e.fault("stall", e.kit.Faults.Stall)
	before, goroutines := heapInUse(), runtime.NumGoroutine()
	ctx, stop := context.WithTimeout(e.Context(), 2*e.kit.Timeout)
	defer stop()
	body := string(make([]byte, 10_000))
	var senders sync.WaitGroup
	for range 16 {
		senders.Go(func() {
			for ctx.Err() == nil {
				e.sendInVain(sink, topic, body)
			}
		})
	}
	if !e.bounded("each Deliver", 2*e.kit.Timeout+e.ample, senders.Wait) {
		return
	}
	if grown := heapInUse() - before; grown > maxGrowth {
		e.Errorf("%d MiB more in use after a stall, want at most %d", grown>>20, maxGrowth>>20)
	}
	if more := runtime.NumGoroutine() - goroutines; more > maxGoroutines {
		e.Errorf("%d more goroutines after a stall, want at most %d", more, maxGoroutines)
	}
	heal()
	e.untilConfirmed(e.ample, sink, e.message(topic, "last"))
}

// sendInVain is a Deliver that leaves no trace in the ledger, which would be
// counted as the sink's memory.
func (e *env) sendInVain(sink core.Sink, topic, body string) {
	batch := e.messages(topic, 10)
	for _, m := range batch {
		m.Body = []byte(body)
	}
	ctx, cancel := context.WithTimeout(e.Context(), max(e.kit.Timeout/30, time.Millisecond))
	defer cancel()
	e.transient(sink.Deliver(ctx, batch))
}

func heapInUse() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

func healthFollows(e *env) {
	sink := e.open()
	checker, ok := core.Ability[core.HealthChecker](sink)
	if !ok {
		e.lacks("health")
	}
	e.awaitHealth(checker, true, e.green)
	heal := e.fault("down", e.kit.Faults.Down)
	e.awaitHealth(checker, false, e.red)
	heal()
	e.awaitHealth(checker, true, e.green)
}

func (e *env) awaitHealth(checker core.HealthChecker, green bool, limit time.Duration) {
	e.Helper()
	var err error
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); pause(e.Context(), 20*time.Millisecond) {
		ctx, cancel := context.WithTimeout(e.Context(), e.kit.Timeout)
		e.bounded("Health", e.kit.Timeout+e.late, func() { err = checker.Health(ctx) })
		cancel()
		if green == (err == nil) {
			return
		}
	}
	e.Errorf("after %s Health says %v", limit, err)
}
