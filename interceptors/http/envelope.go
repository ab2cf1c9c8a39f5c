package httplistener

import (
	"encoding/base64"
	"math/bits"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/go-json-experiment/json/jsontext"
)

// field is a member of a message's JSON, as one bit.
type field uint32

const (
	fieldID field = 1 << iota
	fieldSink
	fieldTopic
	fieldKey
	fieldKeyBase64
	fieldHeaders
	fieldBody
	fieldBodyBase64
	fieldDelay
	fieldDeliverAt
	fieldTTL
	fieldExpiresAt
	fieldPriority
	fieldOptions

	allFields  = fieldOptions<<1 - 1
	whenFields = fieldDelay | fieldDeliverAt
)

var fieldNames = [...]string{"id", "sink", "topic", "key", "key_base64", "headers", "body", "body_base64",
	"delay", "deliver_at", "ttl", "expires_at", "priority", "options"}

func fieldOf(name []byte) field {
	for n, known := range fieldNames {
		if string(name) == known {
			return 1 << n
		}
	}
	return 0
}

func (f field) String() string { return fieldNames[bits.TrailingZeros32(uint32(f))] }

// envelope decodes the JSON of a message, or, with fewer fields allowed, a part
// of it. The message's body, key and header values point into the text.
type envelope struct {
	scanner
	allowed field
	seen    field // also those that are null
	given   field
	limits  core.Limits
	message core.Message
}

// decode reads the whole text into e.message.
func (e *envelope) decode() error {
	if err := e.begin(); err != nil {
		return err
	}
	if err := e.members(); err != nil {
		return err
	}
	if err := e.end(); err != nil {
		return err
	}
	return e.checkPairs()
}

// element reads one of several values of the text.
func (e *envelope) element() error {
	if err := e.members(); err != nil {
		return err
	}
	return e.checkPairs()
}

func (e *envelope) members() error {
	e.message.Body = []byte{}
	return e.object(e.member)
}

func (e *envelope) member(name []byte) error {
	f := fieldOf(name)
	if f&e.allowed == 0 {
		return core.Invalidf(plain(string(name), maxEcho), "is not a known member")
	}
	if e.seen&f != 0 {
		return core.Invalidf(f.String(), "appears twice")
	}
	e.seen |= f
	if f != fieldBody && e.null() {
		return nil
	}
	e.given |= f
	return e.read(f)
}

func (e *envelope) read(f field) (err error) {
	m := &e.message
	switch f {
	case fieldID:
		m.ID, err = e.name(f)
	case fieldSink:
		m.Sink, err = e.name(f)
	case fieldTopic:
		m.Topic, err = e.name(f)
	case fieldKey:
		m.Key, err = e.textBytes(f)
	case fieldKeyBase64:
		m.Key, err = e.base64(f)
	case fieldHeaders:
		m.Headers, err = e.headers()
	case fieldBody:
		m.Body, err = e.body()
	case fieldBodyBase64:
		m.Body, err = e.base64(f)
	case fieldDelay:
		m.Delay, err = e.duration(f)
	case fieldDeliverAt:
		m.DeliverAt, err = e.time(f)
	case fieldTTL:
		m.TTL, err = e.ttl(f)
	case fieldExpiresAt:
		m.ExpiresAt, err = e.time(f)
	case fieldPriority:
		m.Priority, err = e.priority()
	case fieldOptions:
		m.Options, err = e.options()
	}
	return err
}

// checkPairs holds what can't be given together, or must be given.
func (e *envelope) checkPairs() error {
	if e.given&whenFields == 0 {
		return core.Invalidf("deliver_at", "is missing; set it or delay")
	}
	for _, pair := range [...][2]field{{fieldDelay, fieldDeliverAt}, {fieldTTL, fieldExpiresAt},
		{fieldKey, fieldKeyBase64}, {fieldBody, fieldBodyBase64}} {
		if e.given&pair[0] != 0 && e.given&pair[1] != 0 {
			return core.Invalidf(pair[1].String(), "can't be used together with %s", pair[0])
		}
	}
	return nil
}

// textBytes reads a string that points into the text.
func (e *envelope) textBytes(f field) ([]byte, error) {
	if c := e.peek(); c != '"' && c != jsontext.KindInvalid {
		return nil, core.Invalidf(f.String(), "must be a string")
	}
	return e.str()
}

// name reads a string that must not be empty.
func (e *envelope) name(f field) (string, error) {
	text, err := e.textBytes(f)
	if err == nil && len(text) == 0 {
		return "", core.Invalidf(f.String(), "is empty")
	}
	return string(text), err
}

func (e *envelope) base64(f field) ([]byte, error) {
	text, err := e.textBytes(f)
	if err != nil {
		return nil, err
	}
	return decodeBase64(f.String(), string(text))
}

// decodeBase64 takes the standard alphabet with its padding, and nothing else.
func decodeBase64(field, text string) ([]byte, error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return nil, core.Invalidf(field, "is not base64 with padding")
	}
	return raw, nil
}

// body is a string's text, or any other JSON as it stands.
func (e *envelope) body() ([]byte, error) {
	if e.null() {
		return nil, nil
	}
	if e.peek() == '"' {
		return e.str()
	}
	return e.value()
}

func (e *envelope) duration(f field) (time.Duration, error) {
	if e.peek() == '0' {
		return 0, core.Invalidf(f.String(), `must be a string with a unit, such as "90s", not a number`)
	}
	text, err := e.textBytes(f)
	if err != nil {
		return 0, err
	}
	return durationField(f.String(), string(text))
}

func durationField(name, text string) (time.Duration, error) {
	d, err := core.ParseDuration(text)
	if err != nil {
		return 0, core.Invalidf(name, "%s", err)
	}
	return d, nil
}

func (e *envelope) ttl(f field) (time.Duration, error) {
	d, err := e.duration(f)
	if err != nil {
		return 0, err
	}
	return d, checkTTL(d)
}

// checkTTL refuses zero, which core would take for none.
func checkTTL(d time.Duration) error {
	if d == 0 {
		return core.Invalidf("ttl", "must be more than zero")
	}
	return nil
}

func (e *envelope) time(f field) (time.Time, error) {
	text, err := e.textBytes(f)
	if err != nil {
		return time.Time{}, err
	}
	return timeField(f.String(), string(text))
}

func timeField(name, text string) (time.Time, error) {
	t, err := core.ParseTime(text)
	if err != nil {
		return time.Time{}, core.Invalidf(name, "%s", err)
	}
	return t, nil
}

func (e *envelope) priority() (int, error) {
	text, err := e.value()
	if err != nil {
		return 0, err
	}
	return priorityField(string(text))
}

// priorityField takes one digit: there is no higher priority.
func priorityField(text string) (int, error) {
	if len(text) != 1 || text[0] < '0' || text[0] > '0'+core.MaxPriority {
		return 0, core.Invalidf("priority", "must be a whole number from 0 to %d", core.MaxPriority)
	}
	return int(text[0] - '0'), nil
}

func (e *envelope) options() (map[string]string, error) {
	if e.peek() != '{' {
		return nil, core.Invalidf("options", "must be an object")
	}
	options := make(map[string]string)
	err := e.object(func(name []byte) error {
		option := string(name)
		if _, twice := options[option]; twice {
			return core.Invalidf("options", "have the name %s twice", echo(option))
		}
		if len(options) == core.MaxOptions {
			return core.Invalidf("options", "are more than %d", core.MaxOptions)
		}
		if e.peek() != '"' {
			return core.Invalidf("options", "must have strings for values")
		}
		value, err := e.str()
		options[option] = string(value)
		return err
	})
	return options, err
}
