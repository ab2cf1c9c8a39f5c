//go:build unix

package main

import (
	"fmt"
	"time"

	"github.com/delaybridge/delaybridge/integration/poll"
)

// clockKey is where the scripts find by how many milliseconds their clock is
// ahead of Redis's, if the bridges are told to look there.
const clockKey = "faults:clock"

// jump is a change of Redis's clock, some time between from and to.
type jump struct {
	from, to time.Time
	ahead    time.Duration // of ours, since then
}

const clockSetIn = 30 * time.Second

// setClock makes Redis's clock jump. A busy machine may need some tries.
func (r *run) setClock(ahead time.Duration) {
	j := jump{from: time.Now(), ahead: ahead}
	if err := poll.Succeeds(clockSetIn, func() error {
		_, err := r.redis.node.Do("SET", clockKey, fmt.Sprint(ahead.Milliseconds()))
		return err
	}); err != nil {
		r.Fatalf("set Redis's clock: %v", err)
	}
	j.to = time.Now()
	r.jumps = append(r.jumps, j)
}

// ahead is how far Redis's clock was ahead of ours, at least and at most, in
// some time. It is ours but for jumps, as Redis runs on this machine: what could
// be measured between two processes that wait for a processor is less true.
func (w laws) ahead(from, to time.Time) (least, most time.Duration) {
	for _, j := range w.jumps {
		switch {
		case !j.to.After(from):
			least, most = j.ahead, j.ahead
		case j.from.Before(to):
			least, most = min(least, j.ahead), max(most, j.ahead)
		}
	}
	return least, most
}

// lastAhead is how far Redis's clock is ahead of ours in the end.
func (r *run) lastAhead() time.Duration {
	if len(r.jumps) == 0 {
		return 0
	}
	return r.jumps[len(r.jumps)-1].ahead
}
