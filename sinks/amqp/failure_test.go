package amqp

import (
	"errors"
	"fmt"
	"io"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/core"
)

// TestBlamed goes through the codes with which a broker closes a channel.
func TestBlamed(t *testing.T) {
	tests := []struct {
		code  int
		class core.Class
	}{
		{amqp091.ContentTooLarge, core.Permanent},
		{amqp091.NoRoute, core.TopicBlocked},
		{amqp091.NoConsumers, core.TopicBlocked},
		{amqp091.ConnectionForced, core.Unknown},
		{amqp091.InvalidPath, core.Unknown},
		{amqp091.AccessRefused, core.TopicBlocked},
		{amqp091.NotFound, core.TopicBlocked},
		{amqp091.ResourceLocked, core.TopicBlocked},
		{amqp091.PreconditionFailed, core.Permanent},
		{amqp091.FrameError, core.Permanent},
		{amqp091.SyntaxError, core.Permanent},
		{amqp091.CommandInvalid, core.Permanent},
		{amqp091.ChannelError, core.Unknown},
		{amqp091.UnexpectedFrame, core.Permanent},
		{amqp091.ResourceError, core.Unknown},
		{amqp091.NotAllowed, core.Unknown},
		{amqp091.NotImplemented, core.Permanent},
		{amqp091.InternalError, core.Unknown},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.code), func(t *testing.T) {
			if got := blamed(&amqp091.Error{Code: tt.code, Server: true}).class(); got != tt.class {
				t.Errorf("said by the broker: %s, want %s", got, tt.class)
			}
			if got := blamed(&amqp091.Error{Code: tt.code}); got != nobody {
				t.Errorf("said by the library: blames %d, want nobody", got)
			}
		})
	}
	if blamed(nil) != nobody {
		t.Error("no reason blames somebody")
	}
}

// TestResult goes through what may be known of a batch and what Deliver makes
// of it.
func TestResult(t *testing.T) {
	confirmed, refused := outcome{classified, nil}, outcome{classified, core.Classify(core.Permanent, io.ErrUnexpectedEOF)}
	gone, waits := outcome{lost, errLost}, outcome{}
	trouble := core.Classify(core.Blocked, errors.New("trouble"))
	const blocked, permanent, unknown, none = core.Blocked, core.Permanent, core.Unknown, core.Class(-1)
	tests := []struct {
		name     string
		outcomes []outcome
		whole    core.Class   // of one error for all
		each     []core.Class // of a result for each
	}{
		{"all confirmed", []outcome{confirmed, confirmed}, none, nil},
		{"nothing sent", []outcome{waits, waits}, blocked, nil},
		{"nothing known", []outcome{gone, gone}, unknown, nil},
		{"some sent, nothing known", []outcome{gone, waits}, unknown, nil},
		{"some confirmed", []outcome{confirmed, gone, waits}, none, []core.Class{none, unknown, blocked}},
		{"some refused", []outcome{refused, waits}, none, []core.Class{permanent, blocked}},
		{"all classified", []outcome{refused, confirmed}, none, []core.Class{permanent, none}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := (&delivery{outcomes: tt.outcomes}).result(trouble)
			results, each := errors.AsType[core.BatchError](err)
			switch {
			case tt.each == nil && each:
				t.Errorf("results %v, want one answer", results)
			case tt.each == nil:
				checkClass(t, err, tt.whole)
			case len(results) != len(tt.each):
				t.Errorf("%v, want %d results", err, len(tt.each))
			default:
				for i, want := range tt.each {
					checkClass(t, results[i], want)
				}
			}
		})
	}
}

// checkClass takes a negative class for no error.
func checkClass(t testing.TB, err error, want core.Class) {
	t.Helper()
	switch {
	case want < 0 && err != nil:
		t.Errorf("%v, want no error", err)
	case want >= 0 && (err == nil || core.ClassOf(err) != want):
		t.Errorf("%v, want class %s", err, want)
	}
}

func TestReturnsAreMatched(t *testing.T) {
	sent := func(id, exchange, key string) *outgoing { return &outgoing{id: id, exchange: exchange, key: key} }
	messages := []*outgoing{sent("a", "x", "k"), sent("a", "x", "other"), sent("b", "x", "k")}
	results := make([]error, 3)
	returned := func(id string) amqp091.Return {
		return amqp091.Return{Headers: amqp091.Table{core.HeaderID: id}, Exchange: "x", RoutingKey: "other", ReplyCode: 312}
	}
	markReturned(returned("a"), messages, results)
	markReturned(returned("c"), messages, results)
	checkClass(t, results[0], -1)
	checkClass(t, results[1], core.TopicBlocked)
	checkClass(t, results[2], -1)
}

func TestSuspectsAreBounded(t *testing.T) {
	var s suspects
	for i := range 3 * maxSuspects {
		s.add(fmt.Sprint(i))
	}
	last := fmt.Sprint(3*maxSuspects - 1)
	if !s.has(last) || len(s.ids) > maxSuspects {
		t.Errorf("%d suspects are kept, the last one: %t; want at most %d and the last", len(s.ids), s.has(last), maxSuspects)
	}
	if s.clear(last); s.has(last) {
		t.Error("a suspect that was cleared is one still")
	}
}
