//go:build unix

package amqpsource

import (
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/journal"
	"github.com/delaybridge/delaybridge/integration/poll"
)

// logged runs a source whose log can be asked.
func (r *rig) logged(more map[string]any) (*running, *journal.Journal) {
	r.t.Helper()
	log := new(journal.Journal)
	made, err := New("src", r.config(more), r.interceptor(nil), slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		r.t.Fatal(err)
	}
	return r.run(made), log
}

// reaches publishes to an exchange, as a producer that does not ask whether a
// queue gets it, until the source has something of it.
func (r *rig) reaches(exchange, what string) {
	r.t.Helper()
	channel := r.open(r.URL())
	for n, deadline := 0, time.Now().Add(60*time.Second); ; n++ {
		if time.Now().After(deadline) {
			r.t.Fatalf("%s: nothing that was published has come to the source", what)
		}
		if channel.IsClosed() { // the exchange was missing
			channel = r.open(r.URL())
		}
		confirm, err := channel.PublishWithDeferredConfirm(exchange, "key", false, false, delayed(what+strconv.Itoa(n), what, "x-delay", int32(3_600_000)))
		if err == nil {
			confirm.Wait()
		}
		time.Sleep(50 * time.Millisecond) // between two tries
		r.store.Lock()
		last := len(r.store.Parked) - 1
		came := last >= 0 && string(r.store.Parked[last].Body) == what
		r.store.Unlock()
		if came {
			return
		}
	}
}

func (r *rig) deleteExchange(name string) {
	r.t.Helper()
	if err := r.channel.ExchangeDelete(name, false, false); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) declareExchange(name, kind string) {
	r.t.Helper()
	if err := r.channel.ExchangeDeclare(name, kind, true, false, false, false, nil); err != nil {
		r.t.Fatal(err)
	}
}

// TestExchangeRecreated: an exchange that was deleted loses its binding, and no
// consumer is told. The source gets its messages again all the same, without
// giving up what it is at.
func TestExchangeRecreated(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	name := r.name + ".delayed"
	src, log := r.logged(map[string]any{"exchanges": []map[string]any{{"name": name, "to": "orders"}},
		"queue_arguments": map[string]any{"x-queue-type": "quorum"}})
	r.awaitExchange(r.URL(), "delaybridge."+name)
	r.reaches(name, "at first")
	r.deleteExchange(name)
	r.declareExchange(name, amqp091.ExchangeFanout)
	r.reaches(name, "made by a producer")
	r.deleteExchange(name)
	r.reaches(name, "made by the source")
	if err := src.Stop(); err != nil {
		t.Error(err)
	}
	if strings.Contains(log.String(), "trouble") {
		t.Error("the source has begun again")
	}
	if n := strings.Count(log.String(), "the exchange was deleted"); n != 2 {
		t.Errorf("the log tells of %d deletions, want 2: %s", n, log)
	}
}

// TestExchangeWithAnAlternate: a policy leads what is published before the source is
// bound again to its queue, as the documents say.
func TestExchangeWithAnAlternate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	name, other := r.name+".delayed", r.name+".unbound"
	src, _ := r.logged(map[string]any{"exchanges": []map[string]any{{"name": name, "to": "orders"}}})
	r.awaitExchange(r.URL(), "delaybridge."+name)
	r.declareExchange(other, amqp091.ExchangeFanout)
	if err := r.channel.QueueBind("delaybridge."+name, "", other, false, nil); err != nil {
		t.Fatal(err)
	}
	r.Ctl("set_policy", "--apply-to", "exchanges", r.name, "^"+name+"$", `{"alternate-exchange":"`+other+`"}`)
	r.deleteExchange(name)
	r.declareExchange(name, amqp091.ExchangeFanout)
	const sent = 200
	for n := range sent {
		confirm, err := r.channel.PublishWithDeferredConfirm(name, "key", false, false, delayed("m"+strconv.Itoa(n), "", "x-delay", int32(3_600_000)))
		if err != nil || !confirm.Wait() {
			t.Fatalf("publish: %v", err)
		}
	}
	if got := len(r.store.Await(t, sent)); got != sent {
		t.Errorf("%d parked, want %d", got, sent)
	}
	if err := src.Stop(); err != nil {
		t.Error(err)
	}
}

// TestExchangeOfAnotherType: an exchange that the source can't bind to is
// reported, and waited for.
func TestExchangeOfAnotherType(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	name := r.name + ".delayed"
	_, log := r.logged(map[string]any{"exchanges": []map[string]any{{"name": name, "to": "orders"}}})
	r.reaches(name, "at first")
	for replaced := false; !replaced; { // unless the source was quicker
		r.deleteExchange(name)
		replaced = r.open(r.URL()).ExchangeDeclare(name, amqp091.ExchangeDirect, true, false, false, false, nil) == nil
	}
	// What is told is that it can't be declared, or, where the source looked just
	// when there was none, not be bound to.
	poll.Until(t, time.Minute, "a report", func() bool {
		return strings.Contains(log.String(), "source is failing") && strings.Contains(log.String(), name+": Exception")
	})
	r.deleteExchange(name)
	r.reaches(name, "fixed")
}

// TestOperatorsOwn: where the source may not declare anything, it does not try,
// however long it reads.
func TestOperatorsOwn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	name, queue := r.name+".delayed", r.queue(".mine", nil)
	r.declareExchange(name, amqp091.ExchangeFanout)
	if err := r.channel.QueueBind(queue, "", name, false, nil); err != nil {
		t.Fatal(err)
	}
	r.AddUser(r.name, "secret", "^$", "^$", "^"+queue+"$")
	r.store.SetFail(core.ErrUnavailable)
	src, log := r.logged(map[string]any{"urls": []string{r.URLAs(r.name, "secret")}, "prefetch": 1, "batch": 1,
		"exchanges": []map[string]any{{"name": name, "to": "orders", "queue": queue, "declare": false}}})
	for n := range 3 { // each Lag is that of a later look
		r.publish(queue, numbered(2*n, 2*n+2)...)
		poll.Until(t, time.Minute, "a count", func() bool { return src.Report().Lag == int64(2*n+1) })
	}
	r.store.SetFail(nil)
	r.store.Await(t, 6)
	if err := src.Stop(); err != nil {
		t.Error(err)
	}
	if strings.Contains(log.String(), "trouble") {
		t.Errorf("the source has begun again: %s", log)
	}
}
