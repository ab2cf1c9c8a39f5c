//go:build unix

package main

import (
	"fmt"
	"strings"
	"time"

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
	r.sleep(6 * time.Second)
	r.awaitFailover()
	r.sentinel.Master.Resume()
	r.endFailover(over)
}

// endFailover ends the fault when there is a master with a replica again.
func (r *run) endFailover(over func()) {
	r.awaitPair()
	over()
	r.epoch, r.paired = r.sentinel.Epoch(), time.Now()
	r.sleep(2 * time.Second)
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
	for deadline := time.Now().Add(failoverIn); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if r.sentinel.MasterAddr() != r.sentinel.Master.Addr() {
			r.reached("failover")
			return
		}
	}
	r.Fatalf("the sentinels did not fail over within %s", failoverIn)
}

// awaitPair returns when whichever is the master now has a replica. On a busy
// machine the sentinels may have changed their minds again.
func (r *run) awaitPair() {
	for deadline := time.Now().Add(failoverIn); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		master := r.sentinel.Master
		if r.sentinel.MasterAddr() != master.Addr() {
			master = r.sentinel.Replica
		}
		if hasReplica(master) {
			return
		}
	}
	r.Fatalf("there was no master with a replica within %s", failoverIn)
}

func hasReplica(s *servers.RedisServer) bool {
	reply, err := s.Do("INFO", "replication")
	text, _ := reply.(string)
	return err == nil && strings.Contains(text, "role:master") && strings.Contains(text, "state=online")
}

// awaitReplica returns when a master has a replica again.
func (r *run) awaitReplica(master *servers.RedisServer) {
	for deadline := time.Now().Add(failoverIn); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if hasReplica(master) {
			return
		}
	}
	r.Fatalf("the old master did not follow the new one within %s", failoverIn)
}
