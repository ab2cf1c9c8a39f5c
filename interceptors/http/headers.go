package httplistener

import (
	"bytes"
	"strings"

	"github.com/delaybridge/delaybridge/core"
)

// headers reads a message's headers in either form.
func (e *envelope) headers() (headers []core.Header, err error) {
	switch e.peek() {
	case '{':
		headers, err = e.headerObject()
	case '[':
		headers, err = e.headerArray()
	default:
		return nil, core.Invalidf("headers", "must be an object or an array")
	}
	if err != nil {
		return nil, err
	}
	return headers, checkCase(headers)
}

// add appends a header unless there are too many already.
func (e *envelope) add(headers []core.Header, name string, value []byte) ([]core.Header, error) {
	if headers = append(headers, core.Header{Name: name, Value: value}); len(headers) > e.limits.MaxHeaders && core.CountHeaders(headers) > e.limits.MaxHeaders {
		return nil, core.Invalidf("headers", "are more than %d", e.limits.MaxHeaders)
	}
	return headers, nil
}

// headerObject reads {"name": "text" | null | ["text" | null, ...], ...}.
func (e *envelope) headerObject() (headers []core.Header, err error) {
	err = e.object(func(raw []byte) error {
		name := string(raw)
		for _, h := range headers {
			if h.Name == name {
				return core.Invalidf("headers", "have the name %s twice; use an array of its values", echo(name))
			}
		}
		one := func() error {
			value, err := e.headerText()
			if err == nil {
				headers, err = e.add(headers, name, value)
			}
			return err
		}
		if e.peek() != '[' {
			return one()
		}
		before := len(headers)
		err := e.array(one)
		if err == nil && len(headers) == before {
			return core.Invalidf("headers", "have the name %s without a value", echo(name))
		}
		return err
	})
	return headers, err
}

// headerArray reads [{"name": ..., "value" or "value_base64": ...}, ...].
func (e *envelope) headerArray() (headers []core.Header, err error) {
	err = e.array(func() error {
		h, err := e.headerElement()
		if err == nil {
			headers, err = e.add(headers, h.Name, h.Value)
		}
		return err
	})
	return headers, err
}

func (e *envelope) headerElement() (h core.Header, err error) {
	if e.peek() != '{' {
		return h, core.Invalidf("headers", "must have objects for elements")
	}
	names, values := 0, 0
	err = e.object(func(member []byte) error {
		var err error
		switch string(member) {
		case "name":
			names++
			h.Name, err = e.name(fieldHeaders)
		case "value":
			values++
			h.Value, err = e.headerText()
		case "value_base64":
			values++
			h.Value, err = e.base64(fieldHeaders)
		default:
			return core.Invalidf("headers", "have an element with the member %s", echo(string(member)))
		}
		return err
	})
	if err == nil && (names != 1 || values != 1) {
		err = core.Invalidf("headers", "must have elements with one name, and one value or value_base64")
	}
	return h, err
}

// headerText reads a string or null.
func (e *envelope) headerText() ([]byte, error) {
	if e.null() {
		return nil, nil
	}
	if e.peek() != '"' {
		return nil, core.Invalidf("headers", "must have strings for values, or null")
	}
	value, err := e.str()
	if err == nil && bytes.ContainsAny(value, "\r\n\x00") {
		err = core.Invalidf("headers", "have a value with CR, LF or NUL; use value_base64")
	}
	return value, err
}

// checkCase refuses names that differ in case only: some brokers would make one
// of the two.
func checkCase(headers []core.Header) error {
	for n, h := range headers {
		for _, other := range headers[:n] {
			if h.Name != other.Name && strings.EqualFold(h.Name, other.Name) {
				return core.Invalidf("headers", "have names that differ in case only: %s", echo(h.Name))
			}
		}
	}
	return nil
}
