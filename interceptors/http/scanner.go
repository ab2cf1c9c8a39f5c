package httplistener

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// scanner reads JSON in one pass, and strictly: invalid UTF-8, a byte order
// mark, and half of a surrogate pair in a string that is decoded are errors.
// What it returns points into the text, unless escapes had to be decoded.
type scanner struct {
	text    []byte
	decoder *jsontext.Decoder
}

// newScanner returns a scanner that takes in values what RFC 8259 allows, since
// a body passes as it stands.
func newScanner(text []byte) scanner {
	return scanner{text, jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
}

// begin checks the encoding; to be called before anything else.
func (s *scanner) begin() error {
	if !utf8.Valid(s.text) {
		return s.fail("the text is not UTF-8")
	}
	return nil
}

type syntaxError struct {
	at     int64 // byte offset
	reason string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("at byte %d: %s", e.at, e.reason) }

func (s *scanner) fail(reason string) error { return &syntaxError{s.decoder.InputOffset(), reason} }

// failed gives the decoder's error the form of ours.
func (s *scanner) failed(err error) error {
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return &syntaxError{e.ByteOffset, e.Err.Error()}
	}
	return s.fail("the text ends early")
}

// end checks that nothing follows.
func (s *scanner) end() error {
	switch _, err := s.decoder.ReadToken(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return s.failed(err)
	}
	return s.fail("there is more text after the value")
}

// peek returns what is next, without reading it; '0' stands for any number.
func (s *scanner) peek() jsontext.Kind { return s.decoder.PeekKind() }

// null moves on if null is next.
func (s *scanner) null() bool {
	if s.peek() != 'n' {
		return false
	}
	_, err := s.decoder.ReadToken()
	return err == nil
}

// object calls member after each name; that reads the value. The name is valid
// until then.
func (s *scanner) object(member func(name []byte) error) error {
	return s.each('{', '}', "must be an object", func() error {
		name, err := s.str()
		if err != nil {
			return err
		}
		return member(name)
	})
}

// array calls element before each value; that reads it.
func (s *scanner) array(element func() error) error {
	return s.each('[', ']', "must be an array", element)
}

func (s *scanner) each(begin, end jsontext.Kind, missing string, element func() error) error {
	if token, err := s.decoder.ReadToken(); err != nil {
		return s.failed(err)
	} else if token.Kind() != begin {
		return s.fail(missing)
	}
	for s.peek() != end {
		if err := element(); err != nil {
			return err
		}
	}
	_, err := s.decoder.ReadToken()
	return err
}

// attempt calls read for the next value. What read has left of the value after an
// error is skipped; if the text can't be read further, it is broken.
func (s *scanner) attempt(read func() error) (err, broken error) {
	depth, start := s.decoder.StackDepth(), s.decoder.InputOffset()
	if err = read(); err == nil {
		return nil, nil
	}
	for s.decoder.StackDepth() > depth || s.decoder.InputOffset() == start {
		if _, broken := s.decoder.ReadToken(); broken != nil {
			return nil, s.failed(broken)
		}
	}
	return err, nil
}

// str reads a string and decodes its escapes.
func (s *scanner) str() ([]byte, error) {
	quoted, err := s.value()
	if err != nil {
		return nil, err
	}
	if quoted[0] != '"' {
		return nil, s.fail("must be a string")
	}
	if raw := quoted[1 : len(quoted)-1 : len(quoted)-1]; bytes.IndexByte(raw, '\\') < 0 {
		return raw, nil
	}
	text, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		return nil, s.fail("a string has half of a surrogate pair")
	}
	return text, nil
}

// value moves past any value and returns its text as it stands.
func (s *scanner) value() ([]byte, error) {
	value, err := s.decoder.ReadValue()
	if err != nil {
		return nil, s.failed(err)
	}
	end := s.decoder.InputOffset()
	return s.text[end-int64(len(value)) : end : end], nil
}
