package core

import (
	"strconv"
	"strings"
	"testing"
)

// textFields reads name=value pairs, where either may be quoted.
func textFields(t *testing.T, line string) map[string]string {
	t.Helper()
	fields := make(map[string]string)
	for line != "" {
		var name, value string
		name, line = textWord(t, line, "=")
		line = strings.TrimPrefix(line, "=")
		value, line = textWord(t, line, " ")
		line = strings.TrimPrefix(line, " ")
		if _, twice := fields[name]; twice {
			t.Errorf("%s appears twice", name)
		}
		fields[name] = value
	}
	return fields
}

// textWord reads up to one of the ends, or a quoted word.
func textWord(t *testing.T, line, ends string) (word, rest string) {
	t.Helper()
	if quoted, err := strconv.QuotedPrefix(line); err == nil {
		word, err = strconv.Unquote(quoted)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		return word, line[len(quoted):]
	}
	at := strings.IndexAny(line, ends)
	if at < 0 {
		at = len(line)
	}
	return line[:at], line[at:]
}
