//go:build unix

package amqpsource

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
	"github.com/delaybridge/delaybridge/sinks/sinktest"
)

// TestCutOff: whenever the connection breaks, all is parked once.
func TestCutOff(t *testing.T) {
	r := newRig(t)
	in := r.queue(".delayed", nil)
	wire := sinktest.NewWire(t)
	const total = 3000
	r.publish(in, numbered(0, total)...)
	parks := 0
	r.store.After = func() {
		if parks++; parks%3 == 0 && parks < 30 { // parked, but not acknowledged
			wire.Faults().Cut(t)
		}
	}
	config := map[string]any{"urls": []string{"amqp://guest:guest@127.0.0.1:1/", r.through(wire.Addr(t, r.Addr()))}, "queues": []string{in}, "batch": 100, "prefetch": 250}
	duplicates := r.empty(in, config, func(uint64) bool { r.store.Await(t, total); return true })
	r.wantOnce(total)
	if duplicates == 0 {
		t.Error("nothing came twice, so that nothing was tried")
	}
}

// TestKilled: what a source had in flight when it was killed is parked once by
// the next.
func TestKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	in := r.queue(".delayed", map[string]any{"x-queue-type": "quorum"})
	wire := sinktest.NewWire(t)
	const total = 1000
	r.publish(in, numbered(0, total)...)
	down := false
	r.store.After = func() {
		if !down {
			down = true
			wire.Faults().Down(t) // no acknowledgement comes through any more
		}
	}
	first := r.run(r.source(map[string]any{"urls": []string{r.through(wire.Addr(t, r.Addr()))}, "queues": []string{in}}))
	r.store.Until(t, "the first", func() bool { return down })
	first.Stop()
	r.run(r.source(map[string]any{"queues": []string{in}}))
	r.store.Await(t, total)
	poll.Until(t, time.Minute, "an empty queue", func() bool { return r.ready(in) == 0 })
	r.wantOnce(total)
}

// TestStoreUnreachable: nothing is skipped, rejected or acknowledged while the store
// fails, whatever the way.
func TestStoreUnreachable(t *testing.T) {
	r := newRig(t)
	in, rejects := r.queue(".delayed", nil), r.queue(".rejected", nil)
	src := r.run(r.source(map[string]any{"queues": []string{in}, "reject_queue": rejects, "prefetch": 20}))
	published := 0
	for _, fault := range []error{core.ErrUnavailable, core.ErrFull, core.ErrUnknown, errors.New("unheard of")} {
		r.store.SetFail(fault)
		r.publish(in, numbered(published, published+50)...)
		published += 50
		r.store.Lock()
		before := r.store.Failed
		r.store.Unlock()
		r.store.Until(t, "some tries", func() bool { return r.store.Failed > before+3 })
		poll.Until(t, time.Minute, "30 messages left in the queue, as a prefetch of 20 is in flight", func() bool { return r.ready(in) == 30 })
		r.store.SetFail(nil)
		r.store.Await(t, published)
	}
	if err := src.Stop(); err != nil {
		t.Error(err)
	}
	r.wantOnce(published)
	if report := src.Report(); report.Rejected != 0 || report.Retried == 0 {
		t.Errorf("%+v", report)
	}
}

// TestStopWhileStoreUnreachable: what is not parked stays in the broker.
func TestStopWhileStoreUnreachable(t *testing.T) {
	r := newRig(t)
	in := r.queue(".delayed", nil)
	r.publish(in, numbered(0, 50)...)
	r.store.SetFail(core.ErrUnavailable)
	made := r.source(map[string]any{"queues": []string{in}})
	made.parker.Linger = 10 * time.Millisecond
	src := r.run(made)
	r.store.Until(t, "a try", func() bool { return r.store.Failed > 1 })
	if err := src.Stop(); err != nil {
		t.Error(err)
	}
	poll.Until(t, time.Minute, "all back in the queue", func() bool { return r.ready(in) == 50 })
}

// TestSilentBroker: a broker that says nothing any more holds nobody back who
// wants to stop, and one that is slow to begin is tried again.
func TestSilentBroker(t *testing.T) {
	r := newRig(t)
	in := r.queue(".delayed", nil)
	wire := sinktest.NewWire(t)
	heal := wire.Faults().Stall(t)
	settings := map[string]any{"urls": []string{r.through(wire.Addr(t, r.Addr()))}, "queues": []string{in}, "dial_timeout": "300ms", "write_timeout": "300ms"}
	src := r.run(r.source(settings))
	time.Sleep(time.Second)
	heal()
	r.publish(in, numbered(0, 1)...)
	r.store.Await(t, 1)
	heal = wire.Faults().Stall(t)
	defer heal()
	began := time.Now()
	if err := src.Stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %s to stop", took)
	}
}

// TestQueueComesAndGoes: a queue that is missing, or is deleted, is waited for,
// and the others are read meanwhile.
func TestQueueComesAndGoes(t *testing.T) {
	r := newRig(t)
	other := r.queue(".other", nil)
	in := r.name + ".delayed"
	src := r.run(r.source(map[string]any{"queues": []string{in, other}}))
	r.publish(other, numbered(0, 1)...)
	r.store.Await(t, 1)
	r.queue(".delayed", nil)
	r.publish(in, numbered(1, 2)...)
	r.store.Await(t, 2)
	if _, err := r.channel.QueueDelete(in, false, false, false); err != nil {
		t.Fatal(err)
	}
	r.publish(other, numbered(2, 3)...)
	r.store.Await(t, 3)
	r.queue(".delayed", nil)
	r.publish(in, numbered(3, 4)...)
	r.store.Await(t, 4)
	poll.Until(t, time.Minute, "a count", func() bool { return src.Report().Lag == 0 })
	if err := src.Stop(); err != nil {
		t.Error(err)
	}
	r.wantOnce(4)
}

// TestAlarmAndRestart: a broker that is short of memory holds up what is
// rejected, and nothing else; and one that is killed and comes back is read on.
func TestAlarmAndRestart(t *testing.T) {
	t.Parallel()
	r := rigOf(t, servers.RabbitMQ(t))
	in, other, rejects := r.queue(".delayed", nil), r.queue(".other", nil), r.queue(".rejected", nil)
	r.publish(in, delayed("bad", "bad"))
	r.publish(other, numbered(0, 10)...)
	r.MemoryAlarm(true)
	src := r.run(r.source(map[string]any{"queues": []string{in, other}, "reject_queue": rejects, "confirm_timeout": "300ms"}))
	r.store.Await(t, 10)
	poll.Until(t, time.Minute, "tries", func() bool { return src.Report().Retried > 1 })
	poll.Until(t, time.Minute, "acknowledgements", func() bool { return strings.Contains(r.Ctl("list_queues", "name", "messages"), other+"\t0\n") })
	r.MemoryAlarm(false)
	if d := r.take(r.channel, rejects); string(d.Body) != "bad" {
		t.Errorf("%+v", d)
	}
	r.Kill()
	r.Start()
	r.channel = r.open(r.URL())
	r.publish(other, numbered(10, 20)...)
	r.store.Await(t, 20)
	if err := src.Stop(); err != nil {
		t.Error(err)
	}
	r.wantOnce(20)
}
