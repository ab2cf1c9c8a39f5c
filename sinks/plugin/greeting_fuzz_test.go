package plugin

import (
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/delaybridge/delaybridge/core"
)

// FuzzGreeting: the first line of a program is refused with a reason of bounded
// length, on one line, or is of the one form that we can connect to.
func FuzzGreeting(f *testing.F) {
	f.Add("1|1|unix|/tmp/plugin1|grpc|", false)
	f.Add("1|1|unix|/tmp/plugin1|grpc|MIIB", true)
	f.Add("1|1|tcp|127.0.0.1:1234|grpc", false)
	f.Add("1|1|tcp|10.0.0.1:1234|grpc", false)
	f.Add("1|999|unix|/tmp/x|netrpc", true)
	f.Add("usage: program [flags]\n", true)
	f.Add("1|1|unix|\x1b[2J|grpc|", false)
	f.Add("", true)
	f.Fuzz(func(t *testing.T, line string, mtls bool) {
		err := checkHandshake(line, nil, mtls)
		if err == nil {
			parts := strings.Split(strings.TrimSpace(line), "|")
			certificate := len(parts) > 5 && parts[5] != ""
			if len(parts) < 5 || parts[0] != "1" || parts[4] != "grpc" || parts[2] != "unix" && parts[2] != "tcp" || certificate != mtls {
				t.Errorf("took %q", line)
			}
			return
		}
		_, bad := errors.AsType[*badGreeting](err)
		_, setting := errors.AsType[*core.InvalidError](err)
		if !bad && !setting && !errors.Is(err, errNoGreeting) || len(err.Error()) > 1000 || printableText(err.Error()) != err.Error() {
			t.Errorf("%q: %q", line, err)
		}
		if checkHandshake(line, io.EOF, mtls) == nil {
			t.Errorf("took %q at the end of the output and not before", line)
		}
	})
}

// FuzzOutput: whatever a plugin prints, each line of it is at most one line of
// the log, which parses back and holds nothing that drives a terminal.
func FuzzOutput(f *testing.F) {
	f.Add([]byte("plain\nlevel=ERROR msg=forged\r\n"), 3)
	f.Add([]byte(`{"@level":"warn","@message":"a\nb","x":"\u001b[2J","msg":"forged","y":{"a":1}}`+"\n"), 1)
	f.Add([]byte("panic: \xff\x00\n\tmain.go:1\n"), 7)
	f.Add([]byte("{\n}\n[ERROR]\n[\n"), 2)
	f.Add([]byte(strings.Repeat("a", maxLine+1)), 100)
	f.Fuzz(func(t *testing.T, printed []byte, cut int) {
		j := &journal{}
		s := (&output{log: j.log()}).stream(streamStderr)
		cut = min(max(cut, 0), len(printed))
		for _, part := range [][]byte{printed[:cut], printed[cut:]} {
			if n, err := s.Write(part); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		s.end()
		text := j.String()
		if !utf8.ValidString(text) || strings.Count(text, "\n") > strings.Count(string(printed), "\n")+2 {
			t.Errorf("%q became %q", printed, text)
		}
		if line := strings.ReplaceAll(text, "\n", ""); printableText(line) != line {
			t.Errorf("%q became %q", printed, text)
		}
		j.with(t, "plugin says") // fails on a line that is not JSON
	})
}
