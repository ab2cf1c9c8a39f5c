package source

import (
	"strings"
	"testing"
)

// TestNamesAreBounded: whatever comes, little is kept.
func TestNamesAreBounded(t *testing.T) {
	names, buffer := make(Names), []byte("a")
	first := names.Intern(buffer)
	buffer[0] = 'b'
	if first != "a" || names.Intern([]byte("a")) != "a" {
		t.Errorf("interned %q", first)
	}
	long := strings.Repeat("n", maxNameLen+1)
	if got := names.Intern([]byte(long)); got != long || len(names) != 1 {
		t.Errorf("%d names are kept, and a long one is %d bytes", len(names), len(got))
	}
	for n := range 3 * maxNames {
		names.Intern([]byte(strings.Repeat("x", n%maxNameLen+1) + string(rune('0'+n/maxNameLen))))
	}
	if len(names) > maxNames {
		t.Errorf("%d names are kept", len(names))
	}
}
