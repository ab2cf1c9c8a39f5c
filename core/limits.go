package core

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits bounds what Accept accepts. A zero field means its default.
type Limits struct {
	MaxBody        int           // bytes of Message.Body; default 256 KiB
	MaxHeaders     int           // number of headers; default 64
	MaxHeaderBytes int           // bytes of all names and values together; default 8 KiB
	MaxDelay       time.Duration // from now to DeliverAt and to ExpiresAt; default 365 days
	MaxHops        int           // how often a message may be published again after it was delivered; default 1000
	MaxPast        time.Duration // how long ago DeliverAt may be; default 24 hours, negative is no limit
}

// Limits that are not configurable, because they are part of the stored format or
// common to the brokers.
const (
	MaxIDLen     = 128
	MaxTopicLen  = 255
	MaxKeyLen    = 1024
	MaxOptions   = 32
	maxSinkLen   = 64
	maxHeaderLen = 255
	maxOptionLen = 1024
)

// InvalidError reports why a message can't be accepted. The producer has to change the
// message; the same message is refused again.
type InvalidError struct {
	Field  string // as in the HTTP API: deliver_at, headers, ...
	Reason string // in lower case; quotes at most 64 bytes of the message
	// TooLarge is set if a size limit is exceeded.
	TooLarge bool
}

func (e *InvalidError) Error() string { return e.Field + ": " + e.Reason }

// Invalidf returns an InvalidError with a formatted reason.
func Invalidf(field, format string, args ...any) *InvalidError {
	return &InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

func tooLarge(field, format string, args ...any) *InvalidError {
	e := Invalidf(field, format, args...)
	e.TooLarge = true
	return e
}

// withDefaults fills in the zero fields.
func (l Limits) withDefaults() Limits {
	l.MaxBody = cmp.Or(l.MaxBody, 256<<10)
	l.MaxHeaders = cmp.Or(l.MaxHeaders, 64)
	l.MaxHeaderBytes = cmp.Or(l.MaxHeaderBytes, 8<<10)
	l.MaxHops = cmp.Or(l.MaxHops, 1000)
	l.MaxDelay = cmp.Or(l.MaxDelay, 365*24*time.Hour)
	l.MaxPast = cmp.Or(l.MaxPast, 24*time.Hour)
	return l
}

// Check returns an *InvalidError for the first rule that m breaks, or nil. now is used
// only to bound times, not to decide what is due.
func (l Limits) Check(m *Message, now time.Time) error {
	l = l.withDefaults()
	err := checkNames(m)
	if err == nil {
		err = l.checkSizes(m)
	}
	if err == nil {
		err = checkHeaderNames(m)
	}
	if err == nil && len(m.Options) > 0 {
		err = checkOptions(m)
	}
	if err == nil {
		err = l.checkTimes(m, now)
	}
	if err == nil {
		return nil // a nil *InvalidError would not be a nil error
	}
	return err
}

func checkNames(m *Message) *InvalidError {
	if m.ID != "" {
		if err := CheckID(m.ID); err != nil {
			return err
		}
	}
	if err := CheckSinkName(m.Sink); err != nil {
		return err
	}
	if m.Priority < 0 || m.Priority > MaxPriority {
		return Invalidf("priority", "must be 0 to %d", MaxPriority)
	}
	return checkTopic(m.Topic)
}

const (
	alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	nameChars    = alphanumeric + "._-"
	idChars      = alphanumeric + "._:@/+=~-"
)

// CheckID reports whether id can name a message: 1 to MaxIDLen characters of
// A-Z a-z 0-9 . _ : @ / + = ~ -, and neither "." nor "..".
func CheckID(id string) *InvalidError {
	switch {
	case id == "":
		return Invalidf("id", "is missing")
	case len(id) > MaxIDLen:
		return Invalidf("id", "is longer than %d bytes", MaxIDLen)
	case id == "." || id == ".." || !onlyOf(id, idChars):
		return Invalidf("id", "may hold A-Z a-z 0-9 . _ : @ / + = ~ - only")
	}
	return nil
}

// CheckSinkName reports whether name can name a sink: 1 to 64 characters
// of A-Z a-z 0-9 . _ -, of which the first is a letter or digit.
func CheckSinkName(name string) *InvalidError {
	switch {
	case name == "":
		return Invalidf("sink", "is missing")
	case len(name) > maxSinkLen:
		return Invalidf("sink", "is longer than %d bytes", maxSinkLen)
	case !onlyOf(name[:1], alphanumeric) || !onlyOf(name, nameChars):
		return Invalidf("sink", "may hold A-Z a-z 0-9 . _ - only and begins with a letter or digit")
	}
	return nil
}

// checkTopic holds what every broker agrees on; the sink's Check narrows it.
func checkTopic(topic string) *InvalidError {
	switch {
	case topic == "":
		return Invalidf("topic", "is missing")
	case len(topic) > MaxTopicLen:
		return Invalidf("topic", "is longer than %d bytes", MaxTopicLen)
	case strings.ContainsFunc(topic, func(r rune) bool { return r <= ' ' || r > '~' }):
		return Invalidf("topic", "may hold printable ASCII without spaces only")
	}
	return nil
}

func onlyOf(s, allowed string) bool {
	for i := range len(s) {
		if strings.IndexByte(allowed, s[i]) < 0 {
			return false
		}
	}
	return true
}

func (l Limits) checkSizes(m *Message) *InvalidError {
	if len(m.Body) > l.MaxBody {
		return tooLarge("body", "is larger than %d bytes", l.MaxBody)
	}
	if len(m.Key) > MaxKeyLen {
		return tooLarge("key", "is longer than %d bytes", MaxKeyLen)
	}
	headers := m.ownHeaders()
	if len(headers) > l.MaxHeaders {
		return tooLarge("headers", "are more than %d", l.MaxHeaders)
	}
	total := 0
	for _, h := range headers {
		total += len(h.Name) + len(h.Value)
	}
	if total > l.MaxHeaderBytes {
		return tooLarge("headers", "are larger than %d bytes together", l.MaxHeaderBytes)
	}
	return nil
}

func checkHeaderNames(m *Message) *InvalidError {
	for _, h := range m.ownHeaders() {
		switch {
		case h.Name == "":
			return Invalidf("headers", "have an empty name")
		case len(h.Name) > maxHeaderLen:
			return tooLarge("headers", "have a name longer than %d bytes", maxHeaderLen)
		case !utf8.ValidString(h.Name) || strings.ContainsFunc(h.Name, unicode.IsControl):
			return Invalidf("headers", "have a name with control characters or invalid UTF-8")
		case IsReservedHeader(h.Name):
			return Invalidf("headers", "have the name %q, which is reserved", Shorten(h.Name, 64))
		}
	}
	return nil
}

// IsReservedHeader reports whether name has HeaderPrefix, in any case and with
// '_' for '-', so that only delaybridge may write it.
func IsReservedHeader(name string) bool {
	return len(name) >= len(HeaderPrefix) &&
		strings.EqualFold(strings.ReplaceAll(name[:len(HeaderPrefix)], "_", "-"), HeaderPrefix)
}

func checkOptions(m *Message) *InvalidError {
	if len(m.Options) > MaxOptions {
		return tooLarge("options", "are more than %d", MaxOptions)
	}
	for name, value := range m.Options {
		if name == "" || len(name) > maxSinkLen || !onlyOf(name, nameChars) {
			return Invalidf("options", "have a name that is empty, longer than %d bytes, or holds other than A-Z a-z 0-9 . _ -", maxSinkLen)
		}
		if len(value) > maxOptionLen {
			return tooLarge("options."+name, "is longer than %d bytes", maxOptionLen)
		}
	}
	_, err := RetryPolicy{}.override(m.Options)
	return err
}

func (l Limits) checkTimes(m *Message, now time.Time) *InvalidError {
	switch {
	case m.Delay < 0:
		return Invalidf("delay", "must not be negative")
	case m.Delay > l.MaxDelay:
		return Invalidf("delay", "is more than %s", l.MaxDelay)
	case !m.DeliverAt.IsZero() && m.Delay != 0:
		return Invalidf("delay", "can't be used together with deliver_at")
	case !m.DeliverAt.IsZero() && m.DeliverAt.After(now.Add(l.MaxDelay)):
		return Invalidf("deliver_at", "is more than %s ahead", l.MaxDelay)
	case !m.DeliverAt.IsZero() && l.MaxPast >= 0 && m.DeliverAt.Before(now.Add(-l.MaxPast)):
		return Invalidf("deliver_at", "is more than %s ago", l.MaxPast)
	}
	return l.checkExpiry(m, now)
}

func (l Limits) checkExpiry(m *Message, now time.Time) *InvalidError {
	due := now.Add(m.Delay)
	if !m.DeliverAt.IsZero() {
		due = m.DeliverAt
	}
	switch {
	case m.TTL < 0:
		return Invalidf("ttl", "must not be negative")
	case !m.ExpiresAt.IsZero() && m.TTL != 0:
		return Invalidf("ttl", "can't be used together with expires_at")
	case m.TTL > 0 && !now.Add(m.TTL).After(due):
		return Invalidf("ttl", "ends before the message is due")
	case !m.ExpiresAt.IsZero() && (!m.ExpiresAt.After(due) || !m.ExpiresAt.After(now)):
		return Invalidf("expires_at", "is not after the time when the message is due")
	case m.TTL > 2*l.MaxDelay, m.ExpiresAt.After(now.Add(2 * l.MaxDelay)):
		return Invalidf("expires_at", "is more than %s ahead", 2*l.MaxDelay)
	}
	return nil
}

// Shorten truncates s to at most n bytes, at a character boundary.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
