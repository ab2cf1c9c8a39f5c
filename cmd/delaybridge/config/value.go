package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/internal/settings"
)

// valueError is what is wrong with a value, without the value itself: that may
// be a secret. hint is what was probably meant.
type valueError struct {
	code, text, hint string
}

func (e *valueError) Error() string { return e.text }

func wrongForm(text, hint string) error { return &valueError{"wrong-type", text, hint} }

// bounded makes a setter out of a parser and the bounds, written as values.
func bounded[T cmp.Ordered](dst *T, parse func(string) (T, error), lowest, highest string) func(string) error {
	return func(text string) error {
		v, err := parse(text)
		low, _ := parse(lowest)
		high, _ := parse(highest)
		switch {
		case errors.Is(err, errRange), err == nil && !(low <= v && v <= high):
			return &valueError{code: "out-of-range", text: outOfRange(lowest, highest)}
		case err != nil:
			return err
		}
		*dst = v
		return nil
	}
}

// errRange is for what can't even be represented.
var errRange = errors.New("out of range")

func outOfRange(lowest, highest string) string {
	if lowest == highest {
		return "must be " + lowest
	}
	return "must be " + lowest + " to " + highest
}

const durationForm = "is not a duration: write a number with a unit, such as 500ms, 30s, 5m, 12h or 7d"

// parseDuration reads what core.ParseDuration does. A negative one is a number
// out of range, not a slip of the pen.
func parseDuration(s string) (time.Duration, error) {
	if rest, negative := strings.CutPrefix(s, "-"); negative && rest != "" {
		return 0, errRange
	}
	d, err := core.ParseDuration(s)
	if err != nil {
		hint := ""
		if _, notNumber := strconv.ParseUint(s, 10, 32); notNumber == nil {
			hint = s + "s"
		}
		return 0, wrongForm(durationForm, hint)
	}
	return d, nil
}

var sizeParts = regexp.MustCompile(`^([0-9]+)(B|kB|KiB|MB|MiB|GB|GiB)$`)

var sizeUnits = map[string]int{
	"B": 1, "kB": 1000, "KiB": 1 << 10, "MB": 1000_000, "MiB": 1 << 20, "GB": 1000_000_000, "GiB": 1 << 30,
}

func parseSize(s string) (int, error) {
	parts := sizeParts.FindStringSubmatch(s)
	if parts == nil {
		return 0, wrongForm("is not a size: write a whole number with a unit, such as 512B, 64KiB or 4MiB", sizeHint(s))
	}
	n, err := strconv.Atoi(parts[1])
	if unit := sizeUnits[parts[2]]; err == nil && n <= math.MaxInt/unit {
		return n * unit, nil
	}
	return 0, errRange
}

// sizeHint guesses the unit from a number without one or in another case.
func sizeHint(s string) string {
	digits := strings.TrimRight(s, "BbKkMmGgIi")
	if _, err := strconv.Atoi(digits); err != nil || strings.HasPrefix(s, "-") {
		return ""
	}
	unit := strings.ToLower(s[len(digits):])
	return map[string]string{
		"": digits + "B", "b": digits + "B", "k": digits + "KiB", "kb": digits + "kB", "kib": digits + "KiB",
		"m": digits + "MiB", "mb": digits + "MB", "mib": digits + "MiB",
		"g": digits + "GiB", "gb": digits + "GB", "gib": digits + "GiB",
	}[unit]
}

func parseNumber(s string) (int, error) {
	n, err := strconv.Atoi(s)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, errRange
	case err != nil || !jsonNumber.MatchString(s):
		return 0, wrongForm("is not a whole number", "")
	}
	return n, nil
}

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

func parseDecimal(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	switch {
	case !jsonNumber.MatchString(s):
		return 0, wrongForm("is not a number", "")
	case err != nil:
		return 0, errRange
	}
	return v, nil
}

func parseBool(s string) (bool, error) {
	switch s {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	hint := map[string]string{"yes": "true", "on": "true", "y": "true", "1": "true", "true": "true",
		"no": "false", "off": "false", "n": "false", "0": "false", "false": "false"}[strings.ToLower(s)]
	return false, wrongForm("is neither true nor false", hint)
}

func knownValue(s string, known []string) error {
	if slices.Contains(known, s) {
		return nil
	}
	text := fmt.Sprintf("is not known; known are %s", strings.Join(known, ", "))
	return &valueError{code: "unknown-value", text: text, hint: settings.Nearest(s, known)}
}

// hasUserinfo reports whether s is a URL with a password in it.
func hasUserinfo(s string) bool {
	_, rest, ok := strings.Cut(s, "://")
	if !ok {
		return false
	}
	u, err := url.Parse(s)
	if err != nil {
		return strings.Contains(rest, "@")
	}
	_, password := u.User.Password()
	return password
}
