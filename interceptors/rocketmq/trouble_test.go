//go:build unix

package rocketmqsource

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/journal"
	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
	"github.com/delaybridge/delaybridge/interceptors/source/sourcetest"
	"github.com/delaybridge/delaybridge/internal/brokers/rocketmq"
)

// fill sends n messages to each queue of a topic, with the numbers of queue and
// message as the body.
func (r *rig) fill(topic string, queues, n int) {
	r.t.Helper()
	r.fillFrom(topic, queues, 0, n)
}

func (r *rig) fillFrom(topic string, queues, from, n int) {
	r.t.Helper()
	for queue := range queues {
		for first := from; first < from+n; first += 100 {
			var batch []one
			for number := first; number < min(first+100, from+n); number++ {
				batch = append(batch, one{fmt.Sprintf("%d/%d", queue, number), props("delaybridge-delay", "1h")})
			}
			r.sendBatch(topic, queue, batch...)
		}
	}
}

// checkOnce holds what is parked against what fill has sent: all, once each, and
// in the order of the queue.
func (r *rig) checkOnce(queues, n int) {
	r.t.Helper()
	next := make([]int, queues)
	for _, m := range r.store.Await(r.t, queues*n) {
		var queue, number int
		if _, err := fmt.Sscanf(string(m.Body), "%d/%d", &queue, &number); err != nil {
			r.t.Fatal(err)
		}
		if number != next[queue] {
			r.t.Fatalf("queue %d has %d parked after %d", queue, number, next[queue]-1)
		}
		next[queue]++
	}
	for queue, count := range next {
		if count != n {
			r.t.Errorf("queue %d has %d parked", queue, count)
		}
	}
}

func TestStoreTrouble(t *testing.T) {
	r := newRig(t)
	topic := r.topic("-delayed", 2)
	r.store.SetFail(core.ErrUnavailable)
	src := r.run(r.source([]string{topic}, nil))
	const many = 3000
	r.fill(topic, 2, many)
	r.store.Until(t, "tries", func() bool { return r.store.Failed >= 8 })
	for queue := range 2 {
		if offset := r.committed(topic, queue); offset > 0 {
			t.Errorf("committed %d of queue %d while the store was unreachable", offset, queue)
		}
	}
	r.store.SetFail(nil)
	r.checkOnce(2, many)
	for queue := range 2 {
		poll.Until(t, time.Minute, "the commit", func() bool { return r.committed(topic, queue) == many })
	}
	poll.Until(t, time.Minute, "all to be counted", func() bool { return src.Report().Lag == 0 })
	if report := src.Report(); report.Duplicates != 0 || report.Retried == 0 {
		t.Errorf("%+v", report)
	}
	if err := src.Stop(); err != nil {
		t.Error(err)
	}
}

// TestBackpressure: a source that can't park holds no more than it may.
func TestBackpressure(t *testing.T) {
	b := newBacklog()
	ctx, cancel := context.WithCancel(t.Context())
	var adding sync.WaitGroup
	adding.Go(func() {
		for n := int64(0); ctx.Err() == nil; n++ {
			b.add(ctx, page{messages: make([]byte, maxPageBytes/4), next: n})
		}
	})
	poll.Until(t, time.Minute, "a full backlog", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return b.bytes >= maxPageBytes })
	var next int64
	for range 3 {
		pages := b.takeAll(ctx)
		if len(pages) > 4 {
			t.Errorf("%d pages", len(pages))
		}
		for _, p := range pages {
			if p.next != next {
				t.Errorf("page %d, want %d", p.next, next)
			}
			next++
		}
	}
	cancel()
	adding.Wait()
	if b.takeAll(ctx) != nil {
		t.Error("pages after the end")
	}
}

// TestKilled: what was parked but not committed is read again by the next
// instance, and known.
func TestKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic := r.topic("-delayed", 1)
	const many = 300
	r.fill(topic, 1, many)
	var wire sourcetest.Cable
	first := r.source([]string{topic}, map[string]any{"batch": 100})
	first.settings.cluster.Dial = wire.Dial
	r.store.After = func() { wire.Sever(true) }
	killed := r.run(first)
	r.store.Await(t, 1)
	if err := killed.Stop(); err != nil {
		t.Error(err)
	}
	r.store.Lock()
	r.store.After = nil
	r.store.Unlock()
	if offset := r.committed(topic, 0); offset > 0 {
		t.Fatalf("committed %d: nothing will be read again", offset)
	}
	second := r.run(r.source([]string{topic}, nil))
	r.checkOnce(1, many)
	before := killed.Report().Parked
	poll.Until(t, time.Minute, "all to be counted", func() bool {
		again := second.Report()
		return again.Duplicates == before && before+again.Parked >= many
	})
	if again := second.Report(); before == 0 || before+again.Parked != many {
		t.Errorf("the first has parked %d, the second reports %+v", before, again)
	}
}

// TestCut: a connection that breaks again and again costs nothing but time.
func TestCut(t *testing.T) {
	r := newRig(t)
	topic := r.topic("-delayed", 2)
	var wire sourcetest.Cable
	src := r.source([]string{topic}, map[string]any{"batch": 50})
	src.settings.cluster.Dial = wire.Dial
	calls := 0
	r.store.After = func() {
		if calls++; calls%10 == 0 {
			wire.Sever(false)
		}
	}
	const many = 2000
	r.fill(topic, 2, many)
	r.run(src)
	r.checkOnce(2, many)
	for queue := range 2 {
		poll.Until(t, time.Minute, "the commit", func() bool { return r.committed(topic, queue) == many })
	}
}

// TestMembers: two instances share the queues, and one takes over when the other
// goes, at once; every message is parked once.
func TestMembers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic := r.topic("-delayed", 4)
	first := r.run(r.source([]string{topic}, nil))
	poll.Until(t, time.Minute, "all queues", func() bool { return len(first.read()) == 4 })
	second := r.run(r.source([]string{topic}, nil))
	poll.Until(t, time.Minute, "a fair share", func() bool { return len(first.read()) == 2 && len(second.read()) == 2 })
	const half = 500
	r.fill(topic, 4, half)
	r.checkOnce(4, half)
	// What is parked is counted only then.
	poll.Until(t, time.Minute, "both to have parked half of it", func() bool {
		a, b := first.Report(), second.Report()
		return a.Parked == 2*half && b.Parked == 2*half && a.Lag == 0 && b.Lag == 0
	})
	for queue := range 4 {
		poll.Until(t, time.Minute, "the commit", func() bool { return r.committed(topic, queue) == half })
	}
	if err := first.Stop(); err != nil {
		t.Error(err)
	}
	poll.Until(t, time.Minute, "the take-over", func() bool { return len(second.read()) == 4 })
	r.fillFrom(topic, 4, half, half)
	r.checkOnce(4, 2*half)
	poll.Until(t, time.Minute, "the other to have parked the rest", func() bool { return second.Report().Parked >= 6*half })
	if got := second.Report(); got.Duplicates > 0 || got.Parked != 6*half {
		t.Errorf("%+v", got)
	}
	if lag := first.Report().Lag; lag != -1 {
		t.Errorf("lag %d after the end", lag)
	}
}

func (r *running) read() []*queue { return r.assigned.All() }

// TestOffsetLost: a queue that is shorter than what the group has committed is
// read on all the same.
func TestOffsetLost(t *testing.T) {
	r := newRig(t)
	topic := r.topic("-delayed", 1)
	r.fill(topic, 1, 5)
	fields := map[string]string{"consumerGroup": r.name, "topic": topic, "queueId": "0", "commitOffset": "1000"}
	if _, err := r.wire.ask(t.Context(), r.BrokerAddr(), rocketmq.Command{Code: rocketmq.RequestCommit, Fields: fields}, 0); err != nil {
		t.Fatal(err)
	}
	r.run(r.source([]string{topic}, nil))
	poll.Until(t, time.Minute, "another offset", func() bool { return r.committed(topic, 0) <= 5 })
	r.send(topic, 0, "next", props("delaybridge-deliver-at", soon.Format(time.RFC3339)))
	r.store.Until(t, "the next", func() bool {
		return slices.ContainsFunc(r.store.Parked, func(m *core.Message) bool { return string(m.Body) == "next" })
	})
}

// TestNamespace: the cluster's names have it, ours have not.
func TestNamespace(t *testing.T) {
	r := newRig(t)
	r.CreateTopic("ns%"+r.name+"-delayed", 1)
	r.CreateTopic("ns%"+r.name+"-rejected", 1)
	r.send("ns%"+r.name+"-delayed", 0, "good", props("delaybridge-delay", "1h"))
	r.send("ns%"+r.name+"-delayed", 0, "bad", "")
	r.run(r.source([]string{r.name + "-delayed"}, map[string]any{"namespace": "ns", "topic": "{topic}", "trim_suffix": "-delayed", "reject_topic": r.name + "-rejected"}))
	if got := r.store.Await(t, 1)[0]; got.Topic != r.name || !strings.HasPrefix(got.ID, "r:src:"+r.name+"-delayed:") {
		t.Errorf("topic %s, id %s", got.Topic, got.ID)
	}
	if got := r.read("ns%"+r.name+"-rejected", 1)[0]; string(got.body) != "bad" || got.property["delaybridge-source-topic"] != r.name+"-delayed" {
		t.Errorf("rejected %q", got.property)
	}
}

// TestTopicAppears: topics need not be there from the start, and may grow.
func TestTopicAppears(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.topic("-delayed", 1)
	src := r.run(r.source([]string{first, r.name + "-late"}, nil))
	r.fill(first, 1, 10)
	r.store.Await(t, 10) // although the other topic is missing
	late := r.topic("-late", 1)
	r.send(late, 0, "late", props("delaybridge-delay", "1h"))
	r.store.Await(t, 11)
	r.CreateTopic(late, 3)
	poll.Until(t, time.Minute, "the new queues", func() bool { return len(src.read()) == 4 })
	r.send(late, 2, "grown", props("delaybridge-delay", "1h"))
	if got := r.store.Await(t, 12)[11]; string(got.Body) != "grown" {
		t.Errorf("parked %q", got.Body)
	}
}

// TestLogin: with access control every request is signed. A wrong secret is
// tried on with, and reads nothing.
func TestLogin(t *testing.T) {
	t.Parallel()
	r := rigOf(t, servers.RocketMQ(t, servers.RocketMQOptions{Logins: true}))
	admin := map[string]any{"access_key": servers.RocketMQAdmin, "secret_key": servers.RocketMQAdminSecret}
	topic, rejects := r.topic("-delayed", 1), r.topic("-rejected", 1)
	r.wire.cluster.Credentials = rocketmq.Credentials{AccessKey: servers.RocketMQAdmin, SecretKey: servers.RocketMQAdminSecret}
	r.send(topic, 0, "bad", "")
	r.send(topic, 0, "good", props("delaybridge-delay", "1h"))
	var said journal.Journal
	config := r.config([]string{topic}, map[string]any{"access_key": servers.RocketMQAdmin, "secret_key": "wrong-secret"})
	refused, err := New("src", config, r.interceptor(), slog.New(slog.NewTextHandler(&said, nil)))
	if err != nil {
		t.Fatal(err)
	}
	wrong := r.run(refused)
	admin["reject_topic"] = rejects
	poll.Until(t, time.Minute, "a refusal in the log", func() bool { return strings.Contains(said.String(), "can't join the consumer group") })
	if report := wrong.Report(); report.Parked > 0 || report.Rejected > 0 {
		t.Errorf("with a wrong secret: %+v", report)
	}
	if err := wrong.Stop(); err != nil {
		t.Error(err)
	}
	if strings.Contains(said.String(), "secret") {
		t.Errorf("the log has the secret: %s", said.String())
	}
	src := r.run(r.source([]string{topic}, admin))
	r.store.Await(t, 1)
	if got := r.read(rejects, 1)[0]; string(got.body) != "bad" {
		t.Errorf("rejected %q", got.body)
	}
	poll.Until(t, time.Minute, "the commit", func() bool { return r.committed(topic, 0) == 2 })
	if err := src.Stop(); err != nil {
		t.Error(err)
	}
}

// TestBrokerKilled is also the test on version 4: what it has acknowledged is
// parked once, although it dies with commits that it has not written.
func TestBrokerKilled(t *testing.T) {
	t.Parallel()
	r := rigOf(t, servers.RocketMQ(t, servers.RocketMQOptions{Version: servers.RocketMQ4}))
	t.Run("delays of its own", func(t *testing.T) { checkDelays(t, r, false) })
	topic := r.topic("-delayed", 2)
	r.store = sourcetest.NewStore()
	src := r.run(r.source([]string{topic}, map[string]any{"request_timeout": "1s", "group": r.name + "-2"}))
	const half = 500
	r.fill(topic, 2, half)
	r.checkOnce(2, half)
	r.Broker().Kill()
	r.Broker().Start()
	poll.Until(t, time.Minute, "the topic", func() bool { return r.HasTopic(topic) })
	r.fillFrom(topic, 2, half, half)
	r.checkOnce(2, 2*half)
	if err := src.Stop(); err != nil {
		t.Error(err)
	}
	again := r.run(r.source([]string{topic}, map[string]any{"group": r.name + "-3"})) // a group that has read nothing
	poll.Until(t, time.Minute, "duplicates", func() bool { return again.Report().Duplicates == 4*half })
	if got := again.Report().Parked; got != 0 {
		t.Errorf("parked %d again", got)
	}
	r.checkOnce(2, 2*half)
}

func TestAllot(t *testing.T) {
	queues := make([]place, 7)
	for n := range queues {
		queues[n] = place{topic: "t", broker: "b", number: n}
	}
	for members := 1; members <= 9; members++ {
		var ids []string
		for n := range members {
			ids = append(ids, strconv.Itoa(n))
		}
		var all []place
		for _, id := range ids {
			all = append(all, allot(queues, ids, id)...)
		}
		if !slices.Equal(all, queues) {
			t.Errorf("%d members share %v", members, all)
		}
	}
	if got := allot(queues, []string{"a"}, "b"); got != nil {
		t.Errorf("who is no member has %v", got)
	}
}
