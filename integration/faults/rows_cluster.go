//go:build unix

package main

import (
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/integration/servers"
)

// clusterRows are the faults of a Redis Cluster.
func clusterRows() []*row {
	return []*row{
		{number: 16, name: "slots moved", fault: "slots with buckets in them move between the masters of a cluster, key by key", expected: "TRYAGAIN and ASK are tried again, nothing is half done",
			level: "memory", bridges: 2, quick: true, set: func(r *run) redisSetting { return clusterRedis(r, 0) }, nemesis: (*run).moveSlots,
			perFault: 200, needs: map[string]int{"slot moved": 5}},
		{number: 17, name: "cluster master killed", fault: "kill -9 of one of three masters; its replica takes over; it comes back", expected: "nothing lost",
			level: "replicated", bridges: 2, set: func(r *run) redisSetting { return clusterRedis(r, 1) }, nemesis: (*run).killClusterMaster,
			rolledBack: true, perFault: 600, drainIn: 25 * time.Second, needs: map[string]int{"failover": 1}},
	}
}

func clusterRedis(r *run, replicas int) redisSetting {
	c := servers.FailoverCluster(r, 3, replicas, 1500*time.Millisecond)
	r.cluster = c
	return redisSetting{yaml: fmt.Sprintf(`{addrs: ["%s"], cluster: true}`, strings.Join(c.Addrs(), `", "`)), node: c.Masters[0]}
}

// moveSlots moves the slots of random buckets to random masters. A bucket's keys
// move one by one, so for a while they are on two servers.
func (r *run) moveSlots() {
	r.during(span, func() {
		tag := fmt.Sprintf("delaybridge:{out:%02d}:owner", r.dice.IntN(16))
		slot, _ := r.cluster.Masters[0].MustDo("CLUSTER", "KEYSLOT", tag).(int64)
		from := r.ownerOf(slot)
		to := r.cluster.Masters[r.dice.IntN(len(r.cluster.Masters))]
		if from == nil || to == from {
			return
		}
		over := r.strike("slot moved")
		r.moveSlot(slot, from, to)
		over()
		r.reached("slot moved")
	})
	time.Sleep(time.Second)
}

// ownerOf is the master that says that the slot is its own.
func (r *run) ownerOf(slot int64) *servers.RedisServer {
	for _, m := range r.cluster.Masters {
		id, _ := m.MustDo("CLUSTER", "MYID").(string)
		text, _ := m.MustDo("CLUSTER", "NODES").(string)
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, id) && hasSlot(line, slot) {
				return m
			}
		}
	}
	return nil
}

func hasSlot(line string, slot int64) bool {
	for _, part := range strings.Fields(line)[8:] {
		var first, last int64
		switch n, _ := fmt.Sscanf(part, "%d-%d", &first, &last); n {
		case 1:
			last = first
		case 0:
			continue
		}
		if first <= slot && slot <= last {
			return true
		}
	}
	return false
}

func (r *run) moveSlot(number int64, from, to *servers.RedisServer) {
	slot := fmt.Sprint(number)
	source, _ := from.MustDo("CLUSTER", "MYID").(string)
	target, _ := to.MustDo("CLUSTER", "MYID").(string)
	to.MustDo("CLUSTER", "SETSLOT", slot, "IMPORTING", source)
	from.MustDo("CLUSTER", "SETSLOT", slot, "MIGRATING", target)
	host, port, _ := net.SplitHostPort(to.Addr())
	for {
		keys, _ := from.MustDo("CLUSTER", "GETKEYSINSLOT", slot, "1").([]any)
		if len(keys) == 0 {
			break
		}
		from.MustDo("MIGRATE", host, port, "", "0", "5000", "KEYS", fmt.Sprint(keys[0]))
		time.Sleep(r.between(time.Millisecond, 60*time.Millisecond))
	}
	for _, m := range append([]*servers.RedisServer{to, from}, r.cluster.Masters...) {
		m.MustDo("CLUSTER", "SETSLOT", slot, "NODE", target)
	}
}

func (r *run) killClusterMaster() {
	// The first master is asked for the time.
	victim, heir := r.cluster.Masters[1], r.cluster.Replicas[1]
	over := r.strike("cluster master killed")
	victim.Kill()
	r.awaitReplication(heir, "role:master")
	r.reached("failover")
	time.Sleep(2 * time.Second)
	victim.Start()
	r.awaitReplication(heir, "role:master", "state=online")
	over()
	time.Sleep(3 * time.Second)
}
