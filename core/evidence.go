package core

import "sync"

// evidence tells trouble of a sink from trouble with a message: a message is at fault
// if it failed while others passed. It knows the calls of one Dispatcher. The zero
// value is ready; safe for concurrent use.
type evidence struct {
	mu        sync.Mutex
	waiting   []*waitingCall // in the order in which they came
	running   int            // calls under way
	alone     bool           // the call under way must be the only one
	begun     uint64         // calls so far, which are numbered
	confirmed uint64         // the latest call, by number, that confirmed something
	// The last failure of a message alone, and the last of another one.
	trouble, before failure
	failed          map[string]uint64 // the last call in which a message failed alone
	blamed          map[string]fault
	crashed         map[string]bool // to be delivered with no other call at the same time
	doubtful        map[string]bool // sent in a batch whose outcome is unknown
}

// failure is a call in which a message failed alone.
type failure struct {
	id   string
	call uint64
}

// fault is how a message failed when it was last to blame, the latest call then, and how
// often it was to blame.
type fault struct {
	call  uint64
	text  string
	times int
}

// maxSuspects bounds each of the sets. What does not fit is forgotten, which costs
// another look.
const maxSuspects = 20_000

// waitingCall is a call that waits for its turn.
type waitingCall struct {
	alone    bool
	number   uint64
	admitted chan struct{}
}

// begin waits until a call may be made, and numbers it. A call that is to be alone has
// no other at the same time, so that nobody else's messages are cut off with it. It waits no
// longer than the calls before it take.
func (e *evidence) begin(alone bool) uint64 {
	w := &waitingCall{alone: alone, admitted: make(chan struct{})}
	e.mu.Lock()
	e.waiting = append(e.waiting, w)
	e.admit()
	e.mu.Unlock()
	<-w.admitted
	return w.number
}

// end ends a call, which may have confirmed messages.
func (e *evidence) end(call uint64, confirmed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running--
	e.alone = false
	if confirmed {
		e.confirmed = max(e.confirmed, call)
	}
	e.admit()
}

// admit lets in the calls that may be made, first come, first served; mu is held.
func (e *evidence) admit() {
	for len(e.waiting) > 0 && !e.alone && (e.running == 0 || !e.waiting[0].alone) {
		w := e.waiting[0]
		e.waiting = e.waiting[1:]
		e.begun++
		e.running++
		e.alone, w.number = w.alone, e.begun
		close(w.admitted)
	}
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

// atFault reports whether a message that has failed alone in a call is to blame: since it
// failed before, others passed and no other failed; or it was to blame before, more than
// once if this attempt is its last, has failed in the same way, and no other has failed
// since. If not, that it failed is remembered. Again is as of blame.
func (e *evidence) atFault(id string, call uint64, err error, final bool) (fault, again bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	first, failed := e.failed[id]
	last, known := e.blamed[id]
	others := e.othersFailed(id)
	if failed && e.confirmed > max(first, others) || known && (!final || last.times > 1) && last.text == err.Error() && others <= last.call {
		return true, e.blame(id, err)
	}
	e.failed = bounded(e.failed)
	e.failed[id] = call
	return false, false
}

// isToBlame notes that a message has failed alone while others passed. Again is as of
// blame.
func (e *evidence) isToBlame(id string, err error) (again bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.blame(id, err)
}

// blame reports whether the message was to blame before: once can be chance, as where the
// sink goes down in the midst of a trial.
func (e *evidence) blame(id string, err error) (again bool) {
	delete(e.failed, id)
	switch id { // it was not the sink's trouble
	case e.trouble.id:
		e.trouble, e.before = e.before, failure{}
	case e.before.id:
		e.before = failure{}
	}
	last, again := e.blamed[id]
	e.blamed = bounded(e.blamed)
	e.blamed[id] = fault{e.begun, err.Error(), last.times + 1}
	if ClassOf(err) == Unknown { // which a message of another call may have caused
		e.crashed = bounded(e.crashed)
		e.crashed[id] = true
	}
	return again
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

// doubt notes the messages of a batch that may all have been sent.
func (e *evidence) doubt(batch []*Message) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, m := range batch {
		e.doubtful = bounded(e.doubtful)
		e.doubtful[m.ID] = true
	}
}

// sure is how many messages of a batch stand before the first that was sent in a batch of
// unknown outcome.
func (e *evidence) sure(batch []*Message) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	for n, m := range batch {
		if len(e.doubtful) > 0 && e.doubtful[m.ID] {
			return n
		}
	}
	return len(batch)
}

// suspects reports whether the batch is one message that a crash has cut off.
func (e *evidence) suspects(batch []*Message) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(batch) == 1 && e.crashed[batch[0].ID]
}

// settled forgets the messages that came to an outcome.
func (e *evidence) settled(outcomes []Outcome) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.failed)+len(e.blamed)+len(e.crashed)+len(e.doubtful) == 0 {
		return
	}
	for _, o := range outcomes {
		if o.State != Retrying {
			delete(e.failed, o.ID)
			delete(e.blamed, o.ID)
			delete(e.crashed, o.ID)
			delete(e.doubtful, o.ID)
		}
	}
}
