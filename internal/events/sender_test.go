package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// broker is a sink for events that fails as it is told.
type broker struct {
	mu     sync.Mutex
	got    []*core.Message
	fail   func(batch []*core.Message) error // before anything is sent
	closed bool
}

func (b *broker) Deliver(ctx context.Context, batch []*core.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail == nil {
		b.got = append(b.got, batch...)
		return nil
	}
	err := b.fail(batch)
	results, each := errors.AsType[core.BatchError](err)
	for n, m := range batch {
		if each && results[n] == nil {
			b.got = append(b.got, m)
		}
	}
	return err
}

func (b *broker) Close() error { b.closed = true; return nil }

func (b *broker) fails(f func(batch []*core.Message) error) { b.mu.Lock(); b.fail = f; b.mu.Unlock() }

// keys are those of what came.
func (b *broker) keys() (keys []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.got {
		keys = append(keys, string(m.Key))
	}
	return keys
}

// box is an Outbox.
type box struct {
	lines chan []byte
	again [][]byte
	lost  int
	looks atomic.Int32
}

func (b *box) Unsent(ctx context.Context) ([][]byte, int, func(context.Context) error, error) {
	lines := b.again
	if lines == nil {
		select {
		case line := <-b.lines:
			lines = [][]byte{line}
		case <-ctx.Done():
			return nil, 0, nil, ctx.Err()
		}
	}
	b.again = lines
	return lines, b.lost, func(context.Context) error { b.again = nil; return nil }, nil
}

func (b *box) UnsentBytes() int64            { return 7 }
func (b *box) LookForUnsent(context.Context) { b.looks.Add(1) }

// sendingTo gives f a Sender that runs in a bubble of virtual time.
func sendingTo(t *testing.T, b *broker, outbox *box, f func(s *Stream, to *Sender)) {
	synctest.Test(t, func(t *testing.T) {
		s := New("here")
		c := SenderConfig{Name: "kafka", Topic: "events", Timeout: time.Second, Log: slog.New(slog.DiscardHandler)}
		outbox.lines = make(chan []byte)
		c.Outbox = outbox
		to := s.SendTo(b, c)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- to.Run(ctx) }()
		f(s, to)
		cancel()
		began := time.Now()
		if err := errors.Join(<-ended, to.Close()); err != nil || time.Since(began) > lastSend {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

func tell(s *Stream, ids ...string) {
	for _, id := range ids {
		s.onAccepted(context.Background(), core.Acceptance{Messages: []*core.Message{{ID: id, Topic: "t"}}, Receipts: []core.Receipt{{ID: id}}})
	}
}

func final(s *Stream, id string) []byte {
	return s.Final(false)("kafka:3:000001:delivered:"+id, &core.Message{ID: id, Topic: "t", Body: []byte("b"), Attempt: 1}, core.Outcome{ID: id, State: core.Delivered})
}

// TestSender: each record is one event, with its id and the key of its message.
func TestSender(t *testing.T) {
	b, outbox := &broker{}, &box{lost: 3}
	sendingTo(t, b, outbox, func(s *Stream, to *Sender) {
		tell(s, "a", "b")
		outbox.lines <- final(s, "c")
		s.Reloaded([]string{"log.level"}, nil)
		s.onChanged(context.Background(), core.Change{Action: core.ActionCancel, Ref: core.Ref{ID: "z"}}) // is told by the outbox
		synctest.Wait()
		ids := map[string]bool{}
		for _, m := range b.got {
			var e Event
			if err := json.Unmarshal(m.Body, &e); err != nil || e.EventID != m.ID || e.ID != string(m.Key) || m.Topic != "events" || m.Sink != "kafka" || e.BodyBase64 != nil || e.Body != nil {
				t.Errorf("%s: %s, %v", m.ID, m.Body, err)
			}
			ids[m.ID] = true
		}
		keys := b.keys()
		if slices.Sort(keys); !slices.Equal(keys, []string{"", "a", "b", "c"}) || len(ids) != 4 {
			t.Errorf("%q, %v", keys, ids)
		}
		want := Counts{Sends: true, FinalSent: 1, FinalFull: 3, OtherSent: 3, FinalWaiting: 7}
		if got := s.Counts(); got != want {
			t.Errorf("%+v", got)
		}
	})
}

// TestSenderAtAnOutage: final events are sent until the sink takes them, others as many as
// there is room for; what is refused is dropped, alone.
func TestSenderAtAnOutage(t *testing.T) {
	b, outbox := &broker{}, &box{}
	b.fail = func([]*core.Message) error { return errors.New("down") }
	sendingTo(t, b, outbox, func(s *Stream, to *Sender) {
		outbox.lines <- final(s, "final")
		large := strings.Repeat("x", maxWaiting/4)
		began := time.Now()
		for n := range 8 {
			tell(s, fmt.Sprint(n)+large)
		}
		if time.Since(began) != 0 {
			t.Error("somebody waited")
		}
		time.Sleep(time.Hour)
		if c := s.Counts(); c.FinalSent+c.OtherSent != 0 || c.OtherFull < 3 || c.OtherWaiting == 0 {
			t.Errorf("%+v", c)
		}
		if outbox.looks.Load() < 100 {
			t.Error("nobody sees how much waits")
		}
		b.fails(func(batch []*core.Message) error {
			results := make(core.BatchError, len(batch))
			for n, m := range batch {
				if strings.HasPrefix(string(m.Key), "1") {
					results[n] = core.Classify(core.Permanent, errors.New("no"))
				}
			}
			return results
		})
		time.Sleep(time.Minute)
		c := s.Counts()
		if c.FinalSent != 1 || c.OtherRefused != 1 || c.OtherSent+c.OtherRefused+c.OtherFull != 8 || c.OtherWaiting != 0 {
			t.Errorf("%+v", c)
		}
	})
}

// TestSenderGoesOnWithAnotherSink: a reload puts another in its place during an outage.
func TestSenderGoesOnWithAnotherSink(t *testing.T) {
	down, up := &broker{fail: func([]*core.Message) error { return errors.New("down") }}, &broker{}
	sendingTo(t, down, &box{}, func(s *Stream, to *Sender) {
		tell(s, "a")
		time.Sleep(time.Second)
		if err := to.Adopt(up); err != nil || !down.closed {
			t.Errorf("%v, closed %t", err, down.closed)
		}
		time.Sleep(time.Minute)
		if got := up.keys(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("%q", got)
		}
	})
}

// TestSenderEnds within its bound, whatever the sink does, and with what waits if it works.
func TestSenderEnds(t *testing.T) {
	b := &broker{}
	sendingTo(t, b, &box{}, func(s *Stream, to *Sender) { tell(s, "a", "b") })
	if got := b.keys(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("%q", got)
	}
	sendingTo(t, &broker{fail: func([]*core.Message) error { return errors.New("down") }}, &box{}, func(s *Stream, to *Sender) {
		tell(s, "a")
		to.Outbox.(*box).lines <- final(s, "f")
		time.Sleep(time.Hour)
	})
}
