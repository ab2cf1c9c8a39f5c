package kafka

import (
	"context"
	"errors"
	"hash/maphash"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/delaybridge/delaybridge/core"
)

// cluster knows the brokers and who leads the partitions of the topics in use.
type cluster struct {
	*client
	seed maphash.Seed

	mu      sync.Mutex
	brokers map[string]*broker // by address
	topics  map[string]*topic  // never changed, only replaced
	used    map[string]time.Time
	flight  *flight // the question under way; nil: none
}

// topic is what the brokers said of a topic.
type topic struct {
	code       int16 // 0, or why it can't be used
	partitions []partition
	numbers    []int // of partitions
	at         time.Time
}

// partition is one partition; its number is its place.
type partition struct {
	leader string // address; empty: none
	code   int16
}

// route is where a message goes.
type route struct {
	topic     string
	partition int32
}

// flight is one question about topics, asked for all who want to know.
type flight struct {
	topics map[string]bool
	done   chan struct{}
	err    error // set when done is closed
}

const (
	// topicMemory is how long a topic that is not used is still asked about.
	topicMemory = time.Minute
	// hedgeAfter is how long a broker may take to answer before the next is
	// asked too.
	hedgeAfter = 500 * time.Millisecond
)

func newCluster(c *client) *cluster {
	k := &cluster{client: c, seed: maphash.MakeSeed(), brokers: map[string]*broker{}, topics: map[string]*topic{}, used: map[string]time.Time{}}
	for _, address := range c.Seeds {
		k.brokers[address] = newBroker(c, address)
	}
	return k
}

// lookup returns what is known of the named topics. It asks, and waits, if one
// of them is new or was in trouble a while ago, or if fresh is set; topics whose
// time is merely up are asked about on the side. The error, a *connectError or
// the end of ctx, means that nothing could be learnt.
func (k *cluster) lookup(ctx context.Context, names []string, fresh bool) (map[string]*topic, error) {
	for {
		known, missing, stale := k.known(names)
		if !fresh && !missing {
			if stale {
				k.join(names)
			}
			return known, nil
		}
		f := k.join(names)
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if f.err != nil {
			return nil, f.err
		}
		fresh = fresh && !f.covers(names)
	}
}

// known returns the topics known now, whether one is missing and has to be
// waited for, and whether one is due for a question.
func (k *cluster) known(names []string) (known map[string]*topic, missing, stale bool) {
	now := time.Now()
	known = make(map[string]*topic, len(names))
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range names {
		k.used[name] = now
		t := k.topics[name]
		old := t != nil && now.Sub(t.at) > k.metadataTTL
		missing = missing || t == nil || old && t.code != 0
		stale = stale || old
		known[name] = t
	}
	return known, missing, stale
}

func (f *flight) covers(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !f.topics[name] })
}

// join returns the question under way, or asks a new one about the named topics
// and all others in use.
func (k *cluster) join(names []string) *flight {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.flight != nil {
		return k.flight
	}
	f := &flight{topics: make(map[string]bool), done: make(chan struct{})}
	for _, name := range names {
		f.topics[name] = true
	}
	for name, at := range k.used {
		if time.Since(at) > topicMemory {
			delete(k.used, name)
			delete(k.topics, name)
			continue
		}
		f.topics[name] = true
	}
	k.flight = f
	if !k.start(func() { k.fly(f) }) {
		k.flight, f.err = nil, &connectError{address: "any broker", err: errClosed}
		close(f.done)
	}
	return f
}

func (k *cluster) fly(f *flight) {
	ctx, cancel := context.WithTimeoutCause(k.ctx, k.questionTimeout(), errNoAnswer)
	defer cancel()
	names := make([]string, 0, len(f.topics)) // not nil: that would mean all
	for name := range f.topics {
		names = append(names, name)
	}
	answer, err := k.askAny(ctx, names)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil {
		k.learn(names, answer)
	}
	k.flight, f.err = nil, err
	close(f.done)
}

// askAny asks one broker, and the next if it fails or takes long. A failure to
// connect stands for the whole question, though the next may come much later.
func (k *cluster) askAny(ctx context.Context, names []string) (*metadata.Response, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		answer *metadata.Response
		err    error
	}
	candidates, since := k.candidates(), time.Now().Add(-connectPause)
	results, running := make(chan result, len(candidates)), 0
	hedge := time.NewTimer(0)
	defer hedge.Stop()
	failure := error(&connectError{address: "any broker", err: errNoAnswer})
	for len(candidates) > 0 || running > 0 {
		select {
		case <-hedge.C:
			if len(candidates) == 0 {
				continue
			}
			b := candidates[0]
			candidates = candidates[1:]
			if k.start(func() { answer, err := b.askUnlessFailed(ctx, names, since); results <- result{answer, err} }) {
				running++
				hedge.Reset(hedgeAfter)
			}
		case r := <-results:
			running--
			if r.err == nil {
				return r.answer, nil
			}
			failure = graver(failure, r.err)
			hedge.Reset(0)
		case <-ctx.Done():
			return nil, &connectError{address: "any broker", err: context.Cause(ctx)}
		}
	}
	return nil, failure
}

// askUnlessFailed asks the broker, unless it has no connection and could not be
// connected to since then.
func (b *broker) askUnlessFailed(ctx context.Context, names []string, since time.Time) (*metadata.Response, error) {
	b.asking.Lock()
	connected := b.control.usable()
	b.asking.Unlock()
	if err := b.unreachable(b.address, since); err != nil && !connected {
		return nil, err
	}
	return b.ask(ctx, names)
}

// graver prefers an error that only an operator can help with, else the last.
func graver(a, b error) error {
	if c, ok := errors.AsType[*connectError](a); ok && c.class == core.Blocked {
		return a
	}
	return b
}

// candidates returns the brokers to be asked: first those that answered before.
func (k *cluster) candidates() []*broker {
	k.mu.Lock()
	defer k.mu.Unlock()
	var connected, others []*broker
	for _, b := range k.brokers {
		if b.askable() {
			connected = append(connected, b)
		} else {
			others = append(others, b)
		}
	}
	rand.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	return append(connected, others...)
}

// learn takes in the answer to a question about names; k.mu is held.
func (k *cluster) learn(names []string, answer *metadata.Response) {
	now := time.Now()
	for _, name := range names { // should the answer leave one out
		k.topics[name] = &topic{code: int16(kafka.UnknownTopicOrPartition), at: now}
	}
	addresses := make(map[int32]string, len(answer.Brokers))
	current := make(map[string]*broker, len(answer.Brokers)+len(k.Seeds))
	for _, address := range k.Seeds {
		current[address] = k.brokers[address]
	}
	for _, b := range answer.Brokers {
		address := net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
		addresses[b.NodeID] = address
		if current[address] = k.brokers[address]; current[address] == nil {
			current[address] = newBroker(k.client, address)
		}
	}
	k.brokers = current // those left out have their connections closed as unused
	for _, t := range answer.Topics {
		k.topics[t.Name] = newTopic(t, addresses, now)
	}
}

func newTopic(answer metadata.ResponseTopic, addresses map[int32]string, now time.Time) *topic {
	count := len(answer.Partitions)
	t := &topic{code: answer.ErrorCode, partitions: make([]partition, count), numbers: make([]int, count), at: now}
	for n := range t.numbers {
		t.numbers[n] = n
	}
	for _, p := range answer.Partitions {
		if p.PartitionIndex >= 0 && int(p.PartitionIndex) < len(t.partitions) {
			t.partitions[p.PartitionIndex] = partition{leader: addresses[p.LeaderID], code: p.ErrorCode}
		}
	}
	return t
}

// leader returns the address of a partition's leader; empty: none is known.
func (t *topic) leader(number int32) string {
	if number < 0 || int(number) >= len(t.partitions) {
		return ""
	}
	return t.partitions[number].leader
}

// laneTo returns the lane on which records reach a partition's leader.
func (k *cluster) laneTo(leader string, r route) *lane {
	k.mu.Lock()
	defer k.mu.Unlock()
	b := k.brokers[leader]
	if b == nil { // gone since it was looked up: let the connection tell
		b = newBroker(k.client, leader)
	}
	return b.lane(k.seed, r)
}
