package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// deadDial is how a dial ends where a broker was.
type deadDial func(ctx context.Context, address string) (net.Conn, error)

func refused(context.Context, string) (net.Conn, error) { return nil, errors.New("connection refused") }

func hungUp(context.Context, string) (net.Conn, error) {
	near, far := net.Pipe()
	return near, far.Close()
}

func silent(context.Context, string) (net.Conn, error) {
	near, far := net.Pipe()
	go drain(far)
	return near, nil
}

func vanished(ctx context.Context, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func leaderRefused(ctx context.Context, address string) (net.Conn, error) {
	if address == fakeAddress(1) {
		return refused(ctx, address)
	}
	return vanished(ctx, address)
}

func drain(conn net.Conn) {
	defer conn.Close()
	_, _ = io.Copy(io.Discard, conn)
}

// mortal dials a fake cluster, and counts what is dialled once that has died.
type mortal struct {
	alive func(ctx context.Context, network, address string) (net.Conn, error)

	mu    sync.Mutex
	death deadDial // nil: alive
	conns []net.Conn
	dials map[string]int
}

func (m *mortal) dial(ctx context.Context, network, address string) (net.Conn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if death := m.death; death != nil {
		m.dials[address]++
		m.mu.Unlock()
		defer m.mu.Lock()
		return death(ctx, address)
	}
	conn, err := m.alive(ctx, network, address)
	if err == nil {
		m.conns = append(m.conns, conn)
	}
	return conn, err
}

// die ends all connections; later ones end as death has it.
func (m *mortal) die(death deadDial) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.death, m.dials = death, map[string]int{}
	for _, conn := range m.conns {
		conn.Close()
	}
}

// TestDeadClusterIsDialledOnce: a Deliver that fails as no broker is there costs
// each address one connection, whoever wants one: the lane, the question who the
// leader is now, and that which is asked on the side when a topic's time is up.
func TestDeadClusterIsDialledOnce(t *testing.T) {
	for name, death := range map[string]deadDial{"refused": refused, "hung up": hungUp, "silent": silent,
		"vanished": vanished, "leader refused, others vanished": leaderRefused} {
		for _, brokers := range []int{1, 3} {
			for _, before := range []time.Duration{0, 2 * time.Second} { // leaders are believed for one
				t.Run(fmt.Sprintf("%s, %d brokers, last asked %s ago", name, brokers, before), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { testDeadCluster(t, brokers, before, death) })
				})
			}
		}
	}
}

func testDeadCluster(t *testing.T, brokers int, before time.Duration, death deadDial) {
	const probes = 4
	f := newFake(brokers)
	f.leaders["t"] = []int{1}
	m := &mortal{alive: f.dial}
	var addrs []string
	for n := range brokers {
		addrs = append(addrs, fakeAddress(n+1))
	}
	sink := openTest(t, addrs, brisk(nil), m.dial)
	defer sink.Close()
	if _, err := deliverTimed(t, sink, messages("t", "first")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(before)
	m.die(death)
	synctest.Wait()
	for range probes {
		if took, err := deliverTimed(t, sink, messages("t", "x")); !isWhole(err) || core.ClassOf(err) != core.Retry {
			t.Errorf("got %v after %s, want one error of class retry", err, took)
		}
		time.Sleep(time.Second)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for address, n := range m.dials {
		if n > probes {
			t.Errorf("%d probes have dialled %s %d times", probes, address, n)
		}
	}
	if n := m.dials[fakeAddress(1)]; n != probes {
		t.Errorf("%d probes have dialled the leader %d times", probes, n)
	}
}

// TestWhoGivesUpFailsAlone: who waits for another's attempt is not let down when
// that is given up, but makes the next.
func TestWhoGivesUpFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, m := newFake(1), &mortal{}
		m.alive = f.dial
		m.die(vanished)
		sink := openTest(t, []string{fakeAddress(1)}, brisk(nil), m.dial)
		defer sink.Close()
		first, giveUp := context.WithCancel(t.Context())
		errs := make(chan error, 2)
		connect := func(ctx context.Context) {
			conn, err := sink.client.connect(ctx, fakeAddress(1))
			if err == nil {
				conn.close()
			}
			errs <- err
		}
		go connect(first)
		synctest.Wait()
		go connect(t.Context())
		synctest.Wait()
		if n := m.dials[fakeAddress(1)]; n != 1 {
			t.Errorf("two who want a connection have dialled %d times", n)
		}
		m.die(nil) // and so alive
		giveUp()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("who gave up got %v", err)
		}
		if err := <-errs; err != nil {
			t.Errorf("who waited got %v", err)
		}
	})
}
