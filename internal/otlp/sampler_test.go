package otlp

import (
	"fmt"
	"math"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/delaybridge/delaybridge/core"
)

// The sampler decides as that of the library does by the same variables, about messages
// that have a trace.
func TestSamplerIsThatOfTheLibrary(t *testing.T) {
	third := sdktrace.TraceIDRatioBased(1.0 / 3)
	for name, library := range map[string]sdktrace.Sampler{
		"": sdktrace.ParentBased(sdktrace.AlwaysSample()), "always_on": sdktrace.AlwaysSample(), "always_off": sdktrace.NeverSample(),
		"traceidratio": third, "parentbased_traceidratio": sdktrace.ParentBased(third),
		"parentbased_always_on": sdktrace.ParentBased(sdktrace.AlwaysSample()), "parentbased_always_off": sdktrace.ParentBased(sdktrace.NeverSample()),
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_TRACES_SAMPLER", name)
			t.Setenv("OTEL_TRACES_SAMPLER_ARG", fmt.Sprint(1.0/3))
			s, err := newSampler(nil)
			if err != nil {
				t.Fatal(err)
			}
			for n := range 200 {
				id := trace.TraceID{1, 15: byte(n)}
				for i := range 7 { // as random IDs are
					id[8+i] = byte(n * (31 + 2*i))
				}
				header := fmt.Sprintf("00-%s-00f067aa0ba902b7-%02d", id, n%2)
				m := &core.Message{Headers: []core.Header{{Name: "traceparent", Value: []byte(header)}}}
				p := producerOf(m)
				want := library.ShouldSample(sdktrace.SamplingParameters{ParentContext: trace.ContextWithRemoteSpanContext(t.Context(), p), TraceID: id}).Decision == sdktrace.RecordAndSample
				read, ok := m.Trace()
				if got := s.takes(m, read, ok); got != want {
					t.Fatalf("%s: %v, want %v", header, got, want)
				}
			}
		})
	}
}

// Of messages without a trace, a share is sampled, by ID.
func TestSamplerOfMessagesWithoutTrace(t *testing.T) {
	for _, ratio := range []float64{0, 0.01, 0.5, 1} {
		s, err := newSampler(&ratio)
		if err != nil {
			t.Fatal(err)
		}
		const all = 100_000
		count := 0
		for n := range all {
			if s.takes(&core.Message{ID: fmt.Sprintf("0000000000000000-%06d", n)}, core.Trace{}, false) {
				count++
			}
		}
		if want := ratio * all; math.Abs(float64(count)-want) > 5*math.Sqrt(want*(1-ratio)) {
			t.Errorf("%d of %d are sampled at %v", count, all, ratio)
		}
	}
}
