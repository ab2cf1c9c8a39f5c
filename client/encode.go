package client

import (
	"encoding/base64"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// appendMessage appends the JSON of m under the given ID, without line feeds. It
// fails only if m has no time, or what JSON can't carry; the rest is for the bridge
// to refuse.
func appendMessage(b []byte, m *Message, id string) ([]byte, *Error) {
	if err := checkText(m, id); err != nil {
		return b, err
	}
	b = appendMember(append(b, '{'), "id", id)
	b = appendMember(append(b, ','), "topic", m.Topic)
	if m.Sink != "" {
		b = appendMember(append(b, ','), "sink", m.Sink)
	}
	if m.Key != nil {
		b = appendBytes(append(b, ','), "key", m.Key)
	}
	b = append(appendHeaders(b, m.Headers), ',')
	if m.Body == nil {
		b = append(b, `"body":null`...)
	} else {
		b = appendBytes(b, "body", m.Body)
	}
	b, err := appendTimes(b, m)
	if err != nil {
		return b, err
	}
	if m.Priority != 0 {
		b = strconv.AppendInt(append(b, `,"priority":`...), int64(m.Priority), 10)
	}
	return append(appendOptions(b, m.Options), '}'), nil
}

// checkText refuses text that is not UTF-8: it would not arrive as it is.
func checkText(m *Message, id string) *Error {
	for _, text := range [...]struct{ field, value string }{{"id", id}, {"topic", m.Topic}, {"sink", m.Sink}} {
		if !utf8.ValidString(text.value) {
			return Invalid(text.field, "is not UTF-8")
		}
	}
	for _, h := range m.Headers {
		if !utf8.ValidString(h.Name) {
			return Invalid("headers", "have a name that is not UTF-8")
		}
	}
	for name, value := range m.Options {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return Invalid("options", "have text that is not UTF-8")
		}
	}
	return nil
}

func appendTimes(b []byte, m *Message) ([]byte, *Error) {
	b, err := appendWhen(append(b, ','), m.DeliverAt, m.Delay)
	if m.TTL != 0 {
		b = appendMember(append(b, ','), "ttl", m.TTL.String())
	}
	if !m.ExpiresAt.IsZero() {
		b = appendMember(append(b, ','), "expires_at", timeText(m.ExpiresAt))
	}
	return b, err
}

// appendWhen appends the one of the two that is set.
func appendWhen(b []byte, at time.Time, delay time.Duration) ([]byte, *Error) {
	switch {
	case at.IsZero() && delay == 0:
		return b, Invalid("deliver_at", "is missing: set a time or a delay, or the delay client.Now to deliver at once")
	case !at.IsZero() && delay != 0:
		return b, Invalid("deliver_at", "can't be used together with a delay")
	case delay == Now:
		return appendMember(b, "delay", "0s"), nil
	case delay != 0:
		return appendMember(b, "delay", delay.String()), nil
	}
	return appendMember(b, "deliver_at", timeText(at)), nil
}

func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func appendHeaders(b []byte, headers []Header) []byte {
	if len(headers) == 0 {
		return b
	}
	b = append(b, `,"headers":[`...)
	for n, h := range headers {
		if n > 0 {
			b = append(b, ',')
		}
		b = append(appendMember(append(b, '{'), "name", h.Name), ',')
		switch {
		case h.Value == nil:
			b = append(b, `"value":null`...)
		case slices.ContainsFunc(h.Value, notInHeaderText):
			b = appendBase64(b, "value", h.Value)
		default:
			b = appendBytes(b, "value", h.Value)
		}
		b = append(b, '}')
	}
	return append(b, ']')
}

// notInHeaderText reports what the API takes as bytes only.
func notInHeaderText(c byte) bool { return c == '\r' || c == '\n' || c == 0 }

func appendOptions(b []byte, options map[string]string) []byte {
	if len(options) == 0 {
		return b
	}
	b = append(b, `,"options":{`...)
	for n, name := range slices.Sorted(maps.Keys(options)) {
		if n > 0 {
			b = append(b, ',')
		}
		b = appendMember(b, name, options[name])
	}
	return append(b, '}')
}

// appendBytes appends a member as text, or as base64 if it is no text, or a text
// that would grow by its escapes: the bridge's limits leave room for base64.
func appendBytes(b []byte, name string, value []byte) []byte {
	if !utf8.Valid(value) || quotedLen(value) > base64.StdEncoding.EncodedLen(len(value))+len("_base64") {
		return appendBase64(b, name, value)
	}
	return appendMember(b, name, value)
}

func appendBase64(b []byte, name string, value []byte) []byte {
	b = append(appendQuoted(b, name+"_base64"), ':', '"')
	return append(base64.StdEncoding.AppendEncode(b, value), '"')
}

func appendMember[T string | []byte](b []byte, name string, value T) []byte {
	return appendQuoted(append(appendQuoted(b, name), ':'), value)
}

// appendQuoted appends UTF-8 as a string of JSON.
func appendQuoted[T string | []byte](b []byte, text T) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for n := range len(text) {
		switch c := text[n]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, '\\', 'n')
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// quotedLen is how long appendQuoted makes text, without the quotes.
func quotedLen(text []byte) int {
	length := len(text)
	for _, c := range text {
		switch {
		case c == '"' || c == '\\' || c == '\n':
			length++
		case c < ' ':
			length += 5
		}
	}
	return length
}
