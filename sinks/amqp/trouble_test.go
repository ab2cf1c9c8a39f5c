package amqp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
)

func sharedRabbit(t testing.TB) *rabbit {
	t.Helper()
	return &rabbit{RabbitMQServer: servers.SharedRabbitMQ(t)}
}

func message(topic, body string) *core.Message {
	now := time.Now()
	return &core.Message{ID: core.NewIDs().New(0, now), Topic: topic, Body: []byte(body), DeliverAt: now.Truncate(time.Millisecond), Attempt: 1}
}

// deliver returns a result for each message and whether they came apart.
func deliver(t testing.TB, s *Sink, limit time.Duration, batch ...*core.Message) (results []error, each bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	err := s.Deliver(ctx, batch)
	if results, ok := errors.AsType[core.BatchError](err); ok {
		return results, true
	}
	return slices.Repeat([]error{err}, len(batch)), false
}

func mustDeliver(t testing.TB, s *Sink, batch ...*core.Message) {
	t.Helper()
	results, _ := deliver(t, s, 30*time.Second, batch...)
	for _, err := range results {
		checkClass(t, err, -1)
	}
}

// bodies reads queue until it is empty.
func (r *rabbit) bodies(t testing.TB, queue string) []string {
	t.Helper()
	channel := r.channel(t)
	var bodies []string
	for {
		m, ok, err := channel.Get(queue, true)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return bodies
		}
		bodies = append(bodies, string(m.Body))
	}
}

func closeAtEnd(t testing.TB, s *Sink) {
	t.Helper()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestPropertiesArrive(t *testing.T) {
	r := sharedRabbit(t)
	s := openTest(t, nil, r.URL())
	closeAtEnd(t, s)
	queue := r.queue(t, amqp091.Table{"x-max-priority": 10})
	m := message(queue, "body")
	m.Priority = 9
	m.Options = map[string]string{"content_type": "text/plain", "content_encoding": "identity", "correlation_id": "c",
		"reply_to": "answers", "type": "t", "app_id": "app", "expiration_ms": "60000"}
	mustDeliver(t, s, m)
	d, ok, err := r.channel(t).Get(queue, true)
	if err != nil || !ok {
		t.Fatal("nothing arrived", err)
	}
	got := []any{d.MessageId, d.ContentType, d.ContentEncoding, d.CorrelationId, d.ReplyTo, d.Type, d.AppId, d.Expiration, d.Priority, d.DeliveryMode}
	want := []any{m.ID, "text/plain", "identity", "c", "answers", "t", "app", "60000", uint8(9), amqp091.Persistent}
	if !slices.Equal(got, want) {
		t.Errorf("properties %v, want %v", got, want)
	}
}

// TestNotMandatory checks that what nobody gets counts as delivered if the
// operator wants it so.
func TestNotMandatory(t *testing.T) {
	r := sharedRabbit(t)
	s := openTest(t, map[string]any{"mandatory": false, "persistent": false, "exchange": r.exchange(t, "unbound")}, r.URL())
	closeAtEnd(t, s)
	mustDeliver(t, s, message("nobody", "1"), message("nobody", "2"))
}

func TestMissingExchangeIsMade(t *testing.T) {
	r := sharedRabbit(t)
	exchange, queue := r.name("later"), r.queue(t, nil)
	s := openTest(t, map[string]any{"exchange": exchange}, r.URL())
	closeAtEnd(t, s)
	for range 3 {
		results, _ := deliver(t, s, 10*time.Second, message("key", "1"), message("key", "2"))
		checkClass(t, results[0], core.TopicBlocked)
		checkClass(t, results[1], core.TopicBlocked)
	}
	channel := r.channel(t)
	if err := errors.Join(channel.ExchangeDeclare(exchange, "direct", true, false, false, false, nil),
		channel.QueueBind(queue, "key", exchange, false, nil)); err != nil {
		t.Fatal(err)
	}
	mustDeliver(t, s, message("key", "1"), message("key", "2"))
	if got := r.bodies(t, queue); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("arrived: %q", got)
	}
}

// TestExchangeVanishes deletes an exchange that was in use: what was under way
// is unknown once, then each message is told the truth.
func TestExchangeVanishes(t *testing.T) {
	r := sharedRabbit(t)
	exchange, queue := r.exchange(t, "vanishes"), r.queue(t, nil)
	channel := r.channel(t)
	if err := channel.QueueBind(queue, "key", exchange, false, nil); err != nil {
		t.Fatal(err)
	}
	s := openTest(t, nil, r.URL())
	closeAtEnd(t, s)
	bad := func(body string) *core.Message {
		m := message("key", body)
		m.Options = map[string]string{"exchange": exchange}
		return m
	}
	mustDeliver(t, s, bad("first"), message(queue, "first by the default exchange"))
	if err := channel.ExchangeDelete(exchange, false, false); err != nil {
		t.Fatal(err)
	}
	batch := []*core.Message{message(queue, "good 1"), bad("bad 1"), message(queue, "good 2"), bad("bad 2"), message(queue, "good 3")}
	results, _ := deliver(t, s, 10*time.Second, batch...)
	for i, err := range results {
		if i%2 == 1 && core.ClassOf(err) != core.TopicBlocked && core.ClassOf(err) != core.Unknown {
			t.Errorf("message %d to an exchange that vanished: %v", i, err)
		}
	}
	results, _ = deliver(t, s, 10*time.Second, batch...)
	for i, err := range results {
		want := core.Class(-1)
		if i%2 == 1 {
			want = core.TopicBlocked
		}
		checkClass(t, err, want)
	}
	arrived := r.bodies(t, queue)
	for _, want := range []string{"first by the default exchange", "good 1", "good 2", "good 3"} {
		if !slices.Contains(arrived, want) {
			t.Errorf("%q did not arrive: %q", want, arrived)
		}
	}
}

// TestBrokerInTrouble does to one broker, in turn, what others could not share.
func TestBrokerInTrouble(t *testing.T) {
	r := startRabbit(t)
	t.Run("memory alarm", func(t *testing.T) { testMemoryAlarm(t, r) })
	t.Run("pauses", func(t *testing.T) { testBrokerPauses(t, r) })
	t.Run("lower limit", func(t *testing.T) { testPoisonIsIsolated(t, r) }) // which stays
}

// testPoisonIsIsolated lets the broker have a lower limit for bodies than the
// sink knows: it closes the channel then, whatever else is on it.
func testPoisonIsIsolated(t *testing.T, r *rabbit) {
	t.Helper()
	r.Ctl("eval", "persistent_term:put(max_message_size, 10000), application:set_env(rabbit, max_message_size, 10000).")
	s := openTest(t, nil, r.URL())
	closeAtEnd(t, s)
	queue := r.queue(t, nil)
	mustDeliver(t, s, message(queue, "first"))
	batch := make([]*core.Message, 20)
	for i := range batch {
		batch[i] = message(queue, fmt.Sprintf("good %d", i))
	}
	const poison = 7
	batch[poison].Body = make([]byte, 20_000)

	final := make([]error, len(batch))
	pending := batch
	for try := 1; len(pending) > 0; try++ {
		if try > 2 {
			t.Fatalf("%d messages have no result after %d tries", len(pending), try-1)
		}
		results, _ := deliver(t, s, 10*time.Second, pending...)
		var again []*core.Message
		for i, err := range results {
			if core.ClassOf(err) == core.Unknown && err != nil {
				again = append(again, pending[i])
				continue
			}
			final[slices.Index(batch, pending[i])] = err
		}
		pending = again
	}
	for i, err := range final {
		if i == poison {
			checkClass(t, err, core.Permanent)
		} else {
			checkClass(t, err, -1)
		}
	}
	if len(s.suspects.ids) > 0 {
		t.Errorf("%d suspects are left", len(s.suspects.ids))
	}
	arrived := r.bodies(t, queue)
	for i, m := range batch {
		if i != poison && !slices.Contains(arrived, string(m.Body)) {
			t.Errorf("message %d was confirmed but has not arrived", i)
		}
	}
}

// testMemoryAlarm checks that the sink stops when the broker asks for it, says
// so, and goes on afterwards.
func testMemoryAlarm(t *testing.T, r *rabbit) {
	t.Helper()
	s := openTest(t, nil, r.URL())
	closeAtEnd(t, s)
	queue := r.queue(t, nil)
	mustDeliver(t, s, message(queue, "before"))
	r.MemoryAlarm(true)
	// The broker tells a connection when it publishes.
	results, _ := deliver(t, s, time.Second, message(queue, "into the alarm"))
	if class := core.ClassOf(results[0]); results[0] == nil || class != core.Unknown && class != core.Blocked {
		t.Fatalf("into the alarm: %v, want unknown or blocked", results[0])
	}
	for range 3 {
		begin := time.Now()
		results, each := deliver(t, s, 30*time.Second, message(queue, "held back"), message(queue, "held back"))
		checkClass(t, results[0], core.Blocked)
		if took := time.Since(begin); each || took > 10*time.Second {
			t.Errorf("during the alarm: %v after %s, want one answer at once", results, took)
		}
	}
	if err := s.Health(t.Context()); core.ClassOf(err) != core.Blocked {
		t.Errorf("Health during the alarm: %v, want class blocked", err)
	}
	r.MemoryAlarm(false)
	deliverUntilConfirmed(t, s, 5*time.Second, message(queue, "after"))
	got := r.bodies(t, queue)
	if slices.Contains(got, "held back") || !slices.Contains(got, "before") || !slices.Contains(got, "after") {
		t.Errorf("arrived: %q", got)
	}
}

// testBrokerPauses stops the broker's process for a while, as a machine that
// swaps does: connections stay, nothing answers.
func testBrokerPauses(t *testing.T, r *rabbit) {
	t.Helper()
	s := openTest(t, map[string]any{"dial_timeout": "1s", "write_timeout": "1s"}, r.URL())
	closeAtEnd(t, s)
	queue := r.queue(t, nil)
	mustDeliver(t, s, message(queue, "before"))
	r.Pause()
	for _, want := range []core.Class{core.Unknown, core.Retry, core.Retry} {
		begin := time.Now()
		results, _ := deliver(t, s, 1500*time.Millisecond, message(queue, "during"))
		checkClass(t, results[0], want)
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("Deliver took %s of 1.5s", took)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := s.Health(ctx); err == nil {
		t.Error("Health is good while the broker is paused")
	}
	r.Resume()
	deliverUntilConfirmed(t, s, 3*time.Second, message(queue, "after"))
	// What is sent again until it is confirmed may arrive more than once.
	got := r.bodies(t, queue)
	during := 0
	for _, body := range got {
		if body == "during" {
			during++
		}
	}
	if during > 1 || !slices.Contains(got, "before") || !slices.Contains(got, "after") {
		t.Errorf("arrived: %q, want at most one of the pause", got)
	}
}

// deliverUntilConfirmed tries again what a broker in trouble has not confirmed.
func deliverUntilConfirmed(t *testing.T, s *Sink, each time.Duration, m *core.Message) {
	t.Helper()
	if err := poll.Succeeds(time.Minute, func() error { results, _ := deliver(t, s, each, m); return results[0] }); err != nil {
		t.Fatal(err)
	}
}

func TestOtherNodesAreTried(t *testing.T) {
	r := sharedRabbit(t)
	queue := r.queue(t, nil)
	s := openTest(t, nil, "amqp://127.0.0.1:1/", r.URL(), "amqp://127.0.0.1:2/")
	closeAtEnd(t, s)
	mustDeliver(t, s, message(queue, "1"))
	s.links[0].current.kill(errors.New("killed by the test"))
	for deadline := time.Now().Add(time.Minute); ; {
		results, _ := deliver(t, s, 5*time.Second, message(queue, "2"))
		if results[0] == nil {
			break
		}
		if class := core.ClassOf(results[0]); class != core.Retry && class != core.Unknown || time.Now().After(deadline) {
			t.Fatalf("%v, want retry, unknown or success", results[0])
		}
	}
}

func TestRefusedConnections(t *testing.T) {
	r := sharedRabbit(t)
	nobody := "amqp://127.0.0.1:1/"
	wrong := through(t, "amqp://guest:wrong-secret@host/", r.Addr())
	noHost := r.URL() + "no-such-host"
	tests := []struct {
		name string
		urls []string
		want core.Class
	}{
		{"nobody listens", []string{nobody}, core.Retry},
		{"wrong password", []string{wrong}, core.Blocked},
		{"virtual host is missing", []string{noHost}, core.Blocked},
		{"wrong password and nobody", []string{wrong, nobody}, core.Retry},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := openTest(t, nil, tt.urls...)
			closeAtEnd(t, s)
			results, each := deliver(t, s, 10*time.Second, message("queue", "1"), message("queue", "2"))
			checkClass(t, results[0], tt.want)
			if each {
				t.Error("a result for each message, want one answer for the sink")
			}
			if strings.Contains(results[0].Error(), "wrong-secret") {
				t.Errorf("the password is shown: %v", results[0])
			}
		})
	}
}

// TestDialsAreRationed calls a sink again and again whose broker is down, for
// as long as a few dials take.
func TestDialsAreRationed(t *testing.T) {
	s := openTest(t, nil, "amqp://127.0.0.1:1/")
	closeAtEnd(t, s)
	failures := func() int {
		s.links[0].mu.Lock()
		defer s.links[0].mu.Unlock()
		return s.links[0].failures
	}
	begin := time.Now()
	took := func() time.Duration { return time.Since(begin) }
	for took() < 300*time.Millisecond || failures() < 2 && took() < 30*time.Second {
		results, _ := deliver(t, s, 10*time.Second, message("queue", "1"))
		checkClass(t, results[0], core.Retry)
	}
	if n, most := failures(), 8+int(took()/(250*time.Millisecond)); n < 2 || n > most {
		t.Errorf("%d dials in %s, want a few", n, took())
	}
}

// TestCloseTwiceAtOnce: neither Close writes what the other reads.
func TestCloseTwiceAtOnce(t *testing.T) {
	s := openTest(t, map[string]any{"connections": 3}, "amqp://127.0.0.1:1/")
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if spare := s.links[:cap(s.links)]; slices.Contains(spare, s.apart) {
		t.Error("Close wrote behind the links")
	}
}
