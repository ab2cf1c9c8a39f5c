package grpclistener

import (
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
)

// decoder makes messages of what clients send. It refuses what the types of the
// protocol can say and those of core can't; the other rules are core's.
type decoder struct {
	limits core.Limits
}

// decode fills m, which shares p's bytes. Errors are *core.InvalidError.
func (d decoder) decode(p *bridgev1.Message, m *core.Message) (err error) {
	m.ID, m.Sink, m.Topic = p.GetId(), p.GetSink(), p.GetTopic()
	if p == nil {
		return checkPairs(p)
	}
	m.Key, m.Body, m.Options, m.Priority = p.Key, p.Body, p.Options, int(p.Priority)
	if m.Headers, err = d.headers(p.Headers); err != nil {
		return err
	}
	if err := checkPairs(p); err != nil {
		return err
	}
	if m.Delay, err = duration("delay", p.Delay); err != nil {
		return err
	}
	if m.DeliverAt, err = moment("deliver_at", p.DeliverAt); err != nil {
		return err
	}
	if m.TTL, err = duration("ttl", p.Ttl); err != nil {
		return err
	}
	if p.Ttl != nil && m.TTL == 0 { // core would take it for none
		return core.Invalidf("ttl", "must be more than zero")
	}
	m.ExpiresAt, err = moment("expires_at", p.ExpiresAt)
	return err
}

// checkPairs holds what can't be given together, or must be given.
func checkPairs(p *bridgev1.Message) error {
	if err := checkWhen(p.GetDelay(), p.GetDeliverAt()); err != nil {
		return err
	}
	if p.GetTtl() != nil && p.GetExpiresAt() != nil {
		return core.Invalidf("expires_at", "can't be used together with ttl")
	}
	return nil
}

func checkWhen(delay *durationpb.Duration, deliverAt *timestamppb.Timestamp) error {
	switch {
	case delay == nil && deliverAt == nil:
		return core.Invalidf("deliver_at", "is missing; set it or delay")
	case delay != nil && deliverAt != nil:
		return core.Invalidf("deliver_at", "can't be used together with delay")
	}
	return nil
}

// duration is d on Go's scale; nil is zero.
func duration(field string, d *durationpb.Duration) (time.Duration, error) {
	if d == nil {
		return 0, nil
	}
	if !d.IsValid() {
		return 0, core.Invalidf(field, "is not a duration: seconds and nanos are out of range, or of different signs")
	}
	span := d.AsDuration()
	if span == math.MaxInt64 || span == math.MinInt64 {
		return 0, core.Invalidf(field, "is longer than can be counted")
	}
	return span, nil
}

// moment is t as core takes it; nil is zero.
func moment(field string, t *timestamppb.Timestamp) (time.Time, error) {
	switch {
	case t == nil:
		return time.Time{}, nil
	case !t.IsValid():
		return time.Time{}, core.Invalidf(field, "is not a time: seconds or nanos are out of range")
	case t.Seconds < 0:
		return time.Time{}, core.Invalidf(field, "is before 1970")
	}
	return t.AsTime(), nil
}

func (d decoder) headers(given []*bridgev1.Header) ([]core.Header, error) {
	if len(given) == 0 {
		return nil, nil
	}
	if len(given) > d.limits.MaxGiven() {
		return nil, core.Invalidf("headers", "are more than %d", d.limits.MaxHeaders)
	}
	headers := make([]core.Header, len(given))
	for n, h := range given {
		headers[n] = core.Header{Name: h.GetName(), Value: h.GetValue()}
		for _, other := range headers[:n] { // some brokers would make one of the two
			if h.GetName() != other.Name && strings.EqualFold(h.GetName(), other.Name) {
				return nil, core.Invalidf("headers", "have names that differ in case only")
			}
		}
	}
	if core.CountHeaders(headers) > d.limits.MaxHeaders {
		return nil, core.Invalidf("headers", "are more than %d", d.limits.MaxHeaders)
	}
	return headers, nil
}
