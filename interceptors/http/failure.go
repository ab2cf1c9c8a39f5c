package httpdoor

import (
	"errors"
	"strconv"
	"strings"

	"github.com/delaybridge/delaybridge/core"
)

// maxDetail bounds what is told of a store's error.
const maxDetail = 256

// problemOf says err in HTTP.
func problemOf(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if e, ok := errors.AsType[*syntaxError](err); ok {
		return newProblem(codeMalformed, e.Error())
	}
	if e, ok := errors.AsType[*core.InvalidError](err); ok {
		return invalidProblem(e)
	}
	return storeProblem(err)
}

func invalidProblem(e *core.InvalidError) *problem {
	name := codeInvalid
	if e.TooLarge && e.Field == "body" {
		name = codeTooLarge
	}
	p := newProblem(name, e.Error())
	p.Field = e.Field
	return p
}

func storeProblem(err error) *problem {
	detail := strings.ToValidUTF8(core.Shorten(err.Error(), maxDetail), "?")
	for _, known := range []struct {
		err  error
		code string
	}{
		{core.ErrNotFound, codeNotFound}, {core.ErrTooLate, codeTooLate}, {core.ErrConflict, codeConflict},
		{core.ErrAmbiguous, codeAmbiguous}, {core.ErrBadCursor, codeBadCursor}, {core.ErrNoInspector, codeNotSupported},
		{core.ErrFull, codeFull}, {core.ErrUnavailable, codeUnavailable},
	} {
		if errors.Is(err, known.err) {
			return newProblem(known.code, detail)
		}
	}
	// Also what has no class, as then nothing can be promised.
	return newProblem(codeUnknown, detail)
}

// acceptProblem says why a message was not accepted.
func acceptProblem(r core.Receipt) *problem {
	p := problemOf(r.Err)
	p.Stored = p.outcome()
	if p.Code == codeUnknown || p.Code == codeConflict {
		p.ID, p.Sink = r.ID, r.Sink
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
