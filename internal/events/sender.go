package events

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// Outbox is where a store keeps final events until they are sent; redisstore.Store is one.
type Outbox interface {
	// Unsent waits for lines that Stream.Final has made, and returns some, how many more
	// were lost for lack of room, and what removes them when they are sent.
	Unsent(ctx context.Context) (lines [][]byte, lost int, sent func(context.Context) error, err error)
	// UnsentBytes returns how much waits, as LookForUnsent has last seen it. Unsent looks,
	// too; who does not call it again for a time, as nothing can be sent, calls LookForUnsent.
	UnsentBytes() int64
	LookForUnsent(ctx context.Context)
}

// SenderConfig configures a Sender.
type SenderConfig struct {
	Name, Topic string // of the sink
	Bodies      bool
	Timeout     time.Duration // of one delivery
	Outbox      Outbox
	Log         *slog.Logger
}

// Sender sends the events of a Stream to a sink: those of the Outbox at least once, the others
// while a buffer in memory has room. Create it with Stream.SendTo.
type Sender struct {
	SenderConfig
	instance string
	reader   *Reader
	numbered atomic.Uint64 // events that are not of the Outbox
	sink     atomic.Pointer[core.Sink]

	final, other sending
}

// sending is what became of one kind of events.
type sending struct {
	kind                string
	sent, full, refused atomic.Uint64
	failing             bool // now; of the goroutine that sends
}

// SendTo makes the Sender of the stream, which closes sink. It sends while Run runs.
func (s *Stream) SendTo(sink core.Sink, c SenderConfig) *Sender {
	to := &Sender{SenderConfig: c, instance: s.instance, reader: &Reader{bodies: c.Bodies, lasting: true, filter: Filter{Events: others()}}}
	to.final.kind, to.other.kind = "final", "other"
	to.sink.Store(&sink)
	_, _ = s.add(to.reader) // refuses only readers that do not last
	s.sender.Store(to)
	return to
}

// Adopt puts another sink in the place of the present one, and closes that: what it was
// sending is sent again.
func (s *Sender) Adopt(sink core.Sink) error { return (*s.sink.Swap(&sink)).Close() }

// Close closes the sink. Run must have returned.
func (s *Sender) Close() error { s.reader.Close(); return (*s.sink.Load()).Close() }

// lastSend bounds, at the end, the delivery of what waits in memory.
const lastSend = 2 * time.Second

// Run sends events until ctx ends, and then for up to two seconds those that wait in
// memory. It returns nil.
func (s *Sender) Run(ctx context.Context) error {
	last, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastSend, cancel) })()
	var work sync.WaitGroup
	work.Go(func() { s.sendFinal(ctx) })
	s.sendOthers(ctx, last)
	work.Wait()
	return nil
}

// sendFinal sends what the Outbox has.
func (s *Sender) sendFinal(ctx context.Context) {
	wait := pause{}
	for ctx.Err() == nil {
		lines, lost, sent, err := s.Outbox.Unsent(ctx)
		if err == nil {
			messages := make([]*core.Message, len(lines))
			for n, line := range lines {
				messages[n] = s.finalMessage(line)
			}
			if !s.deliver(ctx, messages, &s.final) {
				return
			}
			if err = sent(ctx); err == nil {
				s.final.full.Add(uint64(lost))
			}
		}
		s.note(ctx, &s.final, err)
		wait.after(ctx, err)
	}
}

// sendOthers sends what waits in memory, until ctx has ended and nothing waits, or last ends.
func (s *Sender) sendOthers(ctx, last context.Context) {
	for {
		lines, err := s.reader.Next(ctx)
		if err != nil || !s.deliver(last, s.number(lines), &s.other) {
			return
		}
	}
}

// finalMessage makes a message of a line of the Outbox.
func (s *Sender) finalMessage(line []byte) *core.Message {
	var e struct {
		EventID string `json:"event_id"`
		ID      string `json:"id"`
	}
	_ = json.Unmarshal(line, &e) // Stream.Final has made it, of this version or another
	return s.message(e.EventID, e.ID, line)
}

// number gives events ids and makes messages of them.
func (s *Sender) number(lines []Line) []*core.Message {
	messages := make([]*core.Message, len(lines))
	for n, line := range lines {
		id := s.instance + ":" + strconv.FormatUint(s.numbered.Add(1), 10)
		quoted, _ := json.Marshal(id) // a string can be marshalled
		body := append(append([]byte(`{"event_id":`), quoted...), ',')
		messages[n] = s.message(id, line.ID, append(body, line.Data[1:]...))
	}
	return messages
}

func (s *Sender) message(id, about string, body []byte) *core.Message {
	m := &core.Message{ID: id, Sink: s.Name, Topic: s.Topic, Body: body, DeliverAt: time.Now(), Attempt: 1}
	if about != "" {
		m.Key = []byte(about)
	}
	return m
}

// deliver sends messages until the sink has confirmed or refused each, or ctx ends, which
// makes it false.
func (s *Sender) deliver(ctx context.Context, messages []*core.Message, of *sending) bool {
	wait := pause{}
	for len(messages) > 0 {
		if ctx.Err() != nil {
			return false
		}
		batch := messages[:batchOf(messages)]
		left, err := s.attempt(ctx, batch, of)
		s.note(ctx, of, err)
		if of == &s.final && err != nil {
			s.Outbox.LookForUnsent(ctx)
		}
		wait.after(ctx, err)
		messages = append(left, messages[len(batch):]...)
	}
	return true
}

// maxBatchBytes bounds the bodies of one delivery, but for a single one.
const maxBatchBytes = 1 << 20

// batchOf returns how many of messages are one delivery.
func batchOf(messages []*core.Message) int {
	size := 0
	for n, m := range messages {
		if size += len(m.Body); n == core.MaxTake || n > 0 && size > maxBatchBytes {
			return n
		}
	}
	return len(messages)
}

// attempt sends one batch, and returns those that are to be sent again, with the reason.
func (s *Sender) attempt(ctx context.Context, batch []*core.Message, of *sending) (left []*core.Message, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	failed := (*s.sink.Load()).Deliver(ctx, batch)
	results, each := errors.AsType[core.BatchError](failed)
	if !each || len(results) != len(batch) {
		results = make(core.BatchError, len(batch))
		for n := range results {
			results[n] = failed
		}
	}
	for n, m := range batch {
		switch {
		case results[n] == nil:
			of.sent.Add(1)
		case each && core.ClassOf(results[n]) == core.Permanent:
			of.refused.Add(1)
			s.Log.Warn("the sink refuses an event, which is dropped", "event", m.ID, "id", string(m.Key), "err", results[n])
		default:
			left, err = append(left, m), results[n]
		}
	}
	return left, err
}

// note logs the beginning and the end of an outage.
func (s *Sender) note(ctx context.Context, of *sending, err error) {
	if ctx.Err() != nil || of.failing == (err != nil) {
		return
	}
	if of.failing = err != nil; of.failing {
		s.Log.Warn("events can't be sent and wait, as far as there is room", "kind", of.kind, "sink", s.Name, "topic", s.Topic, "err", err)
	} else {
		s.Log.Info("events are sent again", "kind", of.kind, "sink", s.Name, "topic", s.Topic)
	}
}

func (s *Sender) count(c *Counts) {
	c.Sends = true
	c.FinalSent, c.FinalFull, c.FinalRefused = s.final.sent.Load(), s.final.full.Load(), s.final.refused.Load()
	c.OtherSent, c.OtherFull, c.OtherRefused = s.other.sent.Load(), s.reader.Dropped(), s.other.refused.Load()
	c.FinalWaiting, c.OtherWaiting = s.Outbox.UnsentBytes(), int64(s.reader.Waiting())
}

// pause is the wait after failures, which doubles, up to five seconds.
type pause struct{ time.Duration }

// after waits if err is not nil.
func (p *pause) after(ctx context.Context, err error) {
	if err == nil {
		p.Duration = 0
		return
	}
	p.Duration = min(max(2*p.Duration, 100*time.Millisecond), 5*time.Second)
	select {
	case <-time.After(p.Duration):
	case <-ctx.Done():
	}
}
