//go:build unix

package main

import (
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// staleRows promote a replica that was behind. A proxy stands for whatever tells
// the bridges where the master is.
func staleRows() []*row {
	base := func(number, replicas int, name, expected string) *row {
		return &row{number: number, name: name, fault: "one of two replicas is stopped for some seconds, then the master and the other are killed and the stale one is promoted",
			expected: expected, level: "replicated", bridges: 2, set: func(r *run) redisSetting { return twoReplicas(r, replicas) }, nemesis: (*run).promoteStale,
			rolledBack: true, perFault: 1000, drainIn: 25 * time.Second, needs: map[string]int{"stale promoted": 1}}
	}
	one := base(15, 1, "stale replica promoted", "loss, of what was accepted while that replica was behind only: one of two replicas was asked for")
	one.split = true
	one.needs["lost where it may be"] = 1
	all := base(45, 2, "stale replica promoted, all asked for", "nothing accepted is lost: what the stale one did not have was not accepted")
	all.needs["unknown"] = 10
	return []*row{one, all}
}

// chain is a master, its two replicas, and what leads to the master.
type chain struct {
	master, good, stale *servers.RedisServer
}

func twoReplicas(r *run, replicas int) redisSetting {
	c := &chain{master: servers.Redis(r, servers.RedisOptions{})}
	c.good = servers.Redis(r, servers.RedisOptions{ReplicaOf: c.master})
	c.stale = servers.Redis(r, servers.RedisOptions{ReplicaOf: c.master})
	r.chain, r.proxy = c, r.startProxy(c.master.Addr())
	return redisSetting{yaml: fmt.Sprintf("{url: \"redis://%s/0\"}\n  replicas: %d", r.proxy.addr(), replicas), node: c.stale}
}

func (r *run) promoteStale() {
	c := r.chain
	over := r.strike("stale replica promoted")
	behind := time.Now()
	c.stale.Pause()
	time.Sleep(r.between(2*time.Second, 4*time.Second))
	c.master.Kill()
	c.good.Kill()
	if r.row.needs["lost where it may be"] > 0 {
		r.mayLose(behind.Add(-time.Second), time.Now().Add(100*time.Millisecond)) // what it had not read when it was stopped
	}
	c.stale.Resume()
	c.stale.MustDo("REPLICAOF", "NO", "ONE")
	r.proxy.redirect(c.stale.Addr())
	r.reached("stale promoted")
	for _, s := range []*servers.RedisServer{c.master, c.good} {
		s.Start()
		follow(s, c.stale)
	}
	poll.Until(r, failoverIn, "there are two replicas", func() bool {
		text, _ := c.stale.MustDo("INFO", "replication").(string)
		return strings.Count(text, "state=online") == 2
	})
	over()
	time.Sleep(3 * time.Second)
}

// follow makes a server a replica of another.
func follow(s, master *servers.RedisServer) {
	host, port, _ := net.SplitHostPort(master.Addr())
	s.MustDo("REPLICAOF", host, port)
}
