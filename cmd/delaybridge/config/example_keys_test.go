package config

import (
	"errors"
	"strings"
	"testing"
)

// TestExampleHasEveryKey walks the table: each key is in config.example.yaml,
// with its default and a comment.
func TestExampleHasEveryKey(t *testing.T) {
	c, err := decode(exampleText(t))
	if err != nil {
		t.Fatal(err)
	}
	options := Options{SinkTypes: []string{"amqp", "console", "kafka", "rocketmq"}}
	checkExample(t, c.source, "", new(Config).fields(options))
	checkExample(t, c.source, "sinks.console", new(Sink).fields(options))
}

func checkExample(t *testing.T, s *source, path string, fields []field) {
	t.Helper()
	for _, f := range fields {
		full := join(path, f.name)
		p, ok := s.places[full]
		if !ok {
			t.Errorf("%s is missing", full)
			continue
		}
		if !strings.Contains(comment(s.lines, p.key.Position.Line-1), f.doc) {
			t.Errorf("%s has no comment with: %s", full, f.doc)
		}
		if f.set != nil && f.def != "" {
			if p.value.Value != f.def {
				t.Errorf("%s is %q, the default is %q", full, p.value.Value, f.def)
			}
			if err := f.set(f.def); err != nil {
				t.Errorf("the default of %s: %v", full, err)
			}
		}
		checkExample(t, s, full, f.fields)
	}
}

// comment returns the comments that go with a line: beside it, and above or
// below it without a key between.
func comment(lines []string, n int) string {
	_, text, _ := strings.Cut(lines[n], "#")
	for _, step := range []int{-1, 1} {
		for i := n + step; i >= 0 && i < len(lines) && strings.HasPrefix(strings.TrimSpace(lines[i]), "#"); i += step {
			_, more, _ := strings.Cut(lines[i], "#")
			text += " " + more
		}
	}
	return strings.Join(strings.Fields(text), " ")
}

// FuzzDecode: whatever the file, there is a configuration or a list of faults.
func FuzzDecode(f *testing.F) {
	f.Add(exampleText(f))
	f.Add(good)
	f.Add("a: &x [1, {b: *x}]\n<<: *x\n? - c\n: |\n  d\n")
	f.Add("store: {redis: {url: \"${A:-redis://h}\", db: 0x1, tls: {}}}\nsinks: {a: {type: console, config: {x: !!str 1}}}\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := decode(text)
		_, isFaults := errors.AsType[Faults](err)
		if (c == nil) == (err == nil) || err != nil && !isFaults {
			t.Errorf("got %v and %v", c, err)
		}
	})
}
