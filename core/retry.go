package core

import (
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// RetryPolicy defines how often and at which intervals a failed message is tried again.
// A zero field means its default. Intervals grow exponentially: min(Max,
// Initial·Multiplier^(attempt-1)), of which the fraction Jitter is random.
type RetryPolicy struct {
	Initial     time.Duration // wait after the first attempt; default 1 s
	Max         time.Duration // longest wait; default 5 min
	Multiplier  float64       // at least 1; default 2
	Jitter      float64       // 0 to 1, the random fraction of each wait; default 0.2, negative is none
	MaxAttempts int           // then the message is a dead letter; default 16
}

// Options of a message that override the sink's RetryPolicy.
const (
	OptionPrefix      = "retry."
	optionInitial     = OptionPrefix + "initial"
	optionMax         = OptionPrefix + "max"
	optionMultiplier  = OptionPrefix + "multiplier"
	optionJitter      = OptionPrefix + "jitter"
	optionMaxAttempts = OptionPrefix + "max_attempts"
)

// Bounds of RetryPolicy, wherever it is written.
const (
	minRetryWait     = time.Millisecond
	maxRetryWait     = 7 * 24 * time.Hour
	maxRetryGrowth   = 100
	maxRetryAttempts = 10_000
)

func (r RetryPolicy) withDefaults() RetryPolicy {
	r.Initial = cmp.Or(r.Initial, time.Second)
	r.Max = max(cmp.Or(r.Max, 5*time.Minute), r.Initial)
	r.Multiplier = cmp.Or(r.Multiplier, 2)
	r.Jitter = max(0, cmp.Or(r.Jitter, 0.2))
	r.MaxAttempts = cmp.Or(r.MaxAttempts, 16)
	return r
}

// wait is how long to wait after the given attempt, which counts from 1.
func (r RetryPolicy) wait(attempt int) time.Duration {
	full := min(float64(r.Max), float64(r.Initial)*math.Pow(r.Multiplier, float64(attempt-1)))
	return time.Duration(full * (1 - r.Jitter*rand.Float64()))
}

// Check returns an error if a field is out of bounds. Zero is allowed, as the default.
func (r RetryPolicy) Check() error {
	switch {
	case r.Initial != 0 && (r.Initial < minRetryWait || r.Initial > maxRetryWait):
		return Invalidf("initial", "must be %s to %s", minRetryWait, maxRetryWait)
	case r.Max != 0 && (r.Max < minRetryWait || r.Max > maxRetryWait):
		return Invalidf("max", "must be %s to %s", minRetryWait, maxRetryWait)
	case r.Multiplier != 0 && !(r.Multiplier >= 1 && r.Multiplier <= maxRetryGrowth):
		return Invalidf("multiplier", "must be 1 to %d", maxRetryGrowth)
	case !(r.Jitter <= 1):
		return Invalidf("jitter", "must be 0 to 1")
	case r.MaxAttempts < 0 || r.MaxAttempts > maxRetryAttempts:
		return Invalidf("max_attempts", "must be 1 to %d", maxRetryAttempts)
	}
	return nil
}

// override returns r as the options of a message change it.
func (r RetryPolicy) override(options map[string]string) (RetryPolicy, *InvalidError) {
	for _, name := range slices.Sorted(maps.Keys(options)) {
		if !strings.HasPrefix(name, OptionPrefix) {
			continue
		}
		if err := r.set(name, options[name]); err != nil {
			return r, Invalidf("options."+name, "%s", err.Reason)
		}
	}
	return r, nil
}

func (r *RetryPolicy) set(name, value string) *InvalidError {
	var err error
	switch name {
	case optionInitial:
		r.Initial, err = ParseDuration(value)
	case optionMax:
		r.Max, err = ParseDuration(value)
	case optionMultiplier:
		r.Multiplier, err = strconv.ParseFloat(value, 64)
	case optionJitter:
		r.Jitter, err = strconv.ParseFloat(value, 64)
	case optionMaxAttempts:
		r.MaxAttempts, err = strconv.Atoi(value)
	default:
		return Invalidf("", "is not known; known are initial, max, multiplier, jitter, max_attempts")
	}
	if err != nil {
		return Invalidf("", "is not a %s", map[bool]string{true: "number", false: "duration such as 30s"}[name != optionInitial && name != optionMax])
	}
	return r.checkSet(name)
}

// checkSet is Check for a field that was written out, where zero is no default.
func (r *RetryPolicy) checkSet(name string) *InvalidError {
	zero := name == optionInitial && r.Initial == 0 || name == optionMax && r.Max == 0 ||
		name == optionMultiplier && r.Multiplier == 0 || name == optionMaxAttempts && r.MaxAttempts == 0
	if zero {
		return Invalidf("", "must not be zero")
	}
	if name == optionJitter && !(r.Jitter >= 0) {
		return Invalidf("", "must be 0 to 1")
	}
	if name == optionJitter && r.Jitter == 0 {
		r.Jitter = -1 // none, where zero would mean the default
	}
	if err, ok := r.Check().(*InvalidError); ok {
		return err
	}
	return nil
}
