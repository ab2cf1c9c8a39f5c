package grpclistener

import (
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
	"github.com/delaybridge/delaybridge/internal/apierror"
)

// results gives each receipt a result. They are made in one piece, as there are
// many.
func results(receipts []core.Receipt) []*bridgev1.PublishResult {
	pointers := make([]*bridgev1.PublishResult, len(receipts))
	values := make([]struct {
		result bridgev1.PublishResult
		at     timestamppb.Timestamp
	}, len(receipts))
	for n, r := range receipts {
		v := &values[n]
		pointers[n] = &v.result
		v.result.Id, v.result.Sink = r.ID, r.Sink
		if r.Err != nil {
			v.result.Error = resultError(r.Err)
			continue
		}
		v.result.State, v.result.Duplicate, v.result.Durability = stateOf(r.State), r.Duplicate, r.Durability
		if !r.DeliverAt.IsZero() {
			v.at.Seconds, v.at.Nanos = r.DeliverAt.Unix(), int32(r.DeliverAt.Nanosecond())
			v.result.DeliverAt = &v.at
		}
	}
	return pointers
}

func resultError(err error) *bridgev1.Error {
	f := apierror.Of(err)
	return &bridgev1.Error{Code: f.Code, Field: f.Field, Message: f.Detail}
}

func receiptOf(r core.Receipt) *bridgev1.Receipt {
	return &bridgev1.Receipt{Id: r.ID, Sink: r.Sink, State: stateOf(r.State), DeliverAt: timestamp(r.DeliverAt),
		Durability: r.Durability, Attempt: int32(r.Attempt), MayHaveBeenSent: r.Attempt > 0}
}

func entryOf(e core.Entry, withBody bool) *bridgev1.Entry {
	m := e.Message
	entry := &bridgev1.Entry{
		Message: &bridgev1.Message{Id: m.ID, Sink: m.Sink}, State: stateOf(e.State), Due: timestamp(e.Due),
		Attempt: int32(m.Attempt), MayHaveBeenSent: e.MayHaveBeenSent,
		Reason: text(e.Reason), Error: text(e.Error), Generated: m.Generated,
	}
	if e.State.Settled() {
		return entry
	}
	p := entry.Message
	p.Topic, p.Key, p.Priority = m.Topic, m.Key, int32(m.Priority)
	p.DeliverAt, p.ExpiresAt = timestamp(m.DeliverAt), timestamp(m.ExpiresAt)
	for _, h := range m.Headers {
		p.Headers = append(p.Headers, &bridgev1.Header{Name: text(h.Name), Value: h.Value})
	}
	p.Options = texts(m.Options)
	entry.BodySize = int64(e.BodySize)
	if withBody {
		p.Body = m.Body
	}
	return entry
}

// text is s without what a string of the protocol can't have.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// texts is m with values that a string of the protocol can have; nil if m is empty.
func texts(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	all := make(map[string]string, len(m))
	for name, value := range m {
		all[text(name)] = text(value)
	}
	return all
}

// timestamp is t; the zero time is nil.
func timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func stateOf(state core.State) bridgev1.State {
	switch state {
	case core.Scheduled:
		return bridgev1.State_STATE_SCHEDULED
	case core.Delivering:
		return bridgev1.State_STATE_DELIVERING
	case core.Retrying:
		return bridgev1.State_STATE_RETRYING
	case core.Delivered:
		return bridgev1.State_STATE_DELIVERED
	case core.Dead:
		return bridgev1.State_STATE_DEAD
	case core.Expired:
		return bridgev1.State_STATE_EXPIRED
	case core.Cancelled:
		return bridgev1.State_STATE_CANCELLED
	case core.Discarded:
		return bridgev1.State_STATE_DISCARDED
	}
	return bridgev1.State_STATE_UNSPECIFIED
}

// coreState is the reverse of stateOf; what is not known is no state of core.
func coreState(state bridgev1.State) core.State {
	for _, known := range []core.State{core.Scheduled, core.Delivering, core.Retrying, core.Delivered, core.Dead, core.Expired, core.Cancelled, core.Discarded} {
		if stateOf(known) == state {
			return known
		}
	}
	return ""
}
