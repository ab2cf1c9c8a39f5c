//go:build unix

package kafkasource

import (
	"context"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl/plain"

	"github.com/delaybridge/delaybridge/integration/poll"
	kafkaconn "github.com/delaybridge/delaybridge/internal/brokers/kafka"
)

// silent is the address of a broker that takes connections and never answers. It
// tells of the first.
func silent(t testing.TB) (address string, taken <-chan struct{}) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	first := make(chan struct{})
	tell := sync.OnceFunc(func() { close(first) })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
			tell()
		}
	}()
	return listener.Addr().String(), first
}

// TestSilentSeed: one broker of several that never answers does not keep an
// source from reading, nor from seeing new partitions.
func TestSilentSeed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic := r.topic(".delayed", 1)
	seed, _ := silent(t)
	src := r.run(r.source([]string{topic}, hasty(map[string]any{"brokers": append([]string{seed}, r.Addrs()...)})))
	r.fill(topic, 1, 0, 10)
	r.store.Await(t, 10)
	r.grow(topic, 2)
	poll.Until(t, 2*time.Minute, "it has both partitions", func() bool { return assigned(src) == 2 })
	wantOnce(t, r.store, 10)
}

// TestSilentLogin: a broker that never answers to a login is given up, too.
func TestSilentLogin(t *testing.T) {
	t.Parallel()
	s := settings{Dialer: kafkaconn.Dialer{DialContext: (&net.Dialer{}).DialContext, DialTimeout: 100 * time.Millisecond,
		SASL: plain.Mechanism{Username: "u", Password: "p"}}}
	dial, release := s.groupDial(t.Context())
	defer release()
	i := &Source{settings: s}
	address, _ := silent(t)
	ended := make(chan error, 1)
	go func() {
		_, err := i.groupConfig(dial, nil, nil, nil).Dialer.DialContext(context.Background(), "tcp", address)
		ended <- err
	}()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("it has logged in")
		}
	case <-time.After(60 * time.Second):
		t.Error("it waits for ever")
	}
}

// TestClosedIsForgotten: a connection that the group's library has closed is not
// kept until the source ends.
func TestClosedIsForgotten(t *testing.T) {
	t.Parallel()
	type one struct{ net.Conn }
	var made weak.Pointer[one]
	s := settings{Dialer: kafkaconn.Dialer{DialContext: func(context.Context, string, string) (net.Conn, error) {
		near, _ := net.Pipe()
		conn := &one{near}
		made = weak.Make(conn)
		return conn, nil
	}}}
	dial, release := s.groupDial(t.Context())
	defer release()
	conn, err := dial(t.Context(), "tcp", "anywhere")
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	poll.Until(t, 2*time.Minute, "it is forgotten", func() bool {
		runtime.GC()
		return made.Value() == nil
	})
}

// stranger is another member of the group of a rig, which reads nothing and does
// not look for new topics.
func (r *rig) stranger(each func(*kafka.Generation), topics ...string) {
	r.t.Helper()
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{ID: r.name, Brokers: r.Addrs(), Topics: topics,
		SessionTimeout: 6 * time.Second, HeartbeatInterval: time.Second, JoinGroupBackoff: 100 * time.Millisecond})
	if err != nil {
		r.t.Fatal(err)
	}
	ended := make(chan struct{})
	r.t.Cleanup(func() { group.Close(); <-ended })
	go func() {
		defer close(ended)
		for r.t.Context().Err() == nil {
			if generation, err := group.Next(r.t.Context()); err == nil {
				each(generation)
			}
		}
	}()
}

// TestNothingSharedOut: as long as one member names a topic that does not exist,
// the leader has nothing to share out. It finds out when that is over, although
// its own topics are as they were all the time.
func TestNothingSharedOut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic, later := r.topic(".delayed", 2), r.name+".later"
	src := r.run(r.source([]string{topic}, nil)) // the leader, as it comes first
	poll.Until(t, 2*time.Minute, "it has both partitions", func() bool { return assigned(src) == 2 })
	empty := make(chan struct{}, 1)
	r.stranger(func(g *kafka.Generation) {
		if len(g.Assignments[topic]) > 0 {
			return
		}
		select {
		case empty <- struct{}{}:
		default: // it is known
		}
	}, topic, later)
	<-empty
	r.CreateTopic(later, 1)
	poll.Until(t, 2*time.Minute, "it has one partition", func() bool { return assigned(src) == 1 })
}

// TestShares: they are of the last join, and only if this member has led it.
func TestShares(t *testing.T) {
	s := new(shares)
	balancers := s.balancers()
	for n, want := range []string{"range", "roundrobin"} {
		if got := balancers[n].ProtocolName(); got != want {
			t.Errorf("balancer %d is %s, want %s", n, got, want)
		}
	}
	b := balancers[0]
	members := []kafka.GroupMember{{ID: "m", Topics: []string{"a", "other"}}}
	if got := b.AssignGroups(members, []kafka.Partition{{Topic: "a"}, {Topic: "a", ID: 1}, {Topic: "other"}}); len(got["m"]["a"]) != 2 {
		t.Errorf("assigned %v", got)
	}
	if got, known := s.of([]string{"a", "b"}); !known || len(got) != 2 || got["a"] != 2 || got["b"] != 0 {
		t.Errorf("as the leader: %v %v", got, known)
	}
	if _, err := b.UserData(); err != nil {
		t.Error(err)
	}
	if got, known := s.of([]string{"a"}); known {
		t.Errorf("in the next join: %v", got)
	}
	b.AssignGroups(members, nil)
	if got, known := s.of([]string{"a"}); !known || got["a"] != 0 {
		t.Errorf("with nothing to share out: %v %v", got, known)
	}
}
