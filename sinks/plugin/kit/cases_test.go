package kit

import (
	"os"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/sinks/suite"
)

// TestGuideExplainsTheCases: docs/plugins.md has a line for each case of the suite, by
// its number and name.
func TestGuideExplainsTheCases(t *testing.T) {
	text, err := os.ReadFile("../../../docs/plugins.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range suite.Cases() {
		number, name, _ := strings.Cut(c.Name, " ")
		if plain := strings.ReplaceAll(string(text), " * | ", " | "); !strings.Contains(plain, "\n| "+number+" | "+name+" | ") {
			t.Errorf("there is no line for %s", c.Name)
		}
	}
}
