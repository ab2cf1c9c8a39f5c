package rocketmq

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/delaybridge/delaybridge/core"
)

func TestDeliverClassifiesReplies(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		do   action
		want []string
	}{
		"busy":                    {action{code: 2, refuse: true}, []string{"retry"}},
		"not available":           {action{code: 14, refuse: true}, []string{"retry"}},
		"flow control":            {action{code: 215, refuse: true}, []string{"retry"}},
		"go away":                 {action{code: 1500, refuse: true}, []string{"retry"}},
		"broker is read-only":     {action{code: 16, remark: "the broker[127.0.0.1] sending message is forbidden", refuse: true}, []string{"retry"}},
		"topic is read-only":      {action{code: 16, remark: "the topic[T] sending message is forbidden", refuse: true}, []string{"topic_blocked", "topic_blocked"}},
		"ACL 2: no permission":    {action{code: 16, remark: "User:u has no permission to access Topic:T from 127.0.0.1, DENY", refuse: true}, []string{"topic_blocked", "topic_blocked"}},
		"ACL 2: bad signature":    {action{code: 16, remark: "check signature failed.", refuse: true}, []string{"blocked"}},
		"ACL 2: unknown user":     {action{code: 16, remark: "User:u is not found", refuse: true}, []string{"blocked"}},
		"ACL 1: bad signature":    {action{code: 1, remark: "org.apache.rocketmq.acl.common.AclException: Check signature failed for accessKey=u", refuse: true}, []string{"blocked"}},
		"ACL 1: no permission":    {action{code: 1, remark: "org.apache.rocketmq.acl.common.AclException: No default permission for T", refuse: true}, []string{"topic_blocked", "topic_blocked"}},
		"not supported":           {action{code: 3, refuse: true}, []string{"blocked"}},
		"version":                 {action{code: 15, refuse: true}, []string{"blocked"}},
		"topic missing":           {action{code: 17, remark: "topic[T] not exist", refuse: true}, []string{"topic_blocked", "topic_blocked"}},
		"illegal":                 {action{code: 13, refuse: true}, []string{"permanent", "permanent"}},
		"catch-all":               {action{code: 1, remark: "UNKNOWN_ERROR", refuse: true}, []string{"unknown", "unknown"}},
		"body too large":          {action{code: 1, remark: "java.lang.RuntimeException: message body size exceeded", refuse: true}, []string{"permanent", "permanent"}},
		"replicas short":          {action{code: 1, remark: "in-sync replicas not enough", refuse: true}, []string{"unknown"}},
		"code of the future":      {action{code: 4711, refuse: true}, []string{"unknown", "unknown"}},
		"disk flush timed out":    {action{code: 10}, []string{"unknown"}},
		"replica absent":          {action{code: 11}, []string{"unknown"}},
		"replica flush timed out": {action{code: 12}, []string{"unknown"}},
		"stored, reply lost":      {action{silent: true}, []string{"unknown"}},
		"stored, then cut":        {action{cut: true}, []string{"unknown"}},
		"refused, then cut":       {action{cut: true, refuse: true}, []string{"unknown"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, "a")
			c.brokers["a"].always(test.do)
			s := open(t, c, brief)
			err := s.Deliver(t.Context(), messages(2, key("k")))
			wantClasses(t, err, test.want...)
			c.brokers["a"].always(action{})
			if err := s.Deliver(t.Context(), messages(2, key("k"))); err != nil {
				t.Errorf("after it was over: %v", err)
			}
		})
	}
}

func TestDeliverAcceptsFlushTimeouts(t *testing.T) {
	for _, code := range []int{10, 11, 12} {
		c := newCluster(t, "a")
		c.brokers["a"].always(action{code: code})
		s := open(t, c, `"flush_timeouts":"accept"`)
		if err := s.Deliver(t.Context(), messages(2)); err != nil {
			t.Errorf("code %d: %v", code, err)
		}
	}
}

func TestDeliverWithoutWayToBroker(t *testing.T) {
	tests := map[string]struct {
		spoil func(*testing.T, *cluster)
		topic string
		want  []string
	}{
		"no name server":    {func(_ *testing.T, c *cluster) { c.names.stop() }, "T", []string{"retry"}},
		"no broker":         {func(_ *testing.T, c *cluster) { c.forgetBrokers() }, "T", []string{"retry"}},
		"broker is down":    {func(_ *testing.T, c *cluster) { c.brokers["a"].stop() }, "T", []string{"retry"}},
		"topic missing":     {func(*testing.T, *cluster) {}, "X", []string{"topic_blocked", "topic_blocked"}},
		"no queue":          {func(_ *testing.T, c *cluster) { c.setTopic("X", 0) }, "X", []string{"topic_blocked", "topic_blocked"}},
		"name server hangs": {func(t *testing.T, c *cluster) { c.names.mute(t) }, "T", []string{"retry"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "a")
			s := open(t, c, brief)
			test.spoil(t, c)
			start := time.Now()
			err := s.Deliver(t.Context(), messages(2, topic(test.topic)))
			wantClasses(t, err, test.want...)
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
}

func TestDeliverTopicMadeLater(t *testing.T) {
	c := newCluster(t, "a")
	s := open(t, c)
	wantClasses(t, s.Deliver(t.Context(), messages(1, topic("X"))), "topic_blocked")
	c.setTopic("X", 2)
	if err := s.Deliver(t.Context(), messages(1, topic("X"))); err != nil {
		t.Error(err)
	}
}

// A missing topic does not touch its neighbours.
func TestDeliverTopicsApart(t *testing.T) {
	c := newCluster(t, "a")
	s := open(t, c)
	batch := messages(4)
	batch[1].Topic = "X"
	wantClasses(t, s.Deliver(t.Context(), batch), "ok", "topic_blocked", "ok", "ok")
}

// keysFor returns a key for a queue of each broker.
func keysFor(t *testing.T, c *cluster, s *Sink) map[string]string {
	t.Helper()
	if err := s.Deliver(t.Context(), messages(1)); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for n := range 100 {
		k := fmt.Sprint("k", n)
		found[s.routes.of("T").forKey(k).BrokerName] = k
	}
	if len(found) != len(c.brokers) {
		t.Fatalf("keys for %v only", found)
	}
	return found
}

// With one of two brokers down its keys wait, without an attempt spent, and the
// rest goes on.
func TestDeliverWithOneOfTwoBrokersDown(t *testing.T) {
	c := newCluster(t, "a", "b")
	s := open(t, c, brief)
	keys := keysFor(t, c, s)
	c.brokers["b"].stop()
	batch := []*core.Message{message(0, key(keys["a"])), message(1, key(keys["b"])), message(2, key(keys["a"]))}
	wantClasses(t, s.Deliver(t.Context(), batch), "ok", "topic_blocked", "ok")
	for range 8 {
		if err := s.Deliver(t.Context(), messages(1)); err != nil {
			t.Errorf("a message without a key does not avoid the broker: %v", err)
		}
	}
	c.brokers["a"].stop()
	err := s.Deliver(t.Context(), messages(3, key(keys["a"])))
	if core.ClassOf(err) == core.Unknown { // written before the end of the connection was seen
		err = s.Deliver(t.Context(), messages(3, key(keys["a"])))
	}
	wantClasses(t, err, "retry")
}

// A broker that hangs costs its own keys one timeout, and then nothing.
func TestDeliverWithOneOfTwoBrokersSilent(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	s := open(t, c, brief)
	keys := keysFor(t, c, s)
	c.brokers["b"].always(action{silent: true})
	batch := []*core.Message{message(0, key(keys["a"])), message(1, key(keys["b"]))}
	wantClasses(t, s.Deliver(t.Context(), batch), "ok", "unknown")
	asked := len(c.brokers["b"].seen())
	wantClasses(t, s.Deliver(t.Context(), batch), "ok", "topic_blocked")
	if more := len(c.brokers["b"].seen()) - asked; more > 0 {
		t.Errorf("the second time it got %d requests", more)
	}
}

// A broker that stops reading has senders hang past their context, and all who
// come after them on the connection.
func TestDeliverWithBrokerThatStopsReading(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	s := open(t, c, brief, `"workers":2`)
	keys := keysFor(t, c, s)
	unmute := c.brokers["b"].mute(t)
	large := func(m *core.Message) { m.Body = make([]byte, 3<<20) }
	for n := range 3 { // one more than there are workers
		s.brokers.note("b", true)
		start := time.Now()
		wantClasses(t, s.Deliver(t.Context(), []*core.Message{message(n, key(keys["b"]), large)}), "unknown")
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("deliver %d took %s", n, took)
		}
		if err := s.Deliver(t.Context(), messages(3, key(keys["a"]))); err != nil {
			t.Errorf("the other broker: %v", err)
		}
	}
	unmute()
	s.brokers.note("b", true)
	if err := s.Deliver(t.Context(), []*core.Message{message(9, key(keys["b"]))}); err != nil {
		t.Errorf("after it was over: %v", err)
	}
}

// A connection that the network has forgotten, to a broker that works, is given
// up with those who hang on it.
func TestDeliverWithForgottenConnection(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	s := open(t, c, brief)
	if err := s.Deliver(t.Context(), messages(1)); err != nil {
		t.Fatal(err)
	}
	c.brokers["a"].freeze(t)
	large := func(m *core.Message) { m.Body = make([]byte, 3<<20) }
	wantClasses(t, s.Deliver(t.Context(), messages(4, key("k"), large)), "unknown")
	if err := s.Deliver(t.Context(), messages(1)); err != nil {
		t.Errorf("over a new connection: %v", err)
	}
}

func TestDeliverReturnsWhenContextEnds(t *testing.T) {
	c := newCluster(t, "a")
	s := open(t, c)
	if err := s.Deliver(t.Context(), messages(1)); err != nil {
		t.Fatal(err)
	}
	arrived := make(chan struct{})
	c.brokers["a"].setPlan(func(sent) action { close(arrived); return action{silent: true} })
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	start := time.Now()
	wantClasses(t, s.Deliver(ctx, messages(1)), "unknown")
	if took := time.Since(start); took >= maxSendTimeout {
		t.Errorf("took %s", took)
	}
	wantClasses(t, s.Deliver(ctx, messages(1)), "retry") // not even begun
	if n := len(c.brokers["a"].seen()); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

func TestDeliverFollowsRoute(t *testing.T) {
	c := newCluster(t, "a")
	s := open(t, c)
	if err := s.Deliver(t.Context(), messages(1)); err != nil {
		t.Fatal(err)
	}
	// The library shows new queues with the next send; what was chosen of the
	// old is not sent.
	old := s.routes.of("T")
	gone := *old.queues[3]
	gone.QueueId = 9
	p, err := s.begin()
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.send(t.Context(), time.Second, &primitive.Message{Topic: gone.Topic, Queue: &gone, Batch: true,
		Body: onWire([]*outgoing{newOutgoing(0, message(1))})})
	if f := failureOfError(err); f.class != core.Retry || f.err != errRouteGone {
		t.Errorf("got %v of class %s", f.err, f.class)
	}
	if n := len(c.stored()); n != 1 {
		t.Errorf("%d stored, want 1", n)
	}
}
