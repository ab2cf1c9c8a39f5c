package httplistener

import (
	"bytes"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner reads JSON in one pass, and strictly: what RFC 8259 leaves open
// (invalid UTF-8, lone surrogates, a byte order mark) is an error. It decodes
// strings in place, so the text is spoilt by reading, and what it returns
// points into it.
type scanner struct {
	text []byte
	at   int
}

// maxDepth bounds how deep values may nest.
const maxDepth = 1000

type syntaxError struct {
	at     int // byte offset
	reason string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("at byte %d: %s", e.at, e.reason) }

func (s *scanner) fail(reason string) error { return &syntaxError{s.at, reason} }

// begin checks the encoding; to be called before anything else.
func (s *scanner) begin() error {
	if bytes.HasPrefix(s.text, []byte("\xef\xbb\xbf")) {
		return s.fail("a byte order mark is not JSON")
	}
	if !utf8.Valid(s.text) {
		return s.fail("the text is not UTF-8")
	}
	return nil
}

// end checks that nothing follows.
func (s *scanner) end() error {
	if s.peek(); s.at < len(s.text) {
		return s.fail("something follows the value")
	}
	return nil
}

// peek skips white space and returns the next byte, or 0 at the end.
func (s *scanner) peek() byte {
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// take moves on if c is next.
func (s *scanner) take(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.at++
	return true
}

// null moves on if null is next.
func (s *scanner) null() bool {
	if s.peek() != 'n' || !bytes.HasPrefix(s.text[s.at:], []byte("null")) {
		return false
	}
	s.at += len("null")
	return true
}

// object calls member after each name; that reads the value. The name is valid
// until then.
func (s *scanner) object(member func(name []byte) error) error {
	if !s.take('{') {
		return s.fail("an object must be here")
	}
	if s.take('}') {
		return nil
	}
	for {
		name, err := s.str()
		if err != nil {
			return err
		}
		if !s.take(':') {
			return s.fail("':' must follow a name")
		}
		if err := member(name); err != nil {
			return err
		}
		if s.take('}') {
			return nil
		}
		if !s.take(',') {
			return s.fail("',' or '}' must follow a member")
		}
	}
}

// array calls element before each value; that reads it.
func (s *scanner) array(element func() error) error {
	if !s.take('[') {
		return s.fail("an array must be here")
	}
	if s.take(']') {
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		if s.take(']') {
			return nil
		}
		if !s.take(',') {
			return s.fail("',' or ']' must follow an element")
		}
	}
}

// str reads a string and decodes its escapes.
func (s *scanner) str() ([]byte, error) {
	start, escaped, err := s.skipString()
	if err != nil {
		return nil, err
	}
	raw := s.text[start : s.at-1 : s.at-1]
	if !escaped {
		return raw, nil
	}
	return s.unescape(raw)
}

// skipString moves past a string that is well formed.
func (s *scanner) skipString() (start int, escaped bool, err error) {
	if s.peek() != '"' {
		return 0, false, s.fail("a string must be here")
	}
	start = s.at + 1
	for s.at = start; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			return start, escaped, nil
		case c < ' ':
			return 0, false, s.fail("a string has a control character that is not escaped")
		case c == '\\':
			escaped = true
			if err := s.skipEscape(); err != nil {
				return 0, false, err
			}
		}
	}
	return 0, false, s.fail("a string does not end")
}

// skipEscape moves to the last byte of an escape.
func (s *scanner) skipEscape() error {
	s.at++
	if s.at == len(s.text) {
		return s.fail("a string does not end")
	}
	switch s.text[s.at] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return nil
	case 'u':
		if _, ok := hex4(s.text[s.at+1:]); ok {
			s.at += 4
			return nil
		}
	}
	return s.fail("a string has an escape that JSON does not know")
}

func hex4(digits []byte) (value rune, ok bool) {
	if len(digits) < 4 {
		return 0, false
	}
	for _, c := range digits[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		value = value<<4 | rune(c)
	}
	return value, true
}

// unescape decodes a well-formed string in place: no escape is shorter than
// what it stands for.
func (s *scanner) unescape(raw []byte) ([]byte, error) {
	out := raw[:0]
	for len(raw) > 0 {
		if raw[0] != '\\' {
			out, raw = append(out, raw[0]), raw[1:]
			continue
		}
		if raw[1] != 'u' {
			out, raw = append(out, plainEscape(raw[1])), raw[2:]
			continue
		}
		r, size := escapedRune(raw)
		if utf16.IsSurrogate(r) {
			return nil, s.fail("a string has half of a surrogate pair")
		}
		out, raw = utf8.AppendRune(out, r), raw[size:]
	}
	return out, nil
}

func plainEscape(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

// escapedRune decodes \uXXXX, or two that are a pair.
func escapedRune(raw []byte) (r rune, size int) {
	const one = len(`\uXXXX`)
	high, _ := hex4(raw[2:])
	if !utf16.IsSurrogate(high) || len(raw) < 2*one || raw[one] != '\\' || raw[one+1] != 'u' {
		return high, one
	}
	low, _ := hex4(raw[one+2:])
	if pair := utf16.DecodeRune(high, low); pair != utf8.RuneError {
		return pair, 2 * one
	}
	return high, one
}

// value moves past any value and returns its text as it stands.
func (s *scanner) value() ([]byte, error) {
	s.peek()
	start := s.at
	if err := s.skip(0); err != nil {
		return nil, err
	}
	return s.text[start:s.at:s.at], nil
}

func (s *scanner) skip(depth int) error {
	if depth > maxDepth {
		return s.fail("values are nested too deep")
	}
	switch c := s.peek(); {
	case c == '{':
		return s.skipObject(depth)
	case c == '[':
		return s.array(func() error { return s.skip(depth + 1) })
	case c == '"':
		_, _, err := s.skipString()
		return err
	case c == '-' || '0' <= c && c <= '9':
		return s.skipNumber()
	}
	for _, word := range []string{"null", "true", "false"} {
		if bytes.HasPrefix(s.text[s.at:], []byte(word)) {
			s.at += len(word)
			return nil
		}
	}
	return s.fail("a value must be here")
}

// skipObject is not made of object, as that would decode the names in place.
func (s *scanner) skipObject(depth int) error {
	s.at++
	if s.take('}') {
		return nil
	}
	for {
		if _, _, err := s.skipString(); err != nil {
			return err
		}
		if !s.take(':') {
			return s.fail("':' must follow a name")
		}
		if err := s.skip(depth + 1); err != nil {
			return err
		}
		if s.take('}') {
			return nil
		}
		if !s.take(',') {
			return s.fail("',' or '}' must follow a member")
		}
	}
}

func (s *scanner) skipNumber() error {
	if s.text[s.at] == '-' {
		s.at++
	}
	zero := s.at < len(s.text) && s.text[s.at] == '0'
	if n := s.digits(); n == 0 || zero && n > 1 {
		return s.fail("a number is not as JSON writes it")
	}
	if s.at < len(s.text) && s.text[s.at] == '.' {
		s.at++
		if s.digits() == 0 {
			return s.fail("a number is not as JSON writes it")
		}
	}
	if s.at < len(s.text) && s.text[s.at]|0x20 == 'e' {
		s.at++
		if s.at < len(s.text) && (s.text[s.at] == '+' || s.text[s.at] == '-') {
			s.at++
		}
		if s.digits() == 0 {
			return s.fail("a number is not as JSON writes it")
		}
	}
	return nil
}

func (s *scanner) digits() (n int) {
	for s.at < len(s.text) && '0' <= s.text[s.at] && s.text[s.at] <= '9' {
		s.at++
		n++
	}
	return n
}
