package core

import "sync"

// evidence tells trouble of a sink from trouble with a message: a message is at fault
// if it failed while others passed. It knows the calls of one Dispatcher. The zero
// value is ready; safe for concurrent use.
type evidence struct {
	// alone is held by each call; for itself by one whose message is a suspect of a
	// crash, so that nobody else's messages are cut off with it.
	alone sync.RWMutex

	mu        sync.Mutex
	begun     uint64 // calls so far, which are numbered
	confirmed uint64 // the latest call, by number, that confirmed something
	trouble   uint64 // the latest that failed, and not for the fault of its message
	failed    map[string]uint64
	blamed    map[string]fault
	crashed   map[string]bool
}

// fault is how a message failed when it was last to blame.
type fault struct {
	call uint64
	text string
}

// maxSuspects bounds each of the sets. What does not fit is forgotten, which costs
// another look.
const maxSuspects = 20_000

// begin numbers a call.
func (e *evidence) begin() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.begun++
	return e.begun
}

// passed notes that a call has confirmed messages.
func (e *evidence) passed(call uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.confirmed = max(e.confirmed, call)
}

// failedAlone notes that a message has failed alone in a call. That is trouble of the
// sink, unless others were confirmed since, or it was to blame before and failed in the
// same way.
func (e *evidence) failedAlone(id string, since, call uint64, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before, known := e.blamed[id]
	if e.confirmed > since || known && before.text == err.Error() {
		return
	}
	e.trouble = max(e.trouble, call)
}

// atFault tells whether a message that has failed alone in a call is to blame: because a
// call that began after since was confirmed, or because it was to blame before, has
// failed in the same way, and no other was in trouble since. If it is not to blame, that
// it failed is remembered.
func (e *evidence) atFault(id string, since, call uint64, err error) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	before, known := e.blamed[id]
	if e.confirmed > since || known && before.text == err.Error() && e.trouble <= before.call {
		delete(e.failed, id)
		e.blamed = bounded(e.blamed)
		e.blamed[id] = fault{call, err.Error()}
		return true
	}
	e.failed = bounded(e.failed)
	e.failed[id] = call
	return false
}

// failedSince is the call in which a message has failed alone before, or else the given.
func (e *evidence) failedSince(id string, call uint64) uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if first, known := e.failed[id]; known {
		return first
	}
	return call
}

// last is the number of the latest call.
func (e *evidence) last() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.begun
}

// bounded returns a set that has room.
func bounded[V any](set map[string]V) map[string]V {
	if set == nil || len(set) >= maxSuspects {
		return make(map[string]V)
	}
	return set
}

// suspect notes messages that a crash has cut off.
func (e *evidence) suspect(batch []*Message) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, m := range batch {
		e.crashed = bounded(e.crashed)
		e.crashed[m.ID] = true
	}
}

// suspects tells whether the batch is one message that a crash has cut off.
func (e *evidence) suspects(batch []*Message) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(batch) == 1 && e.crashed[batch[0].ID]
}

// settled forgets the messages that came to an outcome.
func (e *evidence) settled(outcomes []Outcome) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.failed)+len(e.blamed)+len(e.crashed) == 0 {
		return
	}
	for _, o := range outcomes {
		if o.State != Retrying {
			delete(e.failed, o.ID)
			delete(e.blamed, o.ID)
			delete(e.crashed, o.ID)
		}
	}
}
