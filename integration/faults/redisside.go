//go:build unix

package main

import "time"

// redisSide is what rows keep of a Redis in trouble.
type redisSide struct {
	chain    *chain
	lossy    []window // in which it may lose what it was told
	jumps    []jump   // of its clock
	emptyAt  int      // bytes that it used at first
	soakFor  time.Duration
	burstDue time.Time
	env      []string // of bridges, for what the failpoints don't cover
	note     string   // what a run that passed has shown
}
