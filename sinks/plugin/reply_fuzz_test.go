package plugin

import (
	"context"
	"errors"
	"math"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/sinks/plugin/sinkv1"
)

// FuzzReply: whatever bytes a plugin answers Deliver with, a message counts as
// confirmed only if the reply names every message in order and confirms that
// one. Anything else is a result with a class that is known, no negative wait,
// and a text that is bounded and printable.
func FuzzReply(f *testing.F) {
	seed := func(r *sinkv1.DeliverResponse) {
		raw, err := proto.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	batch := messages(3)
	good := confirm(&sinkv1.DeliverRequest{Messages: toProto(batch)})
	seed(good)
	good.Results[1] = &sinkv1.Result{Id: "m1", Outcome: sinkv1.Outcome_OUTCOME_PERMANENT, Error: "no\n\x1b[2J", AfterMs: -5}
	seed(good)
	good.Results[2] = &sinkv1.Result{Id: "m2", Outcome: 99, AfterMs: math.MaxInt64}
	seed(good)
	good.Results[0], good.Results[1] = good.Results[1], good.Results[0]
	seed(good)
	seed(&sinkv1.DeliverResponse{Results: good.Results[:2]})
	seed(&sinkv1.DeliverResponse{Trouble: &sinkv1.Result{Outcome: sinkv1.Outcome_OUTCOME_BLOCKED, Error: "login"}})
	seed(&sinkv1.DeliverResponse{Trouble: &sinkv1.Result{Outcome: sinkv1.Outcome_OUTCOME_CONFIRMED}})
	seed(&sinkv1.DeliverResponse{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		response := &sinkv1.DeliverResponse{}
		if proto.Unmarshal(raw, response) != nil {
			return
		}
		confirmed := confirmedBy(response, batch)
		in, _ := stubbed(&stub{answer: func(int, *sinkv1.DeliverRequest) (*sinkv1.DeliverResponse, error) { return response, nil }}, &sinkv1.DescribeResponse{})
		err := in.deliver(context.Background(), batch)
		results, each := errors.AsType[core.BatchError](err)
		if each && len(results) != len(batch) {
			t.Fatalf("%d results", len(results))
		}
		for n := range batch {
			result := err
			if each {
				result = results[n]
			}
			if (result == nil) != confirmed[n] {
				t.Errorf("message %d: %v, confirmed is %t", n, result, confirmed[n])
			}
			checkResult(t, result)
		}
	})
}

// confirmedBy tells for each message whether the reply confirms it, beyond doubt.
func confirmedBy(r *sinkv1.DeliverResponse, batch []*core.Message) []bool {
	confirmed := make([]bool, len(batch))
	if r.Trouble != nil || len(r.Results) != len(batch) {
		return confirmed
	}
	for n, m := range batch {
		if r.Results[n].GetId() != m.ID {
			return make([]bool, len(batch))
		}
		confirmed[n] = r.Results[n].GetOutcome() == sinkv1.Outcome_OUTCOME_CONFIRMED
	}
	return confirmed
}

func checkResult(t *testing.T, err error) {
	t.Helper()
	e, ok := errors.AsType[*core.SinkError](err)
	switch {
	case err == nil:
	case !ok || e.Class < core.Retry || e.Class > core.TopicBlocked || e.After < 0:
		t.Errorf("got %#v", err)
	case len(err.Error()) > 2*core.MaxErrorText || printableText(err.Error()) != err.Error():
		t.Errorf("text %q", err)
	}
}
