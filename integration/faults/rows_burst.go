//go:build unix

package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/redisstore"
	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// burstRows are loads that fall due at one instant.
func burstRows() []*row {
	return []*row{{number: 52, name: "burst longer than the lease", fault: "204,800 messages in 1,024 buckets fall due at one instant",
		expected: "no lease is lost, and each message is sent once, at its first attempt", level: "memory", bridges: 2, guard: "30s", set: redisWithManyBuckets, nemesis: (*run).burst, verify: (*run).checkBurst,
		perFault: 1, drainIn: time.Minute, needs: map[string]int{"longer than the lease": 1}}}
}

const (
	manyBuckets  = 1024
	burstBatch   = 200 // messages that may go anywhere, and so go into one bucket
	burstSize    = manyBuckets * burstBatch
	burstParkers = 2
	burstAhead   = 40 * time.Second // of which half is for parking it, and half for the bridges to start
)

// redisWithManyBuckets also parks the burst, past the listeners, while no bridge has
// a processor to itself.
func redisWithManyBuckets(r *run) redisSetting {
	node := servers.Redis(r, servers.RedisOptions{AOF: servers.AOFEverySec})
	r.burstDue = time.Now().Add(burstAhead).Truncate(time.Millisecond)
	r.parkBurst(node.Addr())
	if time.Until(r.burstDue) < burstAhead/2 {
		r.Skipf("a burst of %d messages can't be parked here within %s", burstSize, burstAhead/2)
	}
	return redisSetting{yaml: fmt.Sprintf("{url: %q, buckets: %d}", node.URL(), manyBuckets), node: node}
}

// burst waits until it has been sent.
func (r *run) burst() {
	time.Sleep(time.Until(r.burstDue))
	over := r.strikeClean("burst")
	poll.Holds(r.row.drainIn, func() bool { return r.burstArrived() >= burstSize })
	over()
	took := time.Since(r.burstDue)
	r.note = fmt.Sprintf("drained in %s", took.Round(100*time.Millisecond))
	if took > 2*lease {
		r.reached("longer than the lease")
	}
}

func (r *run) burstArrived() int {
	return r.ledger.count(func(e entry) bool { return e.Kind == arriving && e.Due.Equal(r.burstDue) })
}

func (r *run) parkBurst(addr string) {
	store, err := redisstore.Open(context.Background(), redisstore.Config{Addrs: []string{addr}, Buckets: manyBuckets, Durability: r.row.level})
	if err != nil {
		r.Fatalf("open the store: %v", err)
	}
	defer store.Close()
	batches := make(chan int)
	var parkers sync.WaitGroup
	for range burstParkers {
		parkers.Go(func() {
			for from := range batches {
				r.parkBatch(store, from)
			}
		})
	}
	for from := 0; from < burstSize; from += burstBatch {
		batches <- from
	}
	close(batches)
	parkers.Wait()
}

func (r *run) parkBatch(store *redisstore.Store, from int) {
	messages := make([]*core.Message, burstBatch)
	for n := range messages {
		name := fmt.Sprintf("b%d-%d", r.seed, from+n)
		messages[n] = &core.Message{Generated: true, Sink: "out", Topic: "orders", Headers: []core.Header{{Name: headerName, Value: []byte(name)}}, Body: []byte("burst"), DeliverAt: r.burstDue}
	}
	called := time.Now()
	for n, receipt := range store.Park(context.Background(), messages...) {
		name := string(messages[n].Headers[0].Value)
		e := entry{Kind: accepting, Name: name, ID: receipt.ID, Call: called, Return: time.Now(), Outcome: done, State: "scheduled", Due: receipt.DeliverAt, Least: r.burstDue,
			Content: content("orders", "", []header{{headerName, &name}}, "burst")}
		if receipt.Err != nil {
			e.Outcome = unknown
		}
		r.ledger.note(e)
	}
}

var lostLease = regexp.MustCompile(`(leases of buckets lost[^\n]*)`)

// checkBurst finds leases that were lost, and attempts that were spent.
func (r *run) checkBurst() {
	for _, b := range r.bridges {
		if lost := b.process.Logs.Find(lostLease); len(lost) > 0 {
			r.find("L6", "bridge %s lost leases %d times: %s", b.name, len(lost), strings.TrimSpace(lost[0]))
		}
	}
	if spent := r.ledger.count(func(e entry) bool { return e.Kind == arriving && e.Attempt > 1 }); spent > 0 {
		r.find("L6", "%d messages did not arrive by their first attempt", spent)
	}
}
