package dialect

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// parser reads a header's value. The error reads on from the header's name.
type parser func(raw any) (value, error)

var (
	errEpoch    = errors.New("is not a time from 1970 to 9999")
	errNegative = errors.New("must not be negative")
	errZero     = errors.New("must be more than zero")
)

// lastEpoch is the last second of the year 9999.
const lastEpoch = 253402300799

func checkEpoch(t time.Time) (value, error) {
	if s := t.Unix(); s < 0 || s > lastEpoch {
		return value{}, errEpoch
	}
	return value{time: t}, nil
}

// parseTime reads RFC 3339, or a value of the protocol's own type for times.
func parseTime(raw any) (value, error) {
	if t, ok := timeOf(raw); ok {
		return checkEpoch(t)
	}
	text, err := textOf(raw)
	if err != nil {
		return value{}, err
	}
	t, err := core.ParseTime(string(text))
	return value{time: t}, err
}

// epoch reads how many units after 1970, or a value of the protocol's own type
// for times.
func epoch(unit time.Duration) parser {
	return func(raw any) (value, error) {
		if t, ok := timeOf(raw); ok {
			return checkEpoch(t)
		}
		n, err := numberOf(raw)
		if err != nil {
			return value{}, err
		}
		perSecond := int64(time.Second / unit)
		if n < 0 || n/perSecond > lastEpoch {
			return value{}, errEpoch
		}
		return checkEpoch(time.Unix(n/perSecond, n%perSecond*int64(unit)).UTC())
	}
}

// count reads a number of units.
func count(unit time.Duration) parser {
	return func(raw any) (value, error) {
		n, err := numberOf(raw)
		switch {
		case err != nil:
			return value{}, err
		case n < 0:
			return value{}, errNegative
		case n > math.MaxInt64/int64(unit):
			return value{}, errLong
		}
		return value{span: time.Duration(n) * unit}, nil
	}
}

// orOver takes a negative number for a delay that is over.
func orOver(parse parser) parser {
	return func(raw any) (value, error) {
		v, err := parse(raw)
		if errors.Is(err, errNegative) {
			return value{over: true}, nil
		}
		return v, err
	}
}

func parseDuration(raw any) (value, error) {
	text, err := textOf(raw)
	if err != nil {
		return value{}, err
	}
	d, err := core.ParseDuration(string(text))
	return value{span: d}, err
}

// positive refuses zero, which core would take for none.
func positive(parse parser) parser {
	return func(raw any) (value, error) {
		v, err := parse(raw)
		if err == nil && v.span == 0 {
			err = errZero
		}
		return v, err
	}
}

// levels are RocketMQ's own, unless its messageDelayLevel is set otherwise.
var levels = [...]time.Duration{
	time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second,
	1 * time.Minute, 2 * time.Minute, 3 * time.Minute, 4 * time.Minute, 5 * time.Minute,
	6 * time.Minute, 7 * time.Minute, 8 * time.Minute, 9 * time.Minute, 10 * time.Minute,
	20 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour,
}

func parseLevel(raw any) (value, error) {
	n, err := numberOf(raw)
	switch {
	case err != nil:
		return value{}, err
	case n == 0:
		return value{none: true}, nil
	case n < 0 || n > int64(len(levels)):
		return value{}, errors.New("must be a level of 1 to 18, or 0 for none")
	}
	return value{span: levels[n-1]}, nil
}

// parseAt reads the one form of a NATS schedule that is not a repetition.
func parseAt(raw any) (value, error) {
	text, err := textOf(raw)
	if err != nil {
		return value{}, err
	}
	at, ok := strings.CutPrefix(string(text), "@at ")
	if !ok {
		return value{}, errors.New(`must be "@at" and a time: a message is delivered once`)
	}
	t, err := core.ParseTime(strings.TrimLeft(at, " "))
	return value{time: t}, err
}

// parseNATSTTL reads a duration, whole seconds, or "never".
func parseNATSTTL(raw any) (value, error) {
	if text, err := textOf(raw); err == nil && string(text) == "never" {
		return value{none: true}, nil
	}
	if v, err := positive(count(time.Second))(raw); !errors.Is(err, errNumber) {
		return v, err
	}
	return positive(parseDuration)(raw)
}

// maxBigEndian is how many bytes a number of Java's long has at most.
const maxBigEndian = 8

// parseBigEndian reads milliseconds since 1970 as the bytes of a number.
func parseBigEndian(raw any) (value, error) {
	if at, ok := raw.(*[]byte); ok {
		raw = *at
	}
	bytes, ok := raw.([]byte)
	if !ok || len(bytes) == 0 || len(bytes) > maxBigEndian {
		return value{}, errors.New("must be one to eight bytes of a big-endian number, not text")
	}
	var padded [maxBigEndian]byte
	if bytes[0]&0x80 != 0 {
		return value{}, errEpoch // it is negative
	}
	copy(padded[maxBigEndian-len(bytes):], bytes)
	return epoch(time.Millisecond)(int64(binary.BigEndian.Uint64(padded[:])))
}

// parseName reads text that must not be empty.
func parseName(raw any) (value, error) {
	v, err := parseText(raw)
	if err == nil && len(v.text) == 0 {
		err = errors.New("is empty")
	}
	return v, err
}

func parseText(raw any) (value, error) {
	text, err := textOf(raw)
	return value{text: text}, err
}

// parsePriority takes a number or its digit: there is no higher priority.
func parsePriority(raw any) (value, error) {
	n, err := numberOf(raw)
	if err == nil && (n < 0 || n > core.MaxPriority) {
		err = errors.New("must be 0 to 9")
	}
	return value{number: int(n)}, err
}

// refuse is for headers that ask for what there is not.
func refuse(reason string) parser {
	err := errors.New(reason)
	return func(any) (value, error) { return value{}, err }
}
