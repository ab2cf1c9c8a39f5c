package plugin

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/delaybridge/delaybridge/core"
)

// aHost is an environment.
func aHost(name string) (string, bool) {
	value, ok := map[string]string{"PATH": "/bin", "HOME": "/root", "TOKEN": "secret"}[name]
	return value, ok
}

func TestConfig(t *testing.T) {
	s, err := decode([]byte(`{"command":"/p"}`), aHost)
	if err != nil {
		t.Fatal(err)
	}
	if !s.mtls || s.startTimeout != 10*time.Second || s.healthInterval != 5*time.Second || s.stopTimeout != 3*time.Second ||
		string(s.config) != "{}" || s.sha256 != nil || cmp.Diff(s.env, []string{"PATH=/bin", "HOME=/root"}) != "" {
		t.Errorf("got %+v", s)
	}
	sum := strings.Repeat("AB", 32)
	s, err = decode([]byte(`{"command":"/p","args":["a"],"env":{"Z":"1","PATH":"/x"},"pass_env":["TOKEN"],"sha256":"`+sum+`","mtls":false,
		"start_timeout":"1s","health_interval":"2s","stop_timeout":"500ms","config":{"any":{"thing":[1]}}}`), aHost)
	if err != nil {
		t.Fatal(err)
	}
	if s.mtls || s.startTimeout != time.Second || s.healthInterval != 2*time.Second || s.stopTimeout != 500*time.Millisecond ||
		string(s.config) != `{"any":{"thing":[1]}}` || len(s.sha256) != 32 || s.sha256[0] != 0xab ||
		cmp.Diff(s.env, []string{"PATH=/bin", "HOME=/root", "TOKEN=secret", "PATH=/x", "Z=1"}) != "" {
		t.Errorf("got %+v", s)
	}
}

func TestConfigFaults(t *testing.T) {
	tests := []struct{ config, field, reason string }{
		{`{}`, "command", "is missing: give the absolute path of the plugin's program"},
		{`[]`, "config", "must be a group of settings"},
		{`{"command":7}`, "command", "must be a string"},
		{`{"command":"/p"} x`, "config", "has something after its end"},
		{`nonsense`, "config", "is not a JSON object"},
		{`{"command":"/p","topic":"x"}`, "topic", "is not a setting of a plugin sink; the plugin's own settings are in its config"},
		{`{"command":"/p\u0000"}`, "command", "contains a NUL"},
		{`{"command":"/p","args":["a","\u0000"]}`, "args[1]", "contains a NUL"},
		{`{"command":"/p","sha256":"abc"}`, "sha256", "must be 64 hexadecimal digits, as sha256sum prints them"},
		{`{"command":"/p","sha256":"` + strings.Repeat("zz", 32) + `"}`, "sha256", "must be 64 hexadecimal digits, as sha256sum prints them"},
		{`{"command":"/p","start_timeout":"soon"}`, "start_timeout", "is not a duration such as 5s"},
		{`{"command":"/p","stop_timeout":"1h"}`, "stop_timeout", "must be 10ms to 10m0s"},
		{`{"command":"/p","health_interval":"10ms"}`, "health_interval", "must be 100ms to 10m0s"},
		{`{"command":"/p","config":[]}`, "config", "must be an object with the plugin's own settings"},
		{`{"command":"/p","env":{"A B":"x"}}`, "env.A B", "is not a name of an environment variable: A-Z a-z 0-9 _, not beginning with a digit"},
		{`{"command":"/p","env":{"1":"x"}}`, "env.1", "is not a name of an environment variable: A-Z a-z 0-9 _, not beginning with a digit"},
		{`{"command":"/p","env":{"PLUGIN_CLIENT_CERT":"x"}}`, "env.PLUGIN_CLIENT_CERT", "is set by delaybridge itself"},
		{`{"command":"/p","env":{"DELAYBRIDGE_PLUGIN":"x"}}`, "env.DELAYBRIDGE_PLUGIN", "is set by delaybridge itself"},
		{`{"command":"/p","env":{"A":"\u0000"}}`, "env.A", "contains a NULs value"},
		{`{"command":"/p","env":{"A":7}}`, "env", "must be a string"},
		{`{"command":"/p","pass_env":["NONE"]}`, "pass_env[0]", "is not set in the environment of delaybridge"},
		{`{"command":"/p","pass_env":["PATH","TOKEN"],"env":{"TOKEN":"x"}}`, "pass_env[1]", "is also set in env: remove one of the two"},
	}
	for _, test := range tests {
		_, err := decode([]byte(test.config), aHost)
		if got, ok := errors.AsType[*core.InvalidError](err); !ok || got.Field != test.field || got.Reason != test.reason {
			t.Errorf("%s: got %v", test.config, err)
		}
	}
}

func TestRestarts(t *testing.T) {
	r := &restarts{pace: standardPace()}
	now := time.Unix(1000, 0)
	ended := func(later, lived time.Duration) string {
		now = now.Add(later)
		wait := r.ended(now, lived, false).String()
		if r.quarantined {
			wait += " quarantined"
		}
		return wait
	}
	var got []string
	for range 5 { // quick ends
		got = append(got, ended(time.Second, 0))
	}
	got = append(got, ended(time.Hour, 59*time.Second), ended(time.Hour, time.Minute)) // still, then forgiven
	for range 11 {                                                                     // slow ones
		got = append(got, ended(20*time.Second, 10*time.Second))
	}
	for range 9 { // on a single message
		if wait := r.ended(now, time.Second, true); wait != r.first {
			t.Errorf("waits %s after an end on a single message", wait)
		}
	}
	want := []string{"100ms", "200ms", "400ms", "800ms", "1m0s quarantined", "1m0s quarantined", "100ms",
		"200ms", "400ms", "800ms", "1.6s", "3.2s", "6.4s", "12.8s", "25.6s", "30s", "30s", "30s"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
