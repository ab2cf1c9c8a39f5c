package settings

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

type part struct {
	Config
	Connection
	Brokers []string `json:"brokers"`
	Size    *int     `json:"size"`
	Login   *login   `json:"login"`
}

// Config is embedded in parts of one kind, and Connection in those of one broker.
type Config struct {
	Topic string `json:"topic"`
}

type Connection struct {
	URL   string `json:"url"`
	Token *login `json:"token"`
}

type login struct {
	Password string `json:"password"`
	Remember bool   `json:"remember"`
}

func TestDecode(t *testing.T) {
	for raw, want := range map[string]string{
		`{"brokers": ["a"], "size": 3, "topic": "t", "login": {"password": "p"}}`: "",
		`{}`:                               "",
		``:                                 "",
		`null x`:                           "config: has something after its end",
		`{} {}`:                            "config: has something after its end",
		`["a"]`:                            "config: must be a group of settings",
		`{"brokers": "secret"}`:            "brokers: must be a list",
		`{"size": "secret"}`:               "size: must be a whole number",
		`{"size": 1.5}`:                    "size: must be a whole number",
		`{"login": "secret"}`:              "login: must be a group of settings",
		`{"login": {"remember": 1}}`:       "login.remember: must be a boolean",
		`{"topic": 1}`:                     "topic: must be a string",
		`{"url": 1}`:                       "url: must be a string",
		`{"token": {"password": 1}}`:       "token.password: must be a string",
		`{"ulr": ""}`:                      `ulr: is not a setting of a part; did you mean "url"?`,
		`{"brocker": ["a"]}`:               `brocker: is not a setting of a part; did you mean "brokers"?`,
		`{"login": {"pasword": "secret"}}`: `pasword: is not a setting of a part; did you mean "password"?`,
		`{"elsewhere": 1}`:                 "elsewhere: is not a setting of a part",
		`{"brokers": [`:                    "config: is not a JSON object",
	} {
		var p part
		err := Decode(json.RawMessage(raw), &p, "a part")
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", raw, err)
			}
			continue
		}
		if _, ok := errors.AsType[*core.InvalidError](err); !ok || err.Error() != want {
			t.Errorf("%s: %v, want %s", raw, err, want)
		}
	}
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]string{
		"": "5s", "10s": "10s", "1m": "1m0s", "PT20S": "20s",
		"61s": "f: must be 1s to 1m0s", "999ms": "f: must be 1s to 1m0s", "-5s": "f: is not a duration such as 5s", "soon": "f: is not a duration such as 5s", "5": "f: is not a duration such as 5s",
	} {
		var d time.Duration
		err := Durations(Duration{Field: "f", Text: text, Standard: 5 * time.Second, Min: time.Second, Max: time.Minute, To: &d})
		if got := d.String(); err == nil && got != want || err != nil && err.Error() != want {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
	}
}

func TestInts(t *testing.T) {
	for given, want := range map[int]string{1: "", 9: "", 0: "n: must be 1 to 9", 10: "n: must be 1 to 9"} {
		n := 0
		err := Ints(Int{Field: "n", Given: &given, Standard: 5, Min: 1, Max: 9, To: &n})
		if want == "" && (err != nil || n != given) || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%d: %d, %v, want %q", given, n, err, want)
		}
	}
	n := 0
	if err := Ints(Int{Field: "n", Standard: 5, Min: 1, Max: 9, To: &n}); err != nil || n != 5 {
		t.Errorf("nothing given: %d, %v", n, err)
	}
}
