package httplistener

import (
	"errors"
	"strconv"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/internal/apierror"
)

// problemOf says err in HTTP.
func problemOf(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if e, ok := errors.AsType[*syntaxError](err); ok {
		return newProblem(codeMalformed, e.Error())
	}
	f := apierror.Of(err)
	p := newProblem(f.Code, f.Detail)
	p.Field = f.Field
	_, invalid := errors.AsType[*core.InvalidError](err)
	p.byCore = !invalid
	return p
}

// acceptProblem says why a message was not accepted.
func acceptProblem(r core.Receipt) *problem {
	p := problemOf(r.Err)
	p.Stored, p.byCore = p.outcome(), true
	if p.Code == codeUnknown || p.Code == codeConflict {
		p.ID, p.Sink, p.State = r.ID, r.Sink, r.State
	}
	return p
}

// notStored marks what went wrong before the store was asked.
func notStored(err error) error {
	p := problemOf(err)
	p.Stored = false
	return p
}

// changeProblem says why a stored message was not changed.
func changeProblem(r core.Receipt, err error) error {
	p := problemOf(err)
	p.Changed = p.outcome()
	if p.Code == codeTooLate {
		p.State = r.State
	}
	return p
}

func (p *problem) outcome() any {
	if p.Code == codeUnknown {
		return outcomeUnknown
	}
	return false
}

// echo quotes what a request held, in at most 64 bytes of printable ASCII.
func echo(text string) string {
	return `"` + plain(text, maxEcho-len(`""`)) + `"`
}

const maxEcho = 64

// plain escapes text and cuts it to at most the given bytes, at whole escapes.
func plain(text string, most int) string {
	quoted := strconv.QuoteToASCII(core.Shorten(text, maxEcho))
	escaped := quoted[1 : len(quoted)-1]
	if len(escaped) <= most && len(text) <= maxEcho {
		return escaped
	}
	kept := 0
	for kept < len(escaped) {
		_, _, rest, err := strconv.UnquoteChar(escaped[kept:], '"')
		next := len(escaped) - len(rest)
		if err != nil || next > most-len("...") {
			break
		}
		kept = next
	}
	return escaped[:kept] + "..."
}
