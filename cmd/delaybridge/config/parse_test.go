package config

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestHostileShapeIsRefusedAtOnce: without the bounds, some of these take hours.
func TestHostileShapeIsRefusedAtOnce(t *testing.T) {
	tests := map[string]struct{ text, code string }{
		"nested lists":      {"a: " + strings.Repeat("[", 200_000), "too-deep"},
		"nested sections":   {"a: " + strings.Repeat("{a: ", 50_000), "too-deep"},
		"nested dashes":     {strings.Repeat("- ", 10_000), "too-deep"},
		"nested questions":  {strings.Repeat("? ", 10_000), "too-deep"},
		"nested by indent":  {indented(400), "too-deep"},
		"many keys":         {strings.Repeat("k: v\n", 100_000), "too-large"},
		"aliases upon each": {"a: &a [x]\nb: &b [*a,*a]\nc: [*b,*b]\n", "unknown-key"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			_, err := decode(tt.text)
			faults, ok := errors.AsType[Faults](err)
			if !ok || faults[0].Code != tt.code {
				t.Errorf("got %.300v, want a fault %s", err, tt.code)
			}
			if took := time.Since(begin); took > 30*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
}

func indented(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}
