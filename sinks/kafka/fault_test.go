package kafka

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/core"
)

// inBubble runs test with a fake of two brokers, of which the first leads the
// four partitions of the topic "t", a sink on it, and virtual time.
func inBubble(t *testing.T, test func(t *testing.T, f *fakeCluster, sink *Sink)) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(2)
		f.leaders["t"] = []int{1, 1, 1, 1}
		sink := f.openSink(t, nil)
		defer func() {
			if err := sink.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}()
		test(t, f, sink)
	})
}

func deliverTimed(t *testing.T, sink *Sink, batch []*core.Message) (time.Duration, error) {
	begin := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err := sink.Deliver(ctx, batch)
	return time.Since(begin), err
}

// TestCulpritStandsAlone has the broker refuse each batch that has one of the
// culprits in it. Only these must fail, and the others be stored once, in order.
func TestCulpritStandsAlone(t *testing.T) {
	for _, test := range []struct {
		name     string
		code     kafka.Error
		named    bool // the broker tells which records it means
		requests int  // at most
	}{
		{"too large", kafka.MessageSizeTooLarge, false, 40},
		{"batch too large", kafka.RecordListTooLarge, false, 40},
		{"invalid, not named", kafka.InvalidRecord, false, 40},
		{"invalid, named", kafka.InvalidRecord, true, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *fakeCluster, sink *Sink) {
				f.answer = func(p fakeProduce) fakeAnswer {
					a := fakeAnswer{}
					for n, body := range p.bodies {
						if strings.HasPrefix(body, "bad") {
							a.code = test.code
							a.culprit = append(a.culprit, n)
						}
					}
					if !test.named {
						a.culprit = nil
					}
					return a
				}
				bodies := numbered(100)
				bodies[17], bodies[80] = "bad 17", "bad 80"
				err := sink.Deliver(t.Context(), messages("t", bodies...))
				want := slices.Repeat([]core.Class{wellDone}, 100)
				want[17], want[80] = core.Permanent, core.Permanent
				if diff := cmp.Diff(want, each(100, err)); diff != "" {
					t.Errorf("classes (-want +got):\n%s", diff)
				}
				good := slices.DeleteFunc(bodies, func(b string) bool { return strings.HasPrefix(b, "bad") })
				if diff := cmp.Diff(good, f.stored("t", 0)); diff != "" {
					t.Errorf("stored (-want +got):\n%s", diff)
				}
				if f.produces > test.requests {
					t.Errorf("%d requests, want at most %d", f.produces, test.requests)
				}
			})
		})
	}
}

// TestNeighbourIsSpared puts the messages of two Delivers into one request and
// has it refused because of one of them.
func TestNeighbourIsSpared(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fakeCluster, sink *Sink) {
		release := make(chan struct{})
		f.before = func(int) bool { <-release; return true }
		f.answer = func(p fakeProduce) fakeAnswer {
			if slices.Contains(p.bodies, "bad") {
				return fakeAnswer{code: kafka.MessageSizeTooLarge}
			}
			return fakeAnswer{}
		}
		var group sync.WaitGroup
		for _, test := range []struct {
			body string
			want core.Class
		}{{"first", wellDone}, {"good", wellDone}, {"bad", core.Permanent}, {"well", wellDone}} {
			group.Go(func() {
				err := sink.Deliver(t.Context(), messages("t", test.body))
				if got := each(1, err)[0]; got != test.want {
					t.Errorf("%s: class %d, want %d: %v", test.body, got, test.want, err)
				}
			})
			synctest.Wait()
		}
		close(release)
		group.Wait()
	})
}

func TestLeaderMoves(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fakeCluster, sink *Sink) {
		if _, err := deliverTimed(t, sink, messages("t", "before")); err != nil {
			t.Fatal(err)
		}
		f.set(func() { f.leaders["t"] = []int{0, 1, 1, 1} })
		time.AfterFunc(300*time.Millisecond, func() { f.set(func() { f.leaders["t"][0] = 2 }) })
		bodies := numbered(50)
		took, err := deliverTimed(t, sink, messages("t", bodies...))
		if err != nil || took > time.Second {
			t.Errorf("got %v after %s, want nil within a second", err, took)
		}
		if diff := cmp.Diff(append([]string{"before"}, bodies...), f.stored("t", 0)); diff != "" {
			t.Errorf("stored (-want +got):\n%s", diff)
		}
	})
}

// TestNoLeader: the first Deliver waits for a leader to turn up, those after it
// do not, as their other messages would wait with it.
func TestNoLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fakeCluster, sink *Sink) {
		f.leaders["t"] = []int{0, 1, 1, 1}
		for try, most := range []time.Duration{patience + maxBackOff, 0, 0} {
			batch := messages("t", "no leader", "other partition")
			batch[1].Options["partition"] = "1"
			took, err := deliverTimed(t, sink, batch)
			if diff := cmp.Diff([]core.Class{core.TopicBlocked, wellDone}, each(2, err)); diff != "" || took > most {
				t.Errorf("try %d: after %s: %v %s", try, took, err, diff)
			}
		}
		f.set(func() { f.leaders["t"][0] = 2 })
		if _, err := deliverTimed(t, sink, messages("t", "leader is back")); err != nil {
			t.Errorf("with a leader again: %v", err)
		}
	})
}

// TestOneBrokerUnreachable: messages for its partitions go back without blame, and the
// others are delivered.
func TestOneBrokerUnreachable(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fakeCluster, sink *Sink) {
		f.leaders["t"] = []int{2, 1, 1, 1}
		f.down[2] = true
		for range 3 {
			batch := messages("t", "away", "there")
			batch[1].Options["partition"] = "1"
			_, err := deliverTimed(t, sink, batch)
			if diff := cmp.Diff([]core.Class{core.TopicBlocked, wellDone}, each(2, err)); diff != "" {
				t.Errorf("%v %s", err, diff)
			}
			_, err = deliverTimed(t, sink, messages("t", "only away"))
			if isWhole(err) || core.ClassOf(err) != core.TopicBlocked {
				t.Errorf("got %v, want topic_blocked for the message: another broker is well", err)
			}
		}
	})
}

// TestAllBrokersUnreachable: the trouble is the sink's, and a try costs little.
func TestAllBrokersUnreachable(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fakeCluster, sink *Sink) {
		if _, err := deliverTimed(t, sink, messages("t", "first")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // no connection is left
		synctest.Wait()
		f.set(func() { f.down[1], f.down[2] = true, true; f.dials = nil })
		for try := range 5 {
			took, err := deliverTimed(t, sink, messages("t", numbered(10)...))
			if !isWhole(err) || core.ClassOf(err) != core.Retry || took > time.Second {
				t.Errorf("try %d: got %v after %s, want one error of class retry soon", try, err, took)
			}
			time.Sleep(time.Second)
		}
		if len(f.dials) > 15 {
			t.Errorf("5 tries cost %d dials to 2 brokers", len(f.dials))
		}
		f.set(func() { f.down = map[int]bool{} })
		if _, err := deliverTimed(t, sink, messages("t", "back")); err != nil {
			t.Errorf("when they are back: %v", err)
		}
	})
}

func TestReplyLost(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fakeCluster, sink *Sink) {
		f.after = func(int) bool { return false }
		_, err := deliverTimed(t, sink, messages("t", "stored"))
		if !isWhole(err) || core.ClassOf(err) != core.Unknown {
			t.Errorf("got %v, want one error of class unknown", err)
		}
		if got := f.stored("t", 0); len(got) != 1 {
			t.Errorf("stored %d times, want once: nothing unknown is sent again by the sink", len(got))
		}
	})
}

func TestBrokerIsSilent(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fakeCluster, sink *Sink) {
		silent := make(chan struct{})
		defer close(silent)
		f.after = func(int) bool { <-silent; return false }
		took, err := deliverTimed(t, sink, messages("t", "stored"))
		if !isWhole(err) || core.ClassOf(err) != core.Unknown || took != 2*time.Second {
			t.Errorf("got %v after %s, want class unknown after the request timeout", err, took)
		}
	})
}

// stalledConn takes so many bytes once it is stalled, and no more.
type stalledConn struct {
	net.Conn
	mu    sync.Mutex
	limit int // negative: no limit
}

func (c *stalledConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	limit := c.limit
	c.mu.Unlock()
	if limit < 0 || len(b) <= limit {
		return c.Conn.Write(b)
	}
	n, err := c.Conn.Write(b[:limit])
	if err == nil { // what comes now is taken by nobody
		c.stall(0)
		blocked, other := net.Pipe()
		defer blocked.Close()
		defer other.Close()
		_ = blocked.SetWriteDeadline(time.Now().Add(2 * time.Second))
		_, err = blocked.Write(b[limit:])
	}
	return n, err
}

func (c *stalledConn) stall(limit int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = limit
}

// TestWriteStalls: a request of which the broker has not got the last byte is
// known not to have been acted upon.
func TestWriteStalls(t *testing.T) {
	for _, limit := range []int{0, 1, 100} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(1)
			f.leaders["t"] = []int{1}
			var conns []*stalledConn
			sink := openTest(t, []string{fakeAddress(1)}, brisk(nil), func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := f.dial(ctx, network, address)
				wrapped := &stalledConn{Conn: conn, limit: -1}
				f.set(func() { conns = append(conns, wrapped) })
				return wrapped, err
			})
			defer sink.Close()
			if _, err := deliverTimed(t, sink, messages("t", "first")); err != nil {
				t.Fatal(err)
			}
			for _, c := range conns {
				c.stall(limit)
			}
			_, err := deliverTimed(t, sink, messages("t", "second"))
			if got := f.stored("t", 0); err == nil && len(got) != 2 || err != nil && (len(got) != 1 || core.ClassOf(err) == core.Unknown) {
				t.Errorf("limit %d: got %v, and stored is %q", limit, err, got)
			}
		})
	}
}

// TestConnectionEndsWhileIdle: the next request goes out on a new connection, and
// nothing about it is unknown.
func TestConnectionEndsWhileIdle(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fakeCluster, sink *Sink) {
		for range 3 {
			if _, err := deliverTimed(t, sink, messages("t", "x")); err != nil {
				t.Fatalf("after the broker ended the connection: %v", err)
			}
			for n := range sink.cluster.brokers[fakeAddress(1)].lanes {
				if c := sink.cluster.brokers[fakeAddress(1)].lanes[n].conn; c != nil {
					c.Raw.Close()
				}
			}
			synctest.Wait()
		}
		if got := f.stored("t", 0); len(got) != 3 {
			t.Errorf("stored %d records, want 3", len(got))
		}
	})
}

// TestContextEnds: what has left may have arrived; what waited is never sent.
func TestContextEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fakeCluster, sink *Sink) {
		if _, err := deliverTimed(t, sink, messages("t", "first")); err != nil {
			t.Fatal(err)
		}
		release := make(chan struct{})
		f.before = func(int) bool { <-release; return true }
		ctx, cancel := context.WithCancel(t.Context())
		var sent, waiting error
		var group sync.WaitGroup
		group.Go(func() { sent = sink.Deliver(ctx, messages("t", "sent")) })
		synctest.Wait()
		group.Go(func() { waiting = sink.Deliver(ctx, messages("t", "waiting")) })
		synctest.Wait()
		cancel()
		group.Wait()
		if core.ClassOf(sent) != core.Unknown || core.ClassOf(waiting) != core.Retry {
			t.Errorf("got %v and %v, want unknown and retry", sent, waiting)
		}
		close(release)
		synctest.Wait()
		if diff := cmp.Diff([]string{"first", "sent"}, f.stored("t", 0)); diff != "" {
			t.Errorf("stored (-want +got):\n%s", diff)
		}
	})
}

// TestSlowBrokerIsPassedBy: when one broker does not answer, another is asked.
func TestSlowBrokerIsPassedBy(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fakeCluster, sink *Sink) {
		f.leaders["t"] = []int{2}
		sink.client.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == fakeAddress(1) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return f.dial(ctx, network, address)
		}
		if took, err := deliverTimed(t, sink, messages("t", "x")); err != nil || took > hedgeAfter {
			t.Errorf("got %v after %s, want nil within %s", err, took, hedgeAfter)
		}
	})
}
