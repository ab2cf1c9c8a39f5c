package suite

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// broker is a target in memory. Its topics are made by newTopic; the words in
// a topic's name say how it refuses messages.
type broker struct {
	mu      sync.Mutex
	changed chan struct{} // closed at each change
	topics  map[string][]Received
	stuck   map[string]bool // topics that are stalled
	down    bool
	stalled bool
	deaf    bool
	cut     bool // the next batch breaks off in the middle
}

const (
	memoryMaxBody = 10_000
	memoryLanes   = 4
)

var (
	errDown   = errors.New("target is down")
	errClosed = errors.New("sink is closed")
)

func newBroker() *broker {
	return &broker{changed: make(chan struct{}), topics: map[string][]Received{}, stuck: map[string]bool{}}
}

func (b *broker) newTopic(T) string { return b.named("plain") }

func (b *broker) named(word string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	topic := fmt.Sprintf("%s-%d", word, len(b.topics))
	b.topics[topic] = nil
	return topic
}

// change applies f and wakes all who wait.
func (b *broker) change(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *broker) consume(_ T, topic string) Reader {
	next := 0
	return func(ctx context.Context) (Received, error) {
		for {
			b.mu.Lock()
			queue, changed := b.topics[topic], b.changed
			b.mu.Unlock()
			if next < len(queue) {
				next++
				return queue[next-1], nil
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return Received{}, ctx.Err()
			}
		}
	}
}

// await waits until condition, which is called with b.mu held, is false.
func (b *broker) await(ctx context.Context, closed <-chan struct{}, condition func() bool) error {
	for {
		b.mu.Lock()
		hold, changed := condition(), b.changed
		b.mu.Unlock()
		if !hold {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-closed:
			return errClosed
		}
	}
}

// store appends m to its topic or refuses it.
func (b *broker) store(m *core.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	queue, ok := b.topics[m.Topic]
	switch {
	case !ok, strings.HasPrefix(m.Topic, "unroutable"), strings.HasPrefix(m.Topic, "forbidden"):
		return core.Classify(core.TopicBlocked, errors.New("nobody may or can write there"))
	case strings.HasPrefix(m.Topic, "full"):
		return errors.New("queue is full")
	case len(m.Body) > memoryMaxBody:
		return core.Classify(core.Permanent, errors.New("body is too large"))
	}
	r := Received{Body: cloneBytes(m.Body), Key: cloneBytes(m.Key), Lane: lane(m.Key)}
	for _, h := range m.DeliveredHeaders() {
		if !strings.EqualFold(h.Name, "x-delay") {
			r.Headers = append(r.Headers, core.Header{Name: h.Name, Value: cloneBytes(h.Value)})
		}
	}
	b.topics[m.Topic] = append(queue, r)
	return nil
}

func lane(key []byte) string {
	h := fnv.New32a()
	h.Write(key)
	return fmt.Sprint(h.Sum32() % memoryLanes)
}

// memory is the reference sink.
type memory struct {
	b      *broker
	login  bool
	closed chan struct{}
	once   sync.Once
}

func (b *broker) open(login bool) *memory {
	return &memory{b: b, login: login, closed: make(chan struct{})}
}

func (s *memory) Deliver(ctx context.Context, batch []*core.Message) error {
	select {
	case <-s.closed:
		return errClosed
	default:
	}
	if !s.login {
		return core.Classify(core.Blocked, errors.New("login refused"))
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	results := make(core.BatchError, len(batch))
	for i, m := range batch {
		results[i] = s.one(ctx, m)
	}
	s.breakOff(results)
	if err := s.b.await(ctx, s.closed, func() bool { return s.b.deaf }); err != nil {
		return core.Classify(core.Unknown, err)
	}
	if !slices.ContainsFunc(results, func(err error) bool { return err != nil }) {
		return nil
	}
	return results
}

// ready waits until the broker moves.
func (s *memory) ready(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := s.b.await(ctx, s.closed, func() bool { return s.b.stalled }); err != nil {
		return err
	}
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if s.b.down {
		return errDown
	}
	return nil
}

func (s *memory) one(ctx context.Context, m *core.Message) error {
	if err := s.b.await(ctx, s.closed, func() bool { return s.b.stuck[m.Topic] }); err != nil {
		return err
	}
	return s.b.store(m)
}

// breakOff forgets the answers to half of a batch if the connection was cut.
func (s *memory) breakOff(results core.BatchError) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	for i := len(results) / 2; s.b.cut && i < len(results); i++ {
		results[i] = core.Classify(core.Unknown, errors.New("connection reset"))
	}
	s.b.cut = false
}

func (s *memory) Check(ctx context.Context, batch []*core.Message) error {
	return core.CheckEach(ctx, batch, s.check)
}

func (s *memory) check(m *core.Message) error {
	if len(m.Body) > memoryMaxBody {
		return &core.InvalidError{Field: "body", Reason: "is too large", TooLarge: true}
	}
	for name := range m.Options {
		if !strings.HasPrefix(name, core.OptionPrefix) {
			return core.Invalidf("options."+name, "is not known")
		}
	}
	return nil
}

func (s *memory) Health(context.Context) error {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if s.b.down {
		return errDown
	}
	return nil
}

func (s *memory) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// kit is the reference kit: it declares everything, and the sink is wrapped by
// wrap. It is in a hurry.
func (b *broker) kit(wrap func(*memory) core.Sink) plainKit {
	refusal := func(word string, class core.Class) *Refusal[T] {
		return &Refusal[T]{Topic: func(T) string { return b.named(word) }, Class: class}
	}
	toggle := func(flag *bool) func(T) func() {
		return func(T) func() {
			b.change(func() { *flag = true })
			return func() { b.change(func() { *flag = false }) }
		}
	}
	return plainKit{
		Open:     func(T) core.Sink { return wrap(b.open(true)) },
		NewTopic: b.newTopic, Consume: b.consume,
		Can: []Capability{Headers, HeaderOrder, RepeatedHeaders, BinaryHeaders, NullHeaders, EmptyBody, NullBody,
			Keys, NullKeys, Ordered, Lanes},
		MaxBody:         memoryMaxBody,
		Delays:          []core.Header{{Name: "X-Delay", Value: []byte("5000")}},
		MissingTopic:    &Refusal[T]{Topic: func(T) string { return "missing" }, Class: core.TopicBlocked},
		NoRights:        refusal("forbidden", core.TopicBlocked),
		NegativeConfirm: refusal("full", core.Retry),
		Unroutable:      refusal("unroutable", core.TopicBlocked),
		LoginRefused:    &Refusal[T]{Open: func(T) core.Sink { return wrap(b.open(false)) }, Class: core.Blocked},
		Faults: Faults[T]{
			Down: toggle(&b.down), Stall: toggle(&b.stalled), LoseReplies: toggle(&b.deaf),
			Cut: func(T) {
				b.change(func() { b.cut = true })
				time.Sleep(2 * time.Millisecond) // for the batches of the moment
				b.change(func() { b.cut = false })
			},
			Restart: func(T) {
				b.change(func() { b.down = true })
				time.Sleep(20 * time.Millisecond) // as a broker is unreachable for a while
				b.change(func() { b.down = false })
			},
			StallTopic: func(_ T, topic string) func() {
				b.change(func() { b.stuck[topic] = true })
				return func() { b.change(func() { delete(b.stuck, topic) }) }
			},
		},
		Timeout: 300 * time.Millisecond, ReadTimeout: 200 * time.Millisecond, Quiet: 2 * time.Millisecond, Rounds: 10,
		patience: patience{soon: time.Second, late: time.Second, ample: 2 * time.Second, leak: time.Second,
			red: time.Second, green: time.Second},
	}
}

// patientKit is for the sink without a fault, which makes nobody wait.
func (b *broker) patientKit() plainKit {
	kit := b.kit(honest)
	kit.ReadTimeout, kit.patience = 0, patience{}
	return kit
}

func TestReferenceSinkPasses(t *testing.T) {
	kit := newBroker().patientKit()
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) { Run[T](t, c, kit) })
	}
}
