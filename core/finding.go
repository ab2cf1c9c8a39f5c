package core

import (
	"context"
	"sync"
)

// Finding is what a diagnosis has found out about one thing.
type Finding struct {
	Level string `json:"level"`
	About string `json:"about"` // such as the address of a broker or the name of a topic
	Text  string `json:"text"`
	Fix   string `json:"fix,omitempty"` // what an operator is to do; empty if nothing is
}

// The levels of findings.
const (
	FindingOK      = "ok"
	FindingWarning = "warning" // it works, but something is at risk
	FindingProblem = "problem" // it does not work
)

// Diagnoser is the ability of a Sink or of a source to look at its broker for an operator:
// whether it can be reached with the login, and has the topics that are given and those
// that the configuration names. It changes nothing, and returns soon after ctx has ended.
type Diagnoser interface {
	Diagnose(ctx context.Context, topics []string) []Finding
}

// Findings calls find with each number below n at the same time, so that a server that
// hangs does not hide another, and returns what all have found, in order.
func Findings(n int, find func(int) []Finding) (all []Finding) {
	found := make([][]Finding, n)
	var running sync.WaitGroup
	for i := range found {
		running.Go(func() { found[i] = find(i) })
	}
	running.Wait()
	for _, some := range found {
		all = append(all, some...)
	}
	return all
}
