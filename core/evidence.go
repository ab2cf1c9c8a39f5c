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
	// The last failure of a message alone, and the last of another one.
	trouble, before failure
	failed          map[string]uint64 // the last call in which a message failed alone
	blamed          map[string]fault
	crashed         map[string]bool
}

// failure is a call in which a message failed alone.
type failure struct {
	id   string
	call uint64
}

// fault is how a message failed when it was last to blame, and the latest call then.
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

// failedAlone notes that a message has failed alone in a call, unless it was to blame
// before and failed in the same way.
func (e *evidence) failedAlone(id string, call uint64, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if last, known := e.blamed[id]; known && last.text == err.Error() {
		return
	}
	if e.trouble.id != id {
		e.before = e.trouble
	}
	e.trouble = failure{id, call}
}

// othersFailed is the last call in which another message failed alone; mu is held.
func (e *evidence) othersFailed(id string) uint64 {
	if e.trouble.id != id {
		return e.trouble.call
	}
	return e.before.call
}

// atFault tells whether a message that has failed alone in a call is to blame: since it
// failed before, others passed and no other failed; or it was to blame before, has failed
// in the same way, and no other has failed since. If not, that it failed is remembered.
func (e *evidence) atFault(id string, call uint64, err error) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	first, again := e.failed[id]
	last, known := e.blamed[id]
	others := e.othersFailed(id)
	if again && e.confirmed > first && others < first || known && last.text == err.Error() && others <= last.call {
		e.blame(id, err)
		return true
	}
	e.failed = bounded(e.failed)
	e.failed[id] = call
	return false
}

// isToBlame notes that a message has failed alone while others passed.
func (e *evidence) isToBlame(id string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.blame(id, err)
}

func (e *evidence) blame(id string, err error) {
	delete(e.failed, id)
	switch id { // it was not the sink's trouble
	case e.trouble.id:
		e.trouble, e.before = e.before, failure{}
	case e.before.id:
		e.before = failure{}
	}
	e.blamed = bounded(e.blamed)
	e.blamed[id] = fault{e.begun, err.Error()}
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
