package suite

import (
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const closeSenders = 100

// closeWhileSending closes a sink under load: each Deliver is answered, and the
// answers are true.
func closeWhileSending(e *env) {
	sink, topic := e.open(), e.kit.NewTopic(e.T)
	e.mustDeliver(sink, e.message(topic, "first"))
	var senders sync.WaitGroup
	var begun atomic.Int32
	var closed atomic.Bool
	for range closeSenders {
		senders.Go(func() {
			for !closed.Load() {
				begun.Add(1)
				for _, err := range e.deliverWithin(e.ample, sink, e.messages(topic, 10)...) {
					e.transient(err)
				}
			}
		})
	}
	for begun.Load() < closeSenders {
		pause(e.Context(), time.Millisecond)
	}
	e.close(sink)
	closed.Store(true)
	e.bounded("each Deliver", 2*e.ample, senders.Wait)
	e.audit(topic)
}

func closeTwice(e *env) {
	sink, topic := e.open(), e.kit.NewTopic(e.T)
	e.mustDeliver(sink, e.message(topic, "only"))
	e.close(sink)
	e.close(sink)
	e.audit(topic)
}

func deliverAfterClose(e *env) {
	sink, topic := e.open(), e.kit.NewTopic(e.T)
	e.mustDeliver(sink, e.message(topic, "before"))
	e.close(sink)
	for i, err := range e.deliverWithin(e.ample, sink, e.messages(topic, 3)...) {
		if err == nil {
			e.Errorf("message %d is confirmed by a closed sink", i)
		}
		e.transient(err)
	}
	e.audit(topic)
}

func twoSinks(e *env) {
	first, second, topic := e.open(), e.open(), e.kit.NewTopic(e.T)
	e.mustDeliver(first, e.message(topic, "by the first"))
	e.mustDeliver(second, e.message(topic, "by the second"))
	e.close(first)
	e.mustDeliver(second, e.message(topic, "by the second, the first being closed"))
	e.audit(topic)
}

// nothingLeaks opens, uses and closes sinks, and counts what stays.
func nothingLeaks(e *env) {
	topic := e.kit.NewTopic(e.T)
	round := func() {
		sink := e.kit.Open(e.T)
		e.mustDeliver(sink, e.message(topic, "round"))
		e.close(sink)
	}
	round() // what is made once for all is made here
	before := goroutines()
	files := openFiles()
	for range e.kit.Rounds {
		round()
	}
	var err error
	for deadline := time.Now().Add(e.leak); ; {
		err = leaked(before, e.kit.Leaks)
		if err == nil && openFiles() <= files+fileSlack || time.Now().After(deadline) {
			break
		}
		pause(e.Context(), time.Millisecond)
	}
	if err != nil {
		e.Errorf("after %d rounds: %v", e.kit.Rounds, err)
	}
	if now := openFiles(); now > files+fileSlack {
		e.Errorf("after %d rounds %d files and sockets are open, %d before", e.kit.Rounds, now, files)
	}
	e.audit(topic)
}

// fileSlack is for what the target and the runtime open meanwhile.
const fileSlack = 5

// openFiles counts open files and sockets; 0 where the system does not tell.
func openFiles() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}
