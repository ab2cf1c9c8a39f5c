package kafka

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go/protocol/metadata"
)

// broker is one broker, by its address: the lanes on which records go to it, and
// a connection on which it is asked for leaders.
type broker struct {
	*client
	address string
	lanes   []lane

	asking   sync.Mutex // held while control is in use
	control  *conn
	answered atomic.Bool // the last question
}

// askable reports whether the broker has answered the last question.
func (b *broker) askable() bool { return b.answered.Load() }

// connectPause is how long a failure to connect stands for further tries, so
// that many that fail at once cost one try.
const connectPause = 100 * time.Millisecond

func newBroker(c *client, address string) *broker {
	b := &broker{client: c, address: address, lanes: make([]lane, c.connections)}
	for n := range b.lanes {
		b.lanes[n].broker = b
	}
	return b
}

// lane returns the lane of a partition, always the same.
func (b *broker) lane(seed maphash.Seed, r route) *lane {
	return &b.lanes[maphash.Comparable(seed, r)%uint64(len(b.lanes))]
}

// ask asks the broker about topics.
func (b *broker) ask(ctx context.Context, topics []string) (*metadata.Response, error) {
	b.asking.Lock()
	defer b.asking.Unlock()
	b.answered.Store(false)
	for reused := b.control.usable(); ; reused = false {
		if !b.control.usable() {
			made, err := b.connect(ctx, b.address)
			if err != nil {
				return nil, err
			}
			b.control = made
		}
		answer, err := b.control.roundTrip(ctx, &metadata.Request{TopicNames: topics}, b.RequestTimeout)
		if err == nil {
			b.answered.Store(true)
			return answer.(*metadata.Response), nil
		}
		if !reused || errors.Is(err, errNoAnswer) {
			return nil, &connectError{address: b.address, err: withHint(err)}
		}
	}
}

// withHint says what it often means that a broker ends a connection at the first
// request.
func withHint(err error) error {
	if isEOF(err) {
		return fmt.Errorf("broker closed the connection without an answer, as brokers do that require TLS or a login: %w", err)
	}
	return err
}
