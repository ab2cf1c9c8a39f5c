//go:build unix

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/integration/servers"
)

// frozenRows stop one of the masters of a cluster, for less than it takes the others
// to give it up.
func frozenRows() []*row {
	return []*row{{number: 51, name: "frozen cluster master", fault: "SIGSTOP of one of three masters for 4 s, three times; none takes over",
		expected: "accepts and deliveries of the other two go on", level: "memory", bridges: 2, set: calmCluster, nemesis: (*run).freezeMaster,
		perFault: 600, drainIn: 25 * time.Second, needs: map[string]int{"frozen": 3, "unknown": 20}}}
}

func calmCluster(r *run) redisSetting {
	r.cluster = servers.RedisCluster(r, 3)
	return redisSetting{yaml: fmt.Sprintf(`{addrs: ["%s"], cluster: true}`, strings.Join(r.cluster.Addrs(), `", "`)), node: r.cluster.Masters[0]}
}

const (
	frozenFor = 4 * time.Second
	// goesOn is the share of what falls to the other masters that must go on.
	goesOn = 0.5
)

func (r *run) freezeMaster() {
	for range 3 {
		victim := r.cluster.Masters[1+r.dice.IntN(2)] // the first is asked for the time
		over, from := r.strike("master frozen"), time.Now()
		victim.Pause()
		time.Sleep(frozenFor)
		accepted := r.ledger.count(func(e entry) bool {
			return e.Kind == accepting && e.Outcome == done && e.Call.After(from)
		})
		delivered := r.ledger.count(func(e entry) bool { return e.Kind == arriving && e.Call.After(from.Add(lease)) })
		victim.Resume()
		over()
		r.reached("frozen")
		share := float64(loadRate) * 2 / 3 * goesOn
		if least := share * frozenFor.Seconds(); float64(accepted) < least {
			r.find("L7", "%d messages were accepted in %s while one of three masters stood still, and should be %.0f", accepted, frozenFor, least)
		}
		if least := share * (frozenFor - lease).Seconds() * goesOn; float64(delivered) < least {
			r.find("L7", "%d messages arrived in %s while one of three masters stood still, and should be %.0f", delivered, frozenFor-lease, least)
		}
		time.Sleep(lease + time.Second)
	}
}
