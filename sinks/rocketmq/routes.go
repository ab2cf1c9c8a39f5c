package rocketmq

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"unicode/utf16"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// routes are the queues of each topic, as the client library last showed them.
// The library gives them to a queue selector only, so routes is one: it notes
// what it is shown and returns the queue that the message names already. A
// message that names none is a question for the queues, and is not sent.
type routes struct {
	mu      sync.RWMutex
	byTopic map[string]*route
}

// route is the queues of one topic, sorted by broker and number as the Java
// client sorts them. It does not change.
type route struct {
	queues []*primitive.MessageQueue
	shown  []*primitive.MessageQueue // the library's slice that queues was made of
	turn   *atomic.Uint32            // where the next message without a key goes
}

func newRoutes() *routes { return &routes{byTopic: map[string]*route{}} }

// of returns the route of topic, or nil if it is not known.
func (r *routes) of(topic string) *route {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.byTopic[topic]
}

// Select implements the library's producer.QueueSelector.
func (r *routes) Select(m *primitive.Message, shown []*primitive.MessageQueue, _ string) *primitive.MessageQueue {
	current := r.note(m.Topic, shown)
	if m.Queue == nil || !current.has(m.Queue) {
		return nil
	}
	return m.Queue
}

// note returns the route that shown means, which is rarely a new one.
func (r *routes) note(topic string, shown []*primitive.MessageQueue) *route {
	if known := r.of(topic); known != nil && sameSlice(known.shown, shown) {
		return known
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh := &route{queues: slices.Clone(shown), shown: shown, turn: new(atomic.Uint32)}
	slices.SortFunc(fresh.queues, compareQueues)
	r.byTopic[topic] = fresh
	return fresh
}

func sameSlice(a, b []*primitive.MessageQueue) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

func compareQueues(a, b *primitive.MessageQueue) int {
	return cmp.Or(cmp.Compare(a.BrokerName, b.BrokerName), cmp.Compare(a.QueueId, b.QueueId))
}

func (r *route) has(queue *primitive.MessageQueue) bool {
	_, found := slices.BinarySearchFunc(r.queues, queue, compareQueues)
	return found
}

// forKey returns the queue of a key: the one that a Java producer takes with
// SelectMessageQueueByHash.
func (r *route) forKey(key string) *primitive.MessageQueue {
	n := int64(javaHash(key)) % int64(len(r.queues))
	return r.queues[max(n, -n)]
}

// javaHash is what String.hashCode is in Java. Bytes that are not UTF-8 count
// as U+FFFD each.
func javaHash(s string) int32 {
	var hash int32
	for _, char := range s {
		if utf16.RuneLen(char) == 2 {
			high, low := utf16.EncodeRune(char)
			hash = 31*(31*hash+high) + low
			continue
		}
		hash = 31*hash + char
	}
	return hash
}

// next returns queues in turn, and passes over brokers that are in trouble
// while there are others.
func (r *route) next(brokers *brokers) *primitive.MessageQueue {
	for range r.queues {
		if queue := r.queues[r.turn.Add(1)%uint32(len(r.queues))]; brokers.works(queue.BrokerName) {
			return queue
		}
	}
	return r.queues[r.turn.Add(1)%uint32(len(r.queues))]
}

// othersWork reports whether a broker besides this one is not in trouble: one that
// the topic has queues on, or that was sent messages of any topic.
func (r *route) othersWork(broker string, brokers *brokers) bool {
	return brokers.othersWork(broker) || slices.ContainsFunc(r.queues, func(q *primitive.MessageQueue) bool {
		return q.BrokerName != broker && brokers.works(q.BrokerName)
	})
}
