package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// decodeWith is decode where files are.
func decodeWith(t *testing.T, text string, files map[string]string) (*Config, error) {
	t.Helper()
	return Decode("c.yaml", []byte(text), Options{SinkTypes: []string{"amqp", "console", "kafka", "plugin"}, SourceTypes: []string{"kafka"}, LookupEnv: env("DIR", "/run"),
		ReadFile: func(name string) ([]byte, fs.FileMode, error) {
			text, ok := files[name]
			if !ok {
				return nil, 0, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
			}
			if strings.HasPrefix(name, "/open") {
				return []byte(text), 0o644, nil
			}
			return []byte(text), 0o400, nil
		}})
}

var secretFiles = map[string]string{
	"/run/redis": "hunter2redis\n", "/run/tokens": "hunter2hunter2hunter2\r\n\nother-hunter2-other\n", "/run/kafka": "hunter2kafka",
	"/run/urls": "amqp://a:hunter2@h1\namqp://a:hunter2@h2\n", "/run/empty": "\n\n", "/open": "hunter2",
}

func TestSecretsInFiles(t *testing.T) {
	c, err := decodeWith(t, `store: {redis: {addrs: ["h:1"], password_file: "${DIR}/redis"}}
http: {tokens_file: /run/tokens}
sinks:
  k: {type: kafka, config: {sasl: {password_file: /run/kafka}}}
  a: {type: amqp, config: {urls_file: /run/urls}}
  p: {type: plugin, config: {args: [--password=hunter2, -v], config: {password_file: /run/nothing}, env: {token_file: x}}}
  q: {type: plugin, config: {access_key: hunter2}}
`, secretFiles)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintln(c.Store.Redis.Password, c.HTTP.Tokens, string(c.Sinks[0].Config), string(c.Sinks[1].Config), string(c.Sinks[2].Config))
	want := `hunter2redis [hunter2hunter2hunter2 other-hunter2-other] {"sasl":{"password":"hunter2kafka"}} ` +
		`{"urls":["amqp://a:hunter2@h1","amqp://a:hunter2@h2"]} {"args":["--password=hunter2","-v"],"config":{"password_file":"/run/nothing"},"env":{"token_file":"x"}}` + "\n"
	if got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if diff := cmp.Diff([]string{"/run/redis", "/run/tokens", "/run/kafka", "/run/urls"}, c.Files()); diff != "" {
		t.Error(diff)
	}
	for _, s := range c.Settings() {
		if strings.Contains(s.Value, "hunter2") {
			t.Errorf("%s shows %s", s.Key, s.Value)
		}
	}
}

func TestFaultsOfSecretFiles(t *testing.T) {
	redis := func(text string) string {
		return "store: {redis: {addrs: [\"h:1\"], " + text + "}}\nsinks: {a: {type: console}}\n"
	}
	sink := func(text string) string { return good + "  b: {type: kafka, config: {" + text + "}}\n" }
	for name, test := range map[string]struct{ text, want string }{
		"absent":              {redis("password_file: /run/hunter2"), "store.redis.password_file: names a file that can't be read: file does not exist [bad-file]"},
		"empty":               {redis("password_file: /run/empty"), "names a file that is empty"},
		"two lines":           {redis("password_file: /run/tokens"), "names a file with 2 lines"},
		"readable":            {redis("password_file: /open"), "[readable-secret]"},
		"twice":               {redis("password: \"${DIR}\", password_file: /run/redis"), "store.redis.password_file: can't be used together with password [conflict]"},
		"twice, other order":  {redis("password_file: /run/redis, password: \"${DIR}\""), "can't be used together with password [conflict]"},
		"no secret":           {redis("prefix_file: /run/redis"), "unknown key"},
		"no text":             {redis("password_file: [a]"), "is a list, must be a path"},
		"bad token":           {good + "http: {tokens_file: /open2}\n", "http.tokens_file: names a file that can't be read"},
		"short token":         {good + "http: {tokens_file: /run/kafka}\n", "http.tokens[0]: must be 16 or more"},
		"of a sink":           {strings.Replace(sink("sasl: {password_file: /run/absent}"), "sinks: {a: {type: console}}", "sinks:\n  a: {type: console}", 1), "sinks.b.config.sasl.password_file: names a file that can't be read"},
		"of a sink, twice":    {strings.Replace(sink("password: \"${DIR}\", password_file: /run/kafka"), "sinks: {a: {type: console}}", "sinks:\n  a: {type: console}", 1), "can't be used together with password"},
		"of a sink, two URLs": {strings.Replace(sink("url_file: /run/urls"), "sinks: {a: {type: console}}", "sinks:\n  a: {type: console}", 1), "names a file with 2 lines"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := decodeWith(t, test.text, secretFiles)
			if faults, ok := errors.AsType[Faults](err); !ok || len(faults) != 1 || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestDiff(t *testing.T) {
	before, err := decodeWith(t, `store: {redis: {url: "redis://u:hunter2@h"}, lease: 60s}
http: {tokens: [hunter2hunter2hunter2]}
sinks:
  a: {type: console, timeout: 1s}
  k: {type: kafka, config: {brokers: ["h:1"], sasl: {password: hunter2}}}
  gone: {type: console}
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	after, err := decodeWith(t, `store: {redis: {url: "redis://u:hunter3@h"}, lease: 1m}
http: {tokens: [hunter2hunter2hunter3, hunter2hunter2hunter4]}
retry: {initial: 2s}
sinks:
  a: {type: console, timeout: 2s}
  k: {type: kafka, config: {brokers: ["h:1", "h:2"], sasl: {password: hunter3}}}
  new: {type: console, config: {format: json}}
sources:
  s: {type: kafka}
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []Change{
		{"http.tokens[0]", Changed, "***", "***"},
		{"http.tokens[1]", Added, "", "***"},
		{"retry.initial", Changed, "1s", "2s"},
		{"sinks.a.timeout", Changed, "1s", "2s"},
		{"sinks.gone", Removed, "", ""},
		{"sinks.k.config.brokers[1]", Added, "", "h:2"},
		{"sinks.k.config.sasl.password", Changed, "***", "***"},
		{"sinks.new", Added, "", ""},
		{"sources.s", Added, "", ""},
		{"store.redis.url", Changed, "***", "***"},
	}
	got := Diff(before, after)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if fixed := NeedRestart(before, after, got); len(fixed) > 0 {
		t.Errorf("need a restart: %v", fixed)
	}
	if again := Diff(after, after); len(again) > 0 {
		t.Errorf("no change: %v", again)
	}
}

// What can be changed while the bridge runs is listed here; each other key of the table
// is refused by its name.
func TestEachKeyIsLiveOrNeedsARestart(t *testing.T) {
	isLive := []string{"log.level", "limits.max_body", "limits.max_headers", "limits.max_hops", "limits.max_delay", "limits.max_past",
		"store.dedupe_window", "store.redis.url", "store.redis.username", "store.redis.password",
		"store.redis.tls.ca", "store.redis.tls.cert", "store.redis.tls.key",
		"http.tokens", "http.tls_cert", "http.tls_key", "grpc.tokens", "grpc.tls_cert", "grpc.tls_key",
		"metrics.tokens", "metrics.tls_cert", "metrics.tls_key",
		"retry.initial", "retry.max", "retry.multiplier", "retry.jitter", "retry.max_attempts"}
	var walk func(path string, fields []field)
	walk = func(path string, fields []field) {
		for _, f := range fields {
			key := join(path, f.name)
			changed := key
			if f.add != nil {
				changed = item(key, 0)
			}
			walk(key, f.fields)
			if f.set == nil && f.add == nil {
				continue
			}
			c := &Config{}
			refused := NeedRestart(c, c, []Change{{Key: changed, Kind: Changed}})
			if wants := !slices.Contains(isLive, key); wants != (len(refused) == 1 && refused[0].Key == changed) {
				t.Errorf("%s: refused %v", key, refused)
			}
		}
	}
	walk("", new(Config).fields(Options{}))
}

func TestSwitchesNeedARestart(t *testing.T) {
	tests := map[string]struct{ before, after string }{
		"store.redis.url":  {good, strings.Replace(good, "h:6379", "other:6379", 1)},
		"limits.max_body":  {good, good + "limits: {max_body: 4MiB}\n"},
		"http.listen":      {good, good + "http: {listen: \"127.0.0.1:1\"}\n"},
		"grpc.listen":      {good, good + "grpc: {listen: \"127.0.0.1:1\"}\n"},
		"shutdown.timeout": {good, good + "shutdown: {timeout: 1s}\n"},
	}
	for key, test := range tests {
		before, err := decode(test.before)
		if err != nil {
			t.Fatal(err)
		}
		after, err := decode(test.after)
		if err != nil {
			t.Fatal(err)
		}
		if fixed := NeedRestart(before, after, Diff(before, after)); len(fixed) != 1 || fixed[0].Key != key {
			t.Errorf("%s: %v", key, fixed)
		}
	}
	raised, err := decode(good + "limits: {max_body: 1MiB}\n")
	if err != nil {
		t.Fatal(err)
	}
	before, _ := decode(good)
	if fixed := NeedRestart(before, raised, Diff(before, raised)); len(fixed) > 0 {
		t.Errorf("a larger body: %v", fixed)
	}
}

// The contents of the files that a configuration names belong to it.
func TestContents(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.pem")
	text := fmt.Sprintf("store: {redis: {addrs: [\"h:1\"]}}\nsinks: {a: {type: console, config: {tls: {ca: %q}}}, b: {type: console}}\n", ca)
	path := write(t, "c.yaml", text, 0o600)
	loaded := make([]*Config, 2)
	for n := range loaded {
		if err := os.WriteFile(ca, []byte{byte(n)}, 0o600); err != nil {
			t.Fatal(err)
		}
		var err error
		if loaded[n], err = load(path); err != nil {
			t.Fatal(err)
		}
	}
	want := []Change{{"sinks.a.config.tls.ca (contents)", Changed, "***", "***"}}
	if diff := cmp.Diff(want, Diff(loaded[0], loaded[1])); diff != "" {
		t.Error(diff)
	}
	if loaded[0].Sinks[0].Contents == loaded[1].Sinks[0].Contents || loaded[0].Sinks[1].Contents != loaded[1].Sinks[1].Contents {
		t.Error("the contents count for the wrong sink")
	}
	if diff := cmp.Diff([]string{ca}, loaded[0].Files()); diff != "" {
		t.Error(diff)
	}
}
