package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// While a slot is open, Redis refuses a script of which some key does not exist
// where it is asked: TRYAGAIN. No key of an empty due set does.
func TestCallsOutlastTheMoveOfASlot(t *testing.T) {
	t.Parallel()
	cluster := servers.FailoverCluster(t, 3, 1, servers.Calm)
	for _, level := range []string{DurabilityMemory, DurabilityReplicated} {
		t.Run(level, func(t *testing.T) {
			config := clusterConfig(t, cluster)
			config.Buckets, config.Durability, config.DurabilityTimeout = 1, level, time.Minute
			s := open(t, config)
			m := newSlotMove(t, s, cluster)
			var last error
			for n := range 20 { // the machine may stand still for longer than a call waits
				parkUntilAccepted(t, s, &core.Message{ID: fmt.Sprint("before", n), Sink: "orders", Topic: "t", Delay: time.Hour})
				if last = m.during(fmt.Sprint("while", n)); last == nil {
					return
				}
			}
			t.Errorf("a park while the slot is moved: %v", last)
		})
	}
}

// slotMove moves the one bucket of a store to another master, and back.
type slotMove struct {
	t        *testing.T
	store    *Store
	slot     string
	from, to *servers.RedisServer
}

func newSlotMove(t *testing.T, s *Store, c *servers.Cluster) *slotMove {
	key := s.keys.owner("orders", 0)
	slot := c.Masters[0].MustDo("CLUSTER", "KEYSLOT", key).(int64)
	holder := s.serverOf(t.Context(), "orders", 0)
	at := slices.IndexFunc(c.Masters, func(m *servers.RedisServer) bool { return m.Addr() == holder })
	return &slotMove{t: t, store: s, slot: fmt.Sprint(slot), from: c.Masters[at], to: c.Masters[(at+1)%3]}
}

// during parks a message into the bucket while its slot is open, and ends the move
// when Redis has refused that once.
func (m *slotMove) during(id string) error {
	fromID, toID := m.from.MustDo("CLUSTER", "MYID").(string), m.to.MustDo("CLUSTER", "MYID").(string)
	m.to.MustDo("CLUSTER", "SETSLOT", m.slot, "IMPORTING", fromID)
	m.from.MustDo("CLUSTER", "SETSLOT", m.slot, "MIGRATING", toID)
	refusals := m.refusals()
	parked := make(chan error, 1)
	go func() {
		parked <- m.store.Park(m.t.Context(), &core.Message{ID: id, Sink: "orders", Topic: "t", Delay: time.Hour})[0].Err
	}()
	until(m.t, "Redis has refused a call", func() bool { return m.refusals() != refusals })
	keys, _ := m.from.MustDo("CLUSTER", "GETKEYSINSLOT", m.slot, "100").([]any)
	host, port, _ := strings.Cut(m.to.Addr(), ":")
	command := []string{"MIGRATE", host, port, "", "0", "60000", "KEYS"}
	for _, key := range keys {
		command = append(command, key.(string))
	}
	m.from.MustDo(command...)
	m.to.MustDo("CLUSTER", "SETSLOT", m.slot, "NODE", toID)
	m.from.MustDo("CLUSTER", "SETSLOT", m.slot, "NODE", toID)
	m.from, m.to = m.to, m.from
	return <-parked
}

// refusals is how often the server has answered TRYAGAIN.
func (m *slotMove) refusals() string {
	info, _ := m.from.MustDo("INFO", "errorstats").(string)
	return parseInfo(info)["errorstat_TRYAGAIN"]
}

// What one try has done is not durable because the replicas have what the next did.
func TestWhatEachTryWroteIsWaitedFor(t *testing.T) {
	s := open(t, freshConfig(t))
	s.scripts.count = newScript("count", "return 7") // missing in Redis
	wait := func(ctx context.Context) *redis.Cmd { return redis.NewCmd(ctx, "wait", 0, 0) }
	keys := s.keys.bucket("orders", 0)
	known := newCall(t.Context(), s.scripts.get, keys, "x", 0)
	unknown := newCall(t.Context(), s.scripts.count, keys)
	if waits := s.send(t.Context(), s.client, []call{known, unknown}, wait); len(waits) != 2 || unknown.Err() != nil {
		t.Errorf("%d tries are waited for, %v; want the two that did something", len(waits), unknown.Err())
	}
	s.scripts.count = newScript("count", "return 8")
	unknown = newCall(t.Context(), s.scripts.count, keys)
	if waits := s.send(t.Context(), s.client, []call{unknown}, wait); len(waits) != 1 || unknown.Err() != nil {
		t.Errorf("%d tries are waited for, %v; want the one that did something", len(waits), unknown.Err())
	}
}
