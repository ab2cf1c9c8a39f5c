//go:build unix

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// failoverRows are a master that is replaced by its replica. At level replicated
// nothing that was accepted is lost; that something was settled may be.
func failoverRows() []*row {
	base := func(number int, name, what string, nemesis func(*run)) *row {
		return &row{number: number, name: name, fault: what, expected: "nothing accepted is lost, no cancel is undone", level: "replicated", bridges: 2,
			set: sentinelRedis, nemesis: nemesis, after: (*run).noteFailover, rolledBack: true, perFault: 600, drainIn: 25 * time.Second, needs: map[string]int{"failover": 1, "unknown": 10}}
	}
	return append(splitRows(),
		base(12, "failover by kill", "kill -9 of the master under Sentinel; it comes back as a replica", (*run).killMaster),
		base(13, "failover by pause", "SIGSTOP of the master for 6 s under Sentinel; the old master wakes", (*run).pauseMaster),
	)
}

func sentinelRedis(r *run) redisSetting {
	g := servers.Sentinel(r, 3, time.Second)
	r.sentinel = g
	return redisSetting{yaml: fmt.Sprintf(`{addrs: ["%s"], master_name: %s}`, strings.Join(g.Addrs(), `", "`), servers.SentinelName), node: g.Master}
}

func (r *run) killMaster() {
	over := r.strike("master killed")
	r.sentinel.Master.Kill()
	r.awaitFailover()
	r.sentinel.Master.Start()
	r.endFailover(over)
}

func (r *run) pauseMaster() {
	over := r.strike("master paused")
	r.sentinel.Master.Pause()
	time.Sleep(6 * time.Second)
	r.awaitFailover()
	r.sentinel.Master.Resume()
	r.endFailover(over)
}

// endFailover ends the fault when there is a master with a replica again.
func (r *run) endFailover(over func()) {
	r.awaitPair()
	over()
	r.epoch, r.paired = r.sentinel.Epoch(), time.Now()
	time.Sleep(2 * time.Second)
}

// noteFailover notes as a fault what the sentinels of a busy machine have done
// once more, as no server answered them in time.
func (r *run) noteFailover() {
	if r.sentinel.Epoch() != r.epoch {
		r.ledger.noteFault(fault{What: "failed over by itself", From: r.paired, To: time.Now()})
	}
}

const failoverIn = 60 * time.Second

func (r *run) awaitFailover() {
	poll.Until(r, failoverIn, "the sentinels fail over", func() bool { return r.sentinel.MasterAddr() != r.sentinel.Master.Addr() })
	r.reached("failover")
}

// awaitPair returns when whichever is the master now has a replica. On a busy
// machine the sentinels may have changed their minds again.
func (r *run) awaitPair() {
	poll.Until(r, failoverIn, "a master has a replica", func() bool {
		master := r.sentinel.Master
		if r.sentinel.MasterAddr() != master.Addr() {
			master = r.sentinel.Replica
		}
		return replicates(master, "role:master", "state=online")
	})
}

// awaitReplication returns when a server says all of that about its replication.
func (r *run) awaitReplication(s *servers.RedisServer, said ...string) {
	poll.Until(r, failoverIn, s.Addr()+" says "+strings.Join(said, ", "), func() bool { return replicates(s, said...) })
}

func replicates(s *servers.RedisServer, said ...string) bool {
	reply, err := s.Do("INFO", "replication")
	text, _ := reply.(string)
	return err == nil && !slices.ContainsFunc(said, func(one string) bool { return !strings.Contains(text, one) })
}
