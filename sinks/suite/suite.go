// Package suite is what every Sink is held to, without package testing: it is part
// of `delaybridge plugin verify`. Tests in Go use package sinktest.
//
// What a sink or its broker can't do is not declared in the Kit; the cases
// about it are then skipped by name. All cases hold the sink to one ledger: what it confirmed
// has arrived byte for byte, as often as it was confirmed; what it said was not
// sent has not arrived; only what it called unknown may be there or not.
package suite

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// T is what a case needs of the test that it runs in: a part of testing.TB.
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

// The capabilities. Without a word to the contrary, a sink that does not
// declare one must refuse, in its Check, messages that need it.
const (
	Headers         Capability = "headers"          // they arrive at all; else they are not looked at
	HeaderOrder     Capability = "header order"     // else they may arrive in any order
	RepeatedHeaders Capability = "repeated headers" // a name may occur twice
	BinaryHeaders   Capability = "binary headers"   // values of any bytes, also none
	NullHeaders     Capability = "null headers"     // else a nil value arrives as an empty one
	EmptyBody       Capability = "empty body"
	NullBody        Capability = "null body" // else Check refuses a nil body, or it arrives as an empty one
	Keys            Capability = "keys"      // consumers see the key; else it is not looked at
	NullKeys        Capability = "null keys" // else a nil key arrives as an empty one
	Ordered         Capability = "ordered"   // messages with equal keys arrive in the order sent
	Lanes           Capability = "lanes"     // messages with equal keys arrive in one lane
)

// Capabilities are all that a Kit can declare.
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
	// Topic makes a topic whose messages are refused; nil is Kit.NewTopic.
	Topic func(t TB) string
	// Open opens a sink that meets the refusal; nil is Kit.Open.
	Open func(t TB) core.Sink
	// Prepare, if set, changes a message so that it is refused.
	Prepare func(m *core.Message)
	// Class is what the sink must make of it.
	Class core.Class
}

// Faults are what the suite may do to the target; a nil field is a fault that
// can't be provoked. sinktest.Wire has most of them. Each is called by the goroutine of
// the test, and heal, where there is one, exactly once.
type Faults[TB T] struct {
	// Down makes the target unreachable: connections break, new ones fail.
	Down func(t TB) (heal func())
	// Stall makes the target silent: connections stay, nothing moves.
	Stall func(t TB) (heal func())
	// LoseReplies lets the target hear everything and say nothing.
	LoseReplies func(t TB) (heal func())
	// Cut resets the connections of the moment.
	Cut func(t TB)
	// Restart kills the target and returns when it works again.
	Restart func(t TB)
	// StallTopic makes one topic take and refuse nothing.
	StallTopic func(t TB, topic string) (heal func())
}

// Kit is what the suite needs to know of a sink and its target. Only the first
// three fields must be set. TB is what its functions get: testing.TB in tests.
type Kit[TB T] struct {
	// Open returns a new sink on the target; the suite closes it.
	Open func(t TB) core.Sink
	// NewTopic makes a topic of the target that is empty and nobody else's, with
	// several lanes if Can has Lanes.
	NewTopic func(t TB) string
	// Consume reads a topic from its beginning.
	Consume func(t TB, topic string) Reader

	Can []Capability
	// MaxBody is how many bytes of body the sink carries at most, if it knows.
	MaxBody int
	// Delays are headers that the target would take as a request to delay:
	// Deliver must strip them. Check may refuse them.
	Delays []core.Header
	// Hostile are messages, beyond those that the suite brings, that might hurt
	// their neighbours. Their Topic is used if it is set.
	Hostile []*core.Message

	MissingTopic    *Refusal[TB] // the topic does not exist
	NoRights        *Refusal[TB] // the login may not write to the topic
	NegativeConfirm *Refusal[TB] // the target has the topic, but refuses the message for now
	Unroutable      *Refusal[TB] // the target takes the message, but nobody would get it
	LoginRefused    *Refusal[TB] // the target refuses the login: the whole sink

	Faults Faults[TB]

	// Timeout is what one Deliver is given while the target is in trouble; 3 s.
	Timeout time.Duration
	// ReadTimeout is how long a message that must arrive is waited for; 1 min.
	ReadTimeout time.Duration
	// Quiet is how long the suite listens for messages that must not come; 150 ms.
	Quiet time.Duration
	// Rounds is how often a sink is opened and closed to find leaks; 100.
	Rounds int
	// Leaks names functions; goroutines that are in one of them may stay after Close.
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

// Case is one promise of a Sink.
type Case struct {
	Name string // begins with its number, such as K1
	run  func(e *env)
}

// Cases are all, in the order in which they are run.
func Cases() []Case { return slices.Clone(cases) }

// Run runs a case as a part of t.
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
	{"K26 retry keeps the id and tells the attempt", retryKeepsID},
	{"K27 trouble with one topic leaves others alone", topicsApart},
	{"K28 memory is bounded while the target stalls", memoryBounded},
	{"K29 health follows the target", healthFollows},
	{"K30 nothing leaks", nothingLeaks},
	{"K31 scheduling headers are stripped", delaysStripped},
	{"K32 login refused", loginRefused},
	{"K33 options are checked", optionsChecked},
	{"K34 a batch is checked in one call", batchChecked},
}
