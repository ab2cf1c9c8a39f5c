package config

import (
	"errors"
	"strings"
	"testing"
)

// FuzzExpand: a value expands once: what a variable holds is taken as it is,
// $$ is the way to write any text, and an error shows no variable's value.
func FuzzExpand(f *testing.F) {
	for _, seed := range []string{"", "plain", "$", "$$", "$$$", "${A}", "a${A}b${A}", "${A:-x}", "${B}", "${B:-}", "${B:-${A}}", "${", "${}", "${1}", "${A:-a}}", "$A", "${A", "$${A}", "\xff${A}\n"} {
		f.Add(seed, "s3cret")
		f.Add(seed, "")
		f.Add(seed, "${A}$$")
	}
	f.Fuzz(func(t *testing.T, text, secret string) {
		lookup := func(name string) (string, bool) { return secret, name == "A" }
		literal, err := expand(strings.ReplaceAll(text, "$", "$$"), lookup)
		if err != nil || literal.text != text || literal.fromEnv || literal.absent {
			t.Errorf("%q with every $ doubled became %+v, %v", text, literal, err)
		}
		got, err := expand(text, lookup)
		if err != nil {
			_, known := errors.AsType[*valueError](err)
			if !known || len(secret) > 8 && !strings.Contains(text, secret) && strings.Contains(err.Error(), secret) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if uses := strings.Contains(text, "${"); !uses && got.fromEnv || got.absent && (got.text != "" || !got.fromEnv) {
			t.Errorf("%q became %+v", text, got)
		}
		if text == "${A}" && got.text != secret {
			t.Errorf("%q became %q, want %q", text, got.text, secret)
		}
		if most := len(text) * (len(secret) + 1); len(got.text) > most {
			t.Errorf("%d bytes became %d", len(text), len(got.text))
		}
	})
}
