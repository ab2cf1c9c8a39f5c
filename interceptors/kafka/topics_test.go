//go:build unix

package kafkasource

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/integration/poll"
)

// TestMorePartitions: partitions that a topic is given later are read, too.
func TestMorePartitions(t *testing.T) {
	r := newRig(t)
	topic := r.topic(".delayed", 1)
	src := r.run(r.source([]string{topic}, nil))
	r.fill(topic, 1, 0, 10)
	r.store.Await(t, 10)
	r.grow(topic, 3)
	poll.Until(t, 2*time.Minute, "it has all three", func() bool { return assigned(src) == 3 })
	r.fill(topic, 3, 10, 40)
	r.store.Await(t, 40)
	wantOnce(t, r.store, 40)
}

// grow gives a topic more partitions.
func (r *rig) grow(topic string, partitions int) {
	r.t.Helper()
	answer, err := r.client.CreatePartitions(r.t.Context(), &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{{Name: topic, Count: int32(partitions)}}})
	if err != nil || answer.Errors[topic] != nil {
		r.t.Error(err, answer)
	}
}

// atRecord does something at each record that is so.
type atRecord struct {
	slog.Handler
	so func(slog.Record) bool
	do func()
}

func (h atRecord) Handle(ctx context.Context, record slog.Record) error {
	if h.so(record) {
		h.do()
	}
	return h.Handler.Handle(ctx, record)
}

func (h atRecord) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.Handler = h.Handler.WithAttrs(attrs)
	return h
}

// TestMorePartitionsMeanwhile: partitions that a topic is given after they were
// shared out, and before anybody has looked for more, are read, too.
func TestMorePartitionsMeanwhile(t *testing.T) {
	r := newRig(t)
	topic := r.topic(".delayed", 1)
	shared := func(record slog.Record) bool { return record.Message == "source joined its group" }
	log := slog.New(atRecord{r.logger().Handler(), shared, sync.OnceFunc(func() { r.grow(topic, 3) })})
	made, err := New("src", r.config([]string{topic}, nil), r.interceptor(), log)
	if err != nil {
		t.Fatal(err)
	}
	src := r.run(made)
	poll.Until(t, 2*time.Minute, "it has all three", func() bool { return assigned(src) == 3 })
	r.fill(topic, 3, 0, 30)
	r.store.Await(t, 30)
	wantOnce(t, r.store, 30)
}
