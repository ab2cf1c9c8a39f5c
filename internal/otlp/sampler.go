package otlp

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/delaybridge/delaybridge/core"
)

// sampler decides of which messages there are spans, before any is made, by the rules of
// the library's samplers.
type sampler struct {
	byFlag bool    // of the producer's trace, if the message has one
	ratio  float64 // of the others
}

// newSampler takes the ratio of the configuration, or if that is nil what the environment
// says.
func newSampler(ratio *float64) (sampler, error) {
	if ratio != nil {
		return sampler{true, *ratio}, nil
	}
	name := strings.ToLower(strings.TrimSpace(os.Getenv("OTEL_TRACES_SAMPLER")))
	kind, byFlag := strings.CutPrefix(name, "parentbased_")
	switch kind {
	case "":
		return sampler{true, 1}, nil
	case "always_on":
		return sampler{byFlag, 1}, nil
	case "always_off":
		return sampler{byFlag, 0}, nil
	case "traceidratio":
		given, err := ratioOf(os.Getenv("OTEL_TRACES_SAMPLER_ARG"))
		return sampler{byFlag, given}, err
	}
	return sampler{}, fmt.Errorf("OTEL_TRACES_SAMPLER: %q is not supported; set always_on, always_off or traceidratio, maybe with parentbased_ in front", name)
}

func ratioOf(text string) (float64, error) {
	if text == "" {
		return 1, nil
	}
	ratio, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(ratio >= 0 && ratio <= 1) {
		return 0, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG: %q is not a number from 0 to 1", text)
	}
	return ratio, nil
}

// takes decides about a message whose trace has been read; ok tells that it has one.
func (s sampler) takes(m *core.Message, trace core.Trace, ok bool) bool {
	switch {
	case ok && s.byFlag:
		return trace.Sampled
	case s.ratio == 0 || s.ratio == 1:
		return s.ratio == 1
	case ok:
		low, _ := strconv.ParseUint(string(trace.ID[16:]), 16, 64) // hexadecimal digits
		return s.within(low)
	}
	return s.within(hash(m.ID))
}

// within takes the share of all numbers that the ratio is.
func (s sampler) within(n uint64) bool { return float64(n) < s.ratio*math.MaxUint64 }

// hash is the same in every instance, so that of a message without a trace there are
// the spans of every step or none. It is FNV-1a, finished as MurmurHash3 is, since IDs
// often differ in the last character only.
func hash(id string) uint64 {
	h := uint64(14695981039346656037)
	for n := range len(id) {
		h = (h ^ uint64(id[n])) * 1099511628211
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
