// Package suite has the cases that every Sink must pass. It does not import package
// testing, because it is part of `delaybridge plugin verify`. Tests in Go use package
// sinktest.
//
// Declare in the Kit only what the sink and its broker are capable of; cases about other
// capabilities are skipped. All cases compare the sink's results with the messages that
// arrived: a confirmed message must have arrived byte for byte, as often as it was
// confirmed; a message reported as not sent must not have arrived; only a message reported
// as unknown may have arrived or not.
package suite

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// T is the part of testing.TB that a case uses.
type T interface {
	Helper()
	Context() context.Context
	Cleanup(f func())
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
	Failed() bool
}

// Capability is something that not every broker can do.
type Capability string

// The capabilities. Unless noted otherwise, a sink that does not declare one must
// refuse, in its Check, messages that need it.
const (
	Headers         Capability = "headers"          // headers arrive; else they are not compared
	HeaderOrder     Capability = "header order"     // else they may arrive in any order
	RepeatedHeaders Capability = "repeated headers" // a name may occur twice
	BinaryHeaders   Capability = "binary headers"   // values of any bytes, also empty
	NullHeaders     Capability = "null headers"     // else a nil value arrives as an empty one
	EmptyBody       Capability = "empty body"
	NullBody        Capability = "null body" // else Check refuses a nil body, or it arrives as an empty one
	Keys            Capability = "keys"      // consumers see the key; else it is not compared
	NullKeys        Capability = "null keys" // else a nil key arrives as an empty one
	Ordered         Capability = "ordered"   // messages with equal keys arrive in the order sent
	Lanes           Capability = "lanes"     // messages with equal keys arrive in one lane
)

// Capabilities returns all capabilities that a Kit can declare.
func Capabilities() []Capability {
	return []Capability{Headers, HeaderOrder, RepeatedHeaders, BinaryHeaders, NullHeaders,
		EmptyBody, NullBody, Keys, NullKeys, Ordered, Lanes}
}

// Received is a message as a consumer sees it.
type Received struct {
	Body    []byte
	Headers []core.Header // the producer's and delaybridge's, not the broker's own
	Key     []byte
	Lane    string // the partition or queue within the topic, in which order holds
}

// Reader returns the next message that a consumer of a topic sees, from the
// first on, and waits for it until ctx ends. It is used by one goroutine.
type Reader func(ctx context.Context) (Received, error)

// Refusal is a way in which the target refuses messages.
type Refusal[TB T] struct {
	// Topic creates a topic whose messages are refused; nil is Kit.NewTopic.
	Topic func(t TB) string
	// Open opens a sink that meets the refusal; nil is Kit.Open.
	Open func(t TB) core.Sink
	// Prepare, if set, changes a message so that it is refused.
	Prepare func(m *core.Message)
	// Class is the class that the sink must return.
	Class core.Class
}

// Faults inject faults into the target; a nil field is a fault that can't be injected.
// sinktest.Wire implements most of them. Each is called in the goroutine of the test,
// and heal, if there is one, exactly once.
type Faults[TB T] struct {
	// Down makes the target unreachable: connections break, new ones fail.
	Down func(t TB) (heal func())
	// Stall makes the target unresponsive: connections stay open, no bytes are
	// transferred.
	Stall func(t TB) (heal func())
	// LoseReplies forwards everything to the target and drops its replies.
	LoseReplies func(t TB) (heal func())
	// Cut resets the current connections.
	Cut func(t TB)
	// Restart kills and restarts the target, and returns when it works again.
	Restart func(t TB)
	// StallTopic makes one topic neither confirm nor refuse messages.
	StallTopic func(t TB, topic string) (heal func())
}

// Kit describes a sink and its target to the suite. Only the first three fields must be
// set. TB is the type of its functions' first argument: testing.TB in tests.
type Kit[TB T] struct {
	// Open returns a new sink on the target; the suite closes it.
	Open func(t TB) core.Sink
	// NewTopic creates an empty topic that nothing else uses, with several lanes if Can
	// has Lanes.
	NewTopic func(t TB) string
	// Consume reads a topic from its beginning.
	Consume func(t TB, topic string) Reader

	Can []Capability
	// MaxBody is the maximum size of a body in bytes; 0 is unknown.
	MaxBody int
	// Delays are headers that the target would interpret as a request to delay: Deliver
	// must strip them. Check may refuse them.
	Delays []core.Header
	// Hostile are messages, in addition to the suite's own, that might make other
	// messages of a batch fail. Their Topic is used if it is set.
	Hostile []*core.Message

	MissingTopic    *Refusal[TB] // the topic does not exist
	NoRights        *Refusal[TB] // the login may not write to the topic
	NegativeConfirm *Refusal[TB] // the target has the topic, but refuses the message for now
	Unroutable      *Refusal[TB] // the target accepts the message, but no queue would get it
	LoginRefused    *Refusal[TB] // the target refuses the login: the whole sink

	Faults Faults[TB]

	// Timeout bounds one Deliver while the target is in trouble; default 3 s.
	Timeout time.Duration
	// ReadTimeout bounds the wait for a message that must arrive; default 1 min.
	ReadTimeout time.Duration
	// Quiet is how long the suite waits for messages that must not arrive; default 150
	// ms.
	Quiet time.Duration
	// Rounds is how often a sink is opened and closed to find leaks; default 100.
	Rounds int
	// Leaks lists functions; goroutines in one of them may remain after Close.
	Leaks []string

	patience patience
}

// patience is how long the suite waits for what must happen. Only the tests of
// the suite itself have less.
type patience struct {
	soon  time.Duration // a call that should have ended
	late  time.Duration // a call that hangs, beyond its deadline
	ample time.Duration // a call that has no deadline of its own
	leak  time.Duration // what a sink has started, after Close
	red   time.Duration // Health when the target is down
	green time.Duration // Health when it is back
}

func (p patience) withDefaults() patience {
	p.soon = cmp.Or(p.soon, 10*time.Second)
	p.late = cmp.Or(p.late, 10*time.Second)
	p.ample = cmp.Or(p.ample, 30*time.Second)
	p.leak = cmp.Or(p.leak, 10*time.Second)
	p.red = cmp.Or(p.red, time.Minute)
	p.green = cmp.Or(p.green, time.Minute)
	return p
}

// Case tests one rule of the contract of core.Sink.
type Case struct {
	Name string // begins with its number, such as K1
	run  func(e *env)
}

// Cases returns all cases, in the order in which they are run.
func Cases() []Case { return slices.Clone(cases) }

// Run runs the case as part of t.
func Run[TB T](t TB, c Case, kit Kit[TB]) { c.run(newEnv(t, kit.plain())) }

var cases = []Case{
	{"K1 one message arrives byte-equal", oneMessage},
	{"K2 none of 5000 from 50 goroutines is missing", manyMessages},
	{"K3 empty body", emptyBody},
	{"K4 nil body", nilBody},
	{"K5 largest body", largestBody},
	{"K6 body too large", tooLargeBody},
	{"K7 binary headers", binaryHeaders},
	{"K8 repeated headers", repeatedHeaders},
	{"K9 hostile message leaves its neighbours alone", hostileMessages},
	{"K10 key keeps lane and order", keyOrder},
	{"K11 missing topic", missingTopic},
	{"K12 no rights", noRights},
	{"K13 target down", targetDown},
	{"K14 target stalls", targetStalls},
	{"K15 connection cut while sending", cutWhileSending},
	{"K16 done but reply lost", replyLost},
	{"K17 negative confirm", negativeConfirm},
	{"K18 unroutable", unroutable},
	{"K19 target restarts", targetRestarts},
	{"K20 context ends", contextEnds},
	{"K21 close while sending", closeWhileSending},
	{"K22 close twice", closeTwice},
	{"K23 deliver after close", deliverAfterClose},
	{"K24 two sinks in one process", twoSinks},
	{"K25 each message has its own result", resultEach},
	{"K26 retry keeps the id and carries the attempt", retryKeepsID},
	{"K27 trouble with one topic leaves others alone", topicsApart},
	{"K28 memory is bounded while the target stalls", memoryBounded},
	{"K29 health follows the target", healthFollows},
	{"K30 nothing leaks", nothingLeaks},
	{"K31 scheduling headers are stripped", delaysStripped},
	{"K32 login refused", loginRefused},
	{"K33 options are checked", optionsChecked},
	{"K34 a batch is checked in one call", batchChecked},
}
