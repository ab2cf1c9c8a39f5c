package httplistener

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// The scanner takes what encoding/json takes, but for invalid UTF-8 and deep
// nesting, and moves past it without changing a byte.
func FuzzScannerValue(f *testing.F) {
	for _, seed := range []string{`{"a":[1,-0.5e+3,"x\u00e9\n",null,true,false,{}],"b":{}}`, `"\ud83d\ude00"`, `[]`, `01`, `{"a":1,}`, "\"\xff\"", "\ufeff1", `nul`, strings.Repeat("[", 2000)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s := newScanner(bytes.Clone(text))
		err := s.begin()
		var got []byte
		if err == nil {
			got, err = s.value()
		}
		if err == nil {
			err = s.end()
		}
		want := json.Valid(text) && utf8.Valid(text)
		if want != (err == nil) && !bytes.Contains(text, bytes.Repeat([]byte("["), 10)) {
			t.Fatalf("%q: got %v, the standard library %t", text, err, want)
		}
		if err == nil && !bytes.Equal(got, bytes.Trim(text, " \t\r\n")) {
			t.Errorf("%q became %q", text, got)
		}
	})
}

// Strings are decoded as encoding/json does, but for half surrogate pairs,
// which are refused.
func FuzzScannerString(f *testing.F) {
	for _, seed := range []string{`"a"`, `"\ud83d\ude00\u00e9\\\"\/\b"`, `"\ud800"`, `"\ud800\ud800\udc00"`, `"\u0000"`, `"\uDBFF\uDFFF"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var want string
		if json.Unmarshal(text, &want) != nil || !utf8.Valid(text) || bytes.HasPrefix(text, []byte("null")) {
			return
		}
		s := newScanner(bytes.Clone(text))
		got, err := s.str()
		if err != nil {
			if !strings.Contains(want, "\ufffd") {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if string(got) != want {
			t.Errorf("%q: got %q, the standard library %q", text, got, want)
		}
	})
}

// Whatever comes, decoding returns.
func FuzzEnvelope(f *testing.F) {
	f.Add([]byte(`{"id":"a/b","sink":"orders","topic":"t","key":"k","body":{"a":[1]},"deliver_at":"2031-05-20T09:30:00Z","ttl":"P1D","priority":9,"options":{"a":"b"}}`))
	f.Add([]byte(`{"headers":[{"name":"a","value_base64":"AA=="},{"name":"b","value":null}],"delay":"1h","body_base64":"AAEC"}`))
	f.Add([]byte(`{"headers":{"a":["1",null],"b":"\ud83d\ude00"},"delay":"1h"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		e := envelope{scanner: newScanner(bytes.Clone(text)), allowed: allFields}
		e.limits.MaxHeaders = 4
		err := e.decode()
		if err == nil && !json.Valid(text) {
			t.Errorf("took %q", text)
		}
		if p := new(problem); err != nil {
			if p = problemOf(err); p.Status != 400 || !json.Valid(p.encode()) {
				t.Errorf("%q: %v", text, p)
			}
		}
	})
}

func TestNestingIsBounded(t *testing.T) {
	for depth, ok := range map[int]bool{9_999: true, 10_001: false} {
		for _, text := range []string{
			strings.Repeat("[", depth) + strings.Repeat("]", depth),
			strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth),
		} {
			s := newScanner([]byte(text))
			if _, err := s.value(); (err == nil) != ok {
				t.Errorf("depth %d: %v", depth, err)
			}
		}
	}
}
