//go:build unix

package rocketmqsource

import (
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/internal/brokers/rocketmq"
)

// TestCommittedAgain: what a member that had the queue before commits late is put
// right by the one that has it now, also if no more messages come.
func TestCommittedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic := r.topic("-delayed", 1)
	r.fill(topic, 1, 5)
	r.run(r.source([]string{topic}, nil))
	r.checkOnce(1, 5)
	poll.Until(t, time.Minute, "the commit", func() bool { return r.committed(topic, 0) == 5 })
	fields := map[string]string{"consumerGroup": r.name, "topic": topic, "queueId": "0", "commitOffset": "2"}
	if _, err := r.wire.ask(t.Context(), r.BrokerAddr(), rocketmq.Command{Code: rocketmq.RequestCommit, Fields: fields}, 0); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, time.Minute, "the commit once more", func() bool { return r.committed(topic, 0) == 5 })
}

// TestMarkedMeanwhile: what a commit could not tell a broker is with the other
// marks again, which a queue adds to. The race detector is part of the test.
func TestMarkedMeanwhile(t *testing.T) {
	i := &Source{name: "src", log: slog.New(slog.DiscardHandler)}
	m := &member{Source: i, progress: newProgress(), pool: newPool(&i.settings.cluster, nil)} // which knows no broker
	const last = 1000
	at := []place{{topic: "t", broker: "b", number: 0}, {topic: "t", broker: "b", number: 1}}
	var marking sync.WaitGroup
	for _, p := range at {
		marking.Go(func() {
			for offset := range int64(last + 1) {
				m.progress.mark(p, offset)
			}
		})
	}
	for range last {
		m.commitAll(t.Context())
	}
	marking.Wait()
	if m.commitAll(t.Context()) {
		t.Error("all is said to be committed, and no broker was told")
	}
	if open := m.progress.take(); len(open) != len(at) || open[at[0]] != last || open[at[1]] != last {
		t.Fatalf("left to commit is %v", open)
	}
}
