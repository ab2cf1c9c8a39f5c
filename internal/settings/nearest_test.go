package settings

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	known := []string{"max_attempts", "max_delay", "listen", "tokens", "initial", "url"}
	tests := map[string]string{
		"maxDelay": "max_delay", "max-delay": "max_delay", "lsiten": "listen", "token": "tokens", "intial": "initial",
		"zebra": "", "": "", "ulr": "url", strings.Repeat("x", 100): "",
	}
	for slip, want := range tests {
		if got := Nearest(slip, known); got != want {
			t.Errorf("%q: got %q, want %q", slip, got, want)
		}
	}
}
