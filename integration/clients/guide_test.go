//go:build unix

package clients

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	command = regexp.MustCompile(`<!-- run: (\w+) -->\n\n((?:    .*\n)+)`)
	part    = regexp.MustCompile("(?ms)^```\\w+\n(.*?)^```$")
)

// readGuide returns the commands of a page of docs/clients, by name, and the parts of its
// program, for a bridge at url.
func readGuide(t *testing.T, page, url string) (commands map[string]string, parts []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/clients/" + page)
	if err != nil {
		t.Fatal(err)
	}
	guide := strings.NewReplacer("http://127.0.0.1:7420", url, "~/delaybridge", absolute(t, "../..")).Replace(string(text))
	commands = map[string]string{}
	for _, m := range command.FindAllStringSubmatch(guide, -1) {
		commands[m[1]] = m[2]
	}
	for _, m := range part.FindAllStringSubmatch(guide, -1) {
		parts = append(parts, m[1])
	}
	return commands, parts
}

func absolute(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// wantLines looks for lines that match, each as a whole.
func wantLines(t *testing.T, out string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !regexp.MustCompile("(?m)^" + line + "$").MatchString(out) {
			t.Errorf("no line matches %s:\n%s", line, out)
		}
	}
}
