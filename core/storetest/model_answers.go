package storetest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/delaybridge/delaybridge/core"
)

// The answers of a store as text, without what two stores can't agree on.

func (m *model) receipt(s *side, r core.Receipt, err error) string {
	switch {
	case errors.Is(err, core.ErrConflict):
		return fmt.Sprintf("%s of %s: %s", s.name(r.ID), r.Sink, errorName(err))
	case errors.Is(err, core.ErrTooLate):
		return fmt.Sprintf("%s, it is %s", errorName(err), r.State)
	case err != nil:
		return errorName(err)
	}
	return fmt.Sprintf("%s of %s %s at %s, attempt %d, duplicate %t",
		s.name(r.ID), r.Sink, r.State, m.label(r.DeliverAt), r.Attempt, r.Duplicate)
}

func (m *model) entry(s *side, e core.Entry) string {
	if e.State == core.Delivered || e.State == core.Cancelled || e.Message.DeliverAt.IsZero() {
		return fmt.Sprintf("%s was %s at %s", s.name(e.Message.ID), e.State, m.label(e.Due))
	}
	return fmt.Sprintf("%s, due %s, %d bytes, may have been sent %t, %s: %s %s",
		e.State, m.label(e.Due), e.BodySize, e.MayHaveBeenSent, e.Reason, e.Error, m.message(s, e.Message))
}

func (m *model) batch(s *side, b core.Batch) string {
	var answers []string
	for _, msg := range b.Messages {
		answers = append(answers, m.message(s, msg))
	}
	return fmt.Sprintf("[%s] next %s", strings.Join(answers, "; "), m.label(b.Next))
}

func (m *model) message(s *side, msg *core.Message) string {
	c := contentOf(msg)
	c.ID = s.name(c.ID)
	return fmt.Sprintf("%#v at %s, expires %s, attempt %d, cut off %t",
		c, m.label(msg.DeliverAt), m.label(msg.ExpiresAt), msg.Attempt, msg.CutOff)
}

// errorName is the error by which a caller decides.
func errorName(err error) string {
	for _, known := range []error{core.ErrNotFound, core.ErrTooLate, core.ErrCancelled, core.ErrConflict, core.ErrAmbiguous} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if invalid, ok := errors.AsType[*core.InvalidError](err); ok {
		return "invalid " + invalid.Field
	}
	return err.Error()
}
