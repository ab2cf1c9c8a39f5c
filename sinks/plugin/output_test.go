package plugin

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/delaybridge/delaybridge/integration/poll"
)

// said are the records of what a plugin printed, as level, text and fields.
func said(t *testing.T, j *journal) []string {
	var lines []string
	for _, r := range j.with(t, "plugin says") {
		line := fmt.Sprint(r["level"], " ", r["text"])
		if r["fields"] != nil {
			line += fmt.Sprint(" ", r["fields"])
		}
		if r["cut"] != nil {
			line += " cut"
		}
		lines = append(lines, line)
	}
	return lines
}

func TestLines(t *testing.T) {
	long := strings.Repeat("y", maxLine)
	tests := map[string]struct {
		writes []string
		want   []string
	}{
		"plain":     {[]string{"one\ntwo\r\n\n", "thr", "ee\n"}, []string{"INFO one", "INFO two", "INFO three"}},
		"no end":    {[]string{"one"}, []string{"INFO one"}},
		"hclog":     {[]string{`{"@level":"warn","@message":"slow\u001b","@module":"m","n":3,"b":"x\ny","a":{"c":1}}` + "\n"}, []string{`WARN slow\x1b map[a:{"c":1} b:x\ny n:3]`}},
		"trace":     {[]string{`{"@level":"trace","@message":"m"}` + "\n"}, []string{"DEBUG m"}},
		"odd level": {[]string{`{"@level":"loud","@message":"m"}` + "\n"}, []string{"INFO m"}},
		"not hclog": {[]string{`{"level":"error"}` + "\n", `{"@level":"error","@message":7}` + "\n", "{broken\n"}, []string{`INFO {"level":"error"}`, `INFO {"@level":"error","@message":7}`, "INFO {broken"}},
		"prefix":    {[]string{"[WARN] a\n[ERROR] b\n[DEBUG] c\n[x] d\n[unclosed\n"}, []string{"WARN [WARN] a", "ERROR [ERROR] b", "DEBUG [DEBUG] c", "INFO [x] d", "INFO [unclosed"}},
		"panic":     {[]string{"panic: x\n\tmain.go:1\n"}, []string{"ERROR panic: x", `ERROR \tmain.go:1`}},
		"python":    {[]string{"Traceback (most recent call last):\nTypeError\n"}, []string{"ERROR Traceback (most recent call last):", "ERROR TypeError"}},
		"control":   {[]string{"\x1b[31m\x00\xff\u202e\u2028\x7f\n"}, []string{`INFO \x1b[31m\x00\xff\u202e\u2028\x7f`}},
		"long":      {[]string{long + "z", strings.Repeat("z", 1<<20), "\nnext\n"}, []string{"INFO " + long + " cut", "INFO next"}},
		"full":      {[]string{long + "\n"}, []string{"INFO " + long}},
		"many":      {[]string{`{"@level":"info","@message":"m",` + manyFields(100) + "}\n"}, []string{"INFO m " + fmt.Sprint(firstFields(maxFields))}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			j := &journal{}
			s := (&output{log: j.log()}).stream(streamStderr)
			for _, w := range test.writes {
				if n, err := s.Write([]byte(w)); n != len(w) || err != nil {
					t.Fatal(n, err)
				}
			}
			s.end()
			if diff := cmp.Diff(test.want, said(t, j)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func manyFields(n int) string {
	fields := make([]string, n)
	for i := range fields {
		fields[i] = fmt.Sprintf(`"f%03d":1`, i)
	}
	return strings.Join(fields, ",")
}

func firstFields(n int) map[string]any {
	fields := make(map[string]any, n)
	for i := range n {
		fields[fmt.Sprintf("f%03d", i)] = "1"
	}
	return fields
}

func TestRateOfLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		out := &output{log: j.log()}
		stdout, stderr := out.stream(streamStdout), out.stream(streamStderr)
		for range 1000 {
			fmt.Fprintln(stdout, "o")
			fmt.Fprintln(stderr, "e")
		}
		if n := len(said(t, j)); n != linesPerSecond {
			t.Errorf("printed %d", n)
		}
		dropped := func() string {
			var all []string
			for _, r := range j.with(t, "plugin printed too many lines, some were dropped") {
				all = append(all, fmt.Sprint(r["lines"]))
			}
			return strings.Join(all, " ")
		}
		out.settle()
		if dropped() != "" {
			t.Errorf("told early: %s", dropped())
		}
		time.Sleep(time.Second)
		fmt.Fprintln(stdout, "o")
		if n := len(said(t, j)); n != linesPerSecond+1 || dropped() != "1900" {
			t.Errorf("printed %d, dropped %s", n, dropped())
		}
		for range 150 {
			fmt.Fprintln(stdout, "o")
		}
		time.Sleep(time.Second)
		out.settle()
		out.settle()
		if dropped() != "1900 51" {
			t.Errorf("dropped %s", dropped())
		}
	})
}

// TestPrints: what comes from a real plugin on its three ways.
func TestPrints(t *testing.T) {
	e := openEvil(t, "prints")
	poll.Until(t, slack, "lines", func() bool { return len(e.journal.with(t, "plugin says")) >= 9 })
	got := strings.Join(said(t, e.journal), "\n")
	for _, want := range []string{"INFO from fmt", `WARN broker \x1b[31mslow map[n:3 time:now]`, "ERROR [ERROR] plain", strings.Repeat("y", maxLine) + " cut", "ERROR panic: at the disco", `ERROR \tgoroutine 1`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %.50q", want)
		}
	}
}
