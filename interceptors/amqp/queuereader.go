package amqpsource

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync/atomic"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/source"
)

// source is one queue that is read.
type queueReader struct {
	*Source
	queue    string
	exchange *exchange // nil: the queue is the operator's own
	rules    *source.Rules
	ids      ids

	limitChecked bool
	waiting      atomic.Int64 // messages that the queue has ready; -1 is unknown
}

func (i *Source) newQueueReader(queue string, e *exchange, rules *source.Rules) *queueReader {
	s := &queueReader{Source: i, queue: queue, exchange: e, rules: rules, ids: newIDs(i.name, queue)}
	s.waiting.Store(-1)
	return s
}

// topic is what "{topic}" in the settings of the rules stands for: the name of
// the queue, or, for what is to go to an exchange, the routing key. A key that
// can't be a topic, or looks like what belongs to a broker, has the name of the
// exchange in its place, and is kept as an option.
func (s *queueReader) topic(key string) string {
	if s.exchange == nil {
		return s.queue
	}
	if key == "" || isOneOf(key, source.Denied()) || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return s.exchange.to
	}
	return key
}

// ids makes the IDs of the messages of one queue. Those of different queues
// differ, as the same message may be in several.
type ids struct{ queue string }

func newIDs(name, queue string) ids {
	id := "r:" + name + ":" + queue + ":"
	if strings.Contains(queue, ":") || len(id) > core.MaxIDLen/2 || core.CheckID(id) != nil {
		id = "r:" + name + ":=" + hash(queue) + ":"
	}
	return ids{id}
}

// of is the ID for a message_id, as it is or, if that can't be, as its hash.
func (i ids) of(messageID string) string {
	if id := i.queue + messageID; core.CheckID(id) == nil {
		return id
	}
	return i.queue + "=" + hash(messageID)
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}
