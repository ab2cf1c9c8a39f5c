package core

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

const (
	day  = 24 * time.Hour
	week = 7 * day
)

var errLong = errors.New("is longer than can be counted")

// ParseDuration parses a duration in Go's form, with the additional units d and w (24
// and 168 hours), or in ISO 8601 form without years and months. It accepts no sign and
// no bare number, and rounds up to nanoseconds. The text of an error continues after
// the field's name.
func ParseDuration(text string) (time.Duration, error) {
	switch {
	case text == "":
		return 0, errors.New("is empty")
	case strings.HasPrefix(text, "-") || strings.HasPrefix(text, "+"):
		return 0, errors.New("must not have a sign")
	case strings.HasPrefix(text, "P"):
		return parseISO(text[1:])
	case strings.Trim(text, "0123456789.") == "":
		return 0, fmt.Errorf(`has no unit; for seconds write "%ss"`, clip(text))
	}
	return parseUnits(text, false, func(unit string) (time.Duration, error) {
		if size, ok := durationUnits[unit]; ok {
			return size, nil
		}
		return 0, fmt.Errorf("has the unit %s; the units are ns, us, ms, s, m, h, d and w", quote(unit))
	})
}

var durationUnits = map[string]time.Duration{
	"ns": time.Nanosecond, "us": time.Microsecond, "µs": time.Microsecond, "μs": time.Microsecond, "ms": time.Millisecond,
	"s": time.Second, "m": time.Minute, "h": time.Hour, "d": day, "w": week,
}

func quote(unit string) string { return strconv.QuoteToASCII(Shorten(unit, 16)) }

// clip keeps a hint short.
func clip(number string) string { return number[:min(len(number), 20)] }

// parseISO reads what follows the P.
func parseISO(text string) (time.Duration, error) {
	date, clock, hasClock := strings.Cut(text, "T")
	if date == "" && clock == "" || hasClock && clock == "" {
		return 0, errors.New("is not an ISO 8601 duration such as P1DT2H")
	}
	days, err := parseUnits(date, true, func(unit string) (time.Duration, error) {
		switch unit {
		case "W":
			return week, nil
		case "D":
			return day, nil
		case "Y", "M":
			return 0, errors.New("has years or months, which have no fixed length; write days")
		}
		return 0, fmt.Errorf("has %s where ISO 8601 has W or D", quote(unit))
	})
	if err != nil {
		return 0, err
	}
	rest, err := parseUnits(clock, true, func(unit string) (time.Duration, error) {
		switch unit {
		case "H":
			return time.Hour, nil
		case "M":
			return time.Minute, nil
		case "S":
			return time.Second, nil
		}
		return 0, fmt.Errorf("has %s where ISO 8601 has H, M or S", quote(unit))
	})
	if err != nil {
		return 0, err
	}
	return sum(days, rest)
}

// parseUnits adds up numbers with units; in order: from the longest unit down.
func parseUnits(text string, inOrder bool, sizeOf func(unit string) (time.Duration, error)) (time.Duration, error) {
	total, last := time.Duration(0), time.Duration(math.MaxInt64)
	for text != "" {
		number := text[:len(text)-len(strings.TrimLeft(text, "0123456789."))]
		unit := text[len(number):]
		if end := strings.IndexAny(unit, "0123456789."); end >= 0 {
			unit = unit[:end]
		}
		text = text[len(number)+len(unit):]
		size, err := sizeOf(unit)
		if err != nil {
			return 0, err
		}
		if inOrder && size >= last {
			return 0, errors.New("has its units in the wrong order")
		}
		last = size
		part, err := multiply(number, size)
		if err != nil {
			return 0, err
		}
		if total, err = sum(total, part); err != nil {
			return 0, err
		}
	}
	return total, nil
}

func sum(a, b time.Duration) (time.Duration, error) {
	if a > math.MaxInt64-b {
		return 0, errLong
	}
	return a + b, nil
}

// multiply is number, a decimal fraction, times unit, rounded up.
func multiply(number string, unit time.Duration) (time.Duration, error) {
	whole, fraction, _ := strings.Cut(number, ".")
	if whole == "" && fraction == "" || strings.Contains(fraction, ".") {
		return 0, errors.New(`is not a duration such as "90s", "1h30m", "2d" or "P1DT2H"`)
	}
	n, _, err := decimal(strings.TrimLeft(whole, "0"))
	if err != nil || n > uint64(math.MaxInt64/unit) {
		return 0, errLong
	}
	part, scale, err := decimal(strings.TrimRight(fraction, "0"))
	if err != nil {
		return 0, errors.New("has too many digits after the point")
	}
	high, low := bits.Mul64(part, uint64(unit))
	rounded, rest := bits.Div64(high, low, scale) // part < scale, so it fits
	if rest > 0 {
		rounded++
	}
	return sum(time.Duration(n)*unit, time.Duration(rounded))
}

// decimal reads up to 18 digits; scale is ten to the power of their number.
func decimal(digits string) (value, scale uint64, err error) {
	if len(digits) > 18 {
		return 0, 0, errLong
	}
	scale = 1
	for _, c := range []byte(digits) {
		value, scale = value*10+uint64(c-'0'), scale*10
	}
	return value, scale, nil
}

// ParseTime parses an RFC 3339 time with an offset, from 1970 on. Unlike time.Parse, it
// refuses hours of one digit, decimal commas, offsets beyond a day and fractions finer than
// a nanosecond.
func ParseTime(text string) (time.Time, error) {
	const shape = "dddd-dd-ddTdd:dd:dd"
	bad := errors.New(`is not an RFC 3339 time with an offset, such as "2031-05-20T09:30:00Z"`)
	if len(text) <= len(shape) || !shaped(text[:len(shape)], shape) {
		return time.Time{}, bad
	}
	rest := text[len(shape):]
	if fraction, ok := strings.CutPrefix(rest, "."); ok {
		rest = strings.TrimLeft(fraction, "0123456789")
		switch digits := len(fraction) - len(rest); {
		case digits == 0:
			return time.Time{}, bad
		case digits > 9:
			return time.Time{}, errors.New("is finer than a nanosecond")
		}
	}
	if rest != "Z" && !(shaped(rest, "+dd:dd") || shaped(rest, "-dd:dd")) {
		return time.Time{}, bad
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || rest != "Z" && (rest[1:3] > "23" || rest[4:6] > "59") {
		return time.Time{}, errors.New("is not a time that exists")
	}
	if t.Unix() < 0 {
		return time.Time{}, errors.New("is before 1970")
	}
	return t, nil
}

// shaped reports whether text is like shape, in which d is any digit.
func shaped(text, shape string) bool {
	if len(text) != len(shape) {
		return false
	}
	for i := range len(shape) {
		digit := '0' <= text[i] && text[i] <= '9'
		if shape[i] == 'd' && !digit || shape[i] != 'd' && text[i] != shape[i] {
			return false
		}
	}
	return true
}
