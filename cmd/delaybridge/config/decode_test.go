package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/delaybridge/delaybridge/core"
)

// good has what is needed; a line of it is line 1 or 2 of a test's file.
const good = "store: {redis: {url: \"redis://h:6379\"}}\nsinks: {a: {type: console}}\n"

func env(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for n := 0; n < len(pairs); n += 2 {
			if pairs[n] == name {
				return pairs[n+1], true
			}
		}
		return "", false
	}
}

func decode(text string, pairs ...string) (*Config, error) {
	return Decode("c.yaml", []byte(text), Options{SinkTypes: []string{"amqp", "console", "kafka", "rocketmq"}, LookupEnv: env(pairs...),
		ReadFile: func(string) ([]byte, fs.FileMode, error) { return nil, 0, fs.ErrNotExist }})
}

// lines joins what a fault is expected to print.
func exampleText(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("../../../config.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func lines(l ...string) string { return strings.Join(l, "\n") }

func TestFaultsAsPrinted(t *testing.T) {
	tests := map[string]struct {
		text string
		env  []string
		want string
	}{
		"C1 empty file": {
			text: "",
			want: lines(
				"c.yaml:1:1: error: store.redis: has neither url nor addrs; set one, such as url: redis://127.0.0.1:6379 [missing]",
				"c.yaml:1:1: error: sinks: no sink is configured; add at least one, such as sinks: {console: {type: console}} [missing]"),
		},
		"C1 comments only": {
			text: "# nothing\n",
			want: lines(
				"c.yaml:1:1: error: store.redis: has neither url nor addrs; set one, such as url: redis://127.0.0.1:6379 [missing]",
				"c.yaml:1:1: error: sinks: no sink is configured; add at least one, such as sinks: {console: {type: console}} [missing]"),
		},
		"C2 unknown key, value hidden": {
			text: good + "http: {lissten: hunter2} # hunter3\n",
			want: lines(
				`c.yaml:3:8: error: http: unknown key "lissten" (did you mean "listen"?) [unknown-key]`,
				`    http: {lissten: ***}`,
				`           ^`),
		},
		"C2 unknown section": {
			text: good + "sink: 1\n",
			want: lines(
				`c.yaml:3:1: error: unknown key "sink" (did you mean "sinks"?) [unknown-key]`,
				`    sink: ***`,
				`    ^`),
		},
		"C2 unknown key without a likely one": {
			text: good + "zebra: 1\n",
			want: lines(`c.yaml:3:1: error: unknown key *** [unknown-key]`, `    ***: ***`, `    ^`),
		},
		"C2 duplicate key": {
			text: good + "log:\n  level: info\n  level: warn\n",
			want: lines(
				`c.yaml:5:3: error: log: key "level" is already in line 4 [duplicate-key]`,
				`      level: ***`,
				`      ^`),
		},
		"C2 wrong indent": {
			text: "store:\n  redis:\n    db: 0\n   url: x\n",
			want: lines(
				`c.yaml:4:4: error: value is not allowed in this context [syntax]`,
				`       url: ***`,
				`       ^`),
		},
		"C2 tab": {
			text: good + "log:\n\tlevel: info\n",
			want: lines(
				"c.yaml:4:1: error: found character '\t' that cannot start any token; indent with spaces, not with tabs [syntax]",
				"    \tlevel: ***",
				"    ^"),
		},
		"C4 larger than 1 MiB": {
			text: strings.Repeat("#", 1<<20+1),
			want: `c.yaml:1:1: error: the file is larger than 1048576 bytes [too-large]`,
		},
		"C5 below the bound": {
			text: good + "shutdown: {timeout: 1ms}\n",
			want: lines(
				`c.yaml:3:21: error: shutdown.timeout: "1ms" must be 1s to 1h [out-of-range]`,
				`    shutdown: {timeout: 1ms}`,
				`                        ^`),
		},
		"C5 zero": {
			text: good + "shutdown: {timeout: 0s}\n",
			want: lines(
				`c.yaml:3:21: error: shutdown.timeout: "0s" must be 1s to 1h [out-of-range]`,
				`    shutdown: {timeout: 0s}`,
				`                        ^`),
		},
		"C5 negative": {
			text: good + "shutdown: {timeout: -1s}\n",
			want: lines(
				`c.yaml:3:21: error: shutdown.timeout: "-1s" must be 1s to 1h [out-of-range]`,
				`    shutdown: {timeout: -1s}`,
				`                        ^`),
		},
		"C5 years": {
			text: good + "shutdown: {timeout: 300y}\n",
			want: lines(
				`c.yaml:3:21: error: shutdown.timeout: "300y" is not a duration: write a number with a unit, such as 500ms, 30s, 5m, 12h or 7d [wrong-type]`,
				`    shutdown: {timeout: 300y}`,
				`                        ^`),
		},
		"C5 without unit": {
			text: good + "shutdown: {timeout: 5}\n",
			want: lines(
				`c.yaml:3:21: error: shutdown.timeout: "5" is not a duration: write a number with a unit, such as 500ms, 30s, 5m, 12h or 7d (did you mean "5s"?) [wrong-type]`,
				`    shutdown: {timeout: 5}`,
				`                        ^`),
		},
		"C6 batch of none": {
			text: good + "limits: {max_batch: 0}\n",
			want: lines(
				`c.yaml:3:21: error: limits.max_batch: "0" must be 1 to 10000 [out-of-range]`,
				`    limits: {max_batch: 0}`,
				`                        ^`),
		},
		"C6 values that contradict each other": {
			text: good + "retry:\n  initial: 1m\n  max: 1s\n",
			want: lines(
				`c.yaml:5:8: error: retry.max: makes the longest wait, 1s, less than the first, 1m0s [conflict]`,
				`      max: 1s`,
				`           ^`),
		},
		"C7 two sinks with one name": {
			text: "store: {redis: {addrs: [\"h:1\"]}}\nsinks:\n  a: {type: console}\n  a: {type: kafka}\n",
			want: lines(
				`c.yaml:4:3: error: sinks: key "a" is already in line 3 [duplicate-key]`,
				`      a: {type: ***}`,
				`      ^`),
		},
		"C8 password in a bad URL": {
			text: "store: {redis: {url: \"redis://u:hunter2@h:99999\"}}\nsinks: {a: {type: console}}\n",
			want: lines(
				`c.yaml:1:22: error: store.redis.url: is not of the form redis://user:password@host:6379/0 (or rediss:// for TLS) [bad-address]`,
				`    store: {redis: {url: ***}}`,
				`                         ^`),
		},
		"C8 password in the wrong place": {
			text: good + "log: {level: info, pasword: hunter2}\n",
			want: lines(
				`c.yaml:3:20: error: log: unknown key *** [unknown-key]`,
				`    log: {level: info, ***: ***}`,
				`                       ^`),
		},
		"C11 open without tokens": {
			text: good + "http: {listen: \"0.0.0.0:7420\"}\n",
			want: lines(
				`c.yaml:3:16: error: http.listen: is reachable from other machines; set http.tokens, or write http.insecure: true [open-listener]`,
				`    http: {listen: "0.0.0.0:7420"}`,
				`                   ^`),
		},
		"C11 open with a token that turns out to be none": {
			text: good + "http:\n  listen: :7420\n  tokens: [\"${T:-}\"]\n",
			want: lines(
				`c.yaml:4:11: error: http.listen: is reachable from other machines; set http.tokens, or write http.insecure: true [open-listener]`,
				`      listen: :7420`,
				`              ^`),
		},
		"C14 db with cluster": {
			text: "store: {redis: {addrs: [\"a:1\", \"b:2\"], cluster: true, db: 1}}\nsinks: {a: {type: console}}\n",
			want: lines(
				`c.yaml:1:59: error: store.redis.db: must be 0 because cluster is true [conflict]`,
				`    store: {redis: {addrs: [***, ***], cluster: true, db: 1}}`,
				`                                                          ^`),
		},
		"C15 certificate without key": {
			text: good + "http: {tls_cert: a.pem}\n",
			want: lines(
				`c.yaml:3:18: error: http.tls_cert: needs http.tls_key as well [conflict]`,
				`    http: {tls_cert: ***}`,
				`                     ^`),
		},
		"unset variable": {
			text: good + "log: {level: \"${LEVEL}\"}\n",
			want: lines(
				`c.yaml:3:14: error: log.level: refers to LEVEL, which is not set; set it, or write ${LEVEL:-default} [unset-variable]`,
				`    log: {level: "${LEVEL}"}`,
				`                 ^`),
		},
		"value of a variable is not printed, nor what was meant": {
			text: good + "log: {level: \"${LEVEL}\"}\n",
			env:  []string{"LEVEL", "wran"},
			want: lines(
				`c.yaml:3:14: error: log.level: *** is not known; known are debug, info, warn, error [unknown-value]`,
				`    log: {level: "${LEVEL}"}`,
				`                 ^`),
		},
		"variable can't inject structure": {
			text: good + "log: {level: \"${LEVEL}\"}\n",
			env:  []string{"LEVEL", "info\", format: \"json"},
			want: lines(
				`c.yaml:3:14: error: log.level: *** is not known; known are debug, info, warn, error [unknown-value]`,
				`    log: {level: "${LEVEL}"}`,
				`                 ^`),
		},
		"reference that is none": {
			text: good + "log: {level: \"${1}\"}\n",
			want: lines(
				`c.yaml:3:14: error: log.level: has a reference that is not ${VAR} or ${VAR:-default}; write $$ for a $ [bad-reference]`,
				`    log: {level: ***}`,
				`                 ^`),
		},
		"reference in a flow section without quotes": {
			text: "a: {b: ${C}, d: 1}\n",
			want: lines(
				`c.yaml:1:9: error: ',' or '}' must be specified; within { } and [ ], write "${VAR}" in quotes [syntax]`,
				`    ***: {***: ***{***}, ***: ***}`,
				`                  ^`),
		},
		"no value": {
			text: good + "log: {level: }\n",
			want: lines(
				`c.yaml:3:7: error: log.level: has no value; leave it out for the default [no-value]`,
				`    log: {level: }`,
				`          ^`),
		},
		"number in quotes": {
			text: good + "limits: {max_batch: \"5\"}\n",
			want: lines(
				`c.yaml:3:21: error: limits.max_batch: is text; write it without quotes to make it a number [wrong-type]`,
				`    limits: {max_batch: "5"}`,
				`                        ^`),
		},
		"yes is no boolean": {
			text: good + "http: {insecure: yes}\n",
			want: lines(
				`c.yaml:3:18: error: http.insecure: "yes" is neither true nor false (did you mean "true"?) [wrong-type]`,
				`    http: {insecure: yes}`,
				`                     ^`),
		},
		"anchor": {
			text: good + "log: &x {level: info}\n",
			want: lines(
				`c.yaml:3:6: error: log: anchors, aliases and tags can't be used here [unsupported]`,
				`    log: &*** {level: ***}`,
				`         ^`),
		},
		"second document": {
			text: good + "---\nlog: {}\n",
			want: lines(`c.yaml:4:4: error: the file has a second YAML document; there may be one only [unsupported]`, `    log: {}`, `       ^`),
		},
		"no type, no section": {
			text: "store: {redis: {addrs: [\"h:1\"]}}\nsinks: {a: {timeout: 1s}, b: 5}\n",
			want: lines(
				`c.yaml:2:12: error: sinks.a: has no type [missing]`,
				`    sinks: {a: {timeout: 1s}, ***: ***}`,
				`               ^`,
				`c.yaml:2:30: error: sinks.b: is a single value, must be a section [wrong-type]`,
				`    sinks: {a: {timeout: 1s}, ***: ***}`,
				`                                   ^`),
		},
		"sink name that reaches elsewhere": {
			text: "store: {redis: {addrs: [\"h:1\"]}}\nsinks: {\"a:b{c}\": {type: console}}\n",
			want: lines(
				`c.yaml:2:9: error: sinks: the name *** may hold A-Z a-z 0-9 . _ - only and begins with a letter or digit [bad-name]`,
				`    sinks: {***: {type: ***}}`,
				`            ^`),
		},
		"list where one value belongs": {
			text: good + "log: {level: [info]}\n",
			want: lines(
				`c.yaml:3:14: error: log.level: is a list, must be a text [wrong-type]`,
				`    log: {level: [***]}`,
				`                 ^`),
		},
		"not UTF-8": {
			text: good + "log: {level: \xff}\n",
			want: `c.yaml:3:14: error: the file is not UTF-8 [syntax]`,
		},
		"control character": {
			text: good + "log: {level: \x1b[31m}\n",
			want: `c.yaml:3:14: error: control character U+001B [syntax]`,
		},
		"columns count characters": {
			text: good + "log: {ü: 1, levl: 2}\n",
			want: lines(
				`c.yaml:3:7: error: log: unknown key *** [unknown-key]`,
				`    log: {***: ***, levl: ***}`,
				`          ^`,
				`c.yaml:3:13: error: log: unknown key "levl" (did you mean "level"?) [unknown-key]`,
				`    log: {***: ***, levl: ***}`,
				`                    ^`),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := decode(tt.text, tt.env...)
			if err == nil {
				t.Fatal("no fault was found")
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestSecretsNeverShow(t *testing.T) {
	const secret = "hunter2"
	files := []string{
		"store: {redis: {url: \"redis://u:hunter2@h:x\"}}\n",
		"store: {redis: {url: \"amqp://u:hunter2@h\"}}\n",
		"store: {redis: {password: hunter2, pasword: hunter2, db: x}}\n",
		"store: {redis: {addrs: [\"redis://u:hunter2@h:1\"]}}\n",
		"store: {redis: {password: [hunter2]}}\n",
		"store: {redis: {password: {a: hunter2}}}\n",
		"store: {redis: {sentinel_password: hunter2}}\n",
		"store: {redis: {password: \"${x hunter2\"}}\n",
		"http: {tokens: hunter2}\n",
		"http: {tokens: [\"hunter2 \", \"sha256:hunter2\"]}\n",
		"http: {tokens: [\"${SECRET} \"]}\n",
		"http: {listen: \"${SECRET}\"}\n",
		"store: {redis: {addrs: [\"${SECRET}\"]}}\n",
		"store: {redis: {prefix: \"{${SECRET}\", db: \"${SECRET}\"}}\n",
		"store: {guard: \"${SECRET}\", durability: \"${SECRET}\"}\n",
		"password: \"hunter2\n",
		"password \"hunter2\"\n",
		"  password: hunter2\n bad: 1\n",
		"password: hunter2: x\n",
		"password: |\n  hunter2\n bad\n",
		"sinks: {a: {type: console, config: {api: hunter2, x: 010, y: [hunter2, True]}}}\n",
		"sinks: {a: hunter2}\n",
		"x: 1 # hunter2\n",
	}
	for _, text := range files {
		t.Run(text, func(t *testing.T) {
			_, err := decode(text, "SECRET", secret)
			if err == nil {
				t.Fatal("no fault was found")
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the secret shows:\n%s", err)
			}
		})
	}
}

// TestPlantedSecretNeverShows plants a secret at every key and every value of the
// example, as YAML is written by hand and as it goes wrong: each way at every third of
// the keys, as all of them take minutes with the race detector. FuzzPlantedSecret goes on.
func TestPlantedSecretNeverShows(t *testing.T) {
	styles := []string{"S", "'S'", `"S"`, "!S", "!!str S", "! S", "&S x", "*S", "|S", ">S", "|\n      S", ">-\n  S: x", "%S", "@S", "`S", "?S", "? S",
		"[S]", "[S", "{S: x}", "{S: {}}", "{x: S}", "{S}", "- S", "x S", "x\n  S", "x\nS", `"x` + "\n" + `   S", y: 1`, "S: x", "x: S", `"S`, "'S", "u:S@h:1",
		"redis://u:S@h:x", "#S", "x #S", "<<: S", "[a, S: x]", "${S", "${A:-S}", "2m S", "S2m", "true S", "127.0.0.1:1 S", "a: S: b"}
	plant := func(text string) string { return strings.ReplaceAll(text, "S", planted) }
	var texts []string
	keys := 0
	for _, section := range regexp.MustCompile(`(?m)^[a-z]+:(\n| .*\n)([ #].*\n|\n)*`).FindAllString(exampleText(t), -1) {
		lines := strings.Split(section, "\n")
		for n, line := range lines {
			key, _, ok := strings.Cut(line, ":")
			if !ok || strings.Contains(key, "#") {
				continue
			}
			with := func(line string) {
				texts = append(texts, strings.Join(slices.Concat(lines[:n], []string{line}, lines[n+1:]), "\n"))
			}
			keys++
			for at, style := range styles {
				if (at+keys)%3 == 0 {
					with(key + ": " + plant(style))
				}
			}
			indent := key[:len(key)-len(strings.TrimLeft(key, " "))]
			for at, style := range []string{"S: x", "S:", "S", "'S': x", "!S x: y", "- S", "? S", "<<: S", "? [S]\n" + indent + ": x", "&S x: y", "*S : y"} {
				if (at+keys)%3 == 0 {
					with(indent + plant(style))
				}
			}
		}
	}
	if len(texts) < 1700 || keys < 90 {
		t.Errorf("only %d files, for %d keys", len(texts), keys)
	}
	for _, text := range texts { // all lack something, too
		if _, err := decode(text); err == nil {
			t.Errorf("no fault in\n%s", text)
		} else {
			checkPlanted(t, text, err)
		}
	}
}

// planted is what must not be shown. No sink can have it for a name, which would
// be shown.
const planted = "S3CR3T/hunter2+x"

func checkPlanted(t *testing.T, text string, err error) {
	t.Helper()
	for _, part := range []string{"S3CR3T", "hunter2"} {
		if strings.Contains(err.Error(), part) {
			at := max(0, strings.Index(text, planted)-80)
			t.Errorf("a part of the secret shows:\n%s\nin\n%s", err, text[at:min(len(text), at+200)])
			return
		}
	}
}

// FuzzPlantedSecret plants it anywhere in the example, between any two texts.
func FuzzPlantedSecret(f *testing.F) {
	example := strings.Split(exampleText(f), "\n")
	for n, around := range []string{"!", "|", "\"\n", "? ", "{", "[", "&", ": "} {
		f.Add(uint16(20+n), uint16(15), around, "\n")
	}
	f.Add(uint16(64), uint16(15), "|", "0")
	f.Fuzz(func(t *testing.T, line, column uint16, before, after string) {
		n := int(line) % len(example)
		at := int(column) % (len(example[n]) + 1)
		planting := example[n][:at] + before + planted + after + example[n][at:]
		text := strings.Join(slices.Concat(example[:n], []string{planting}, example[n+1:]), "\n")
		if _, err := decode(text, "S3CR3T", "x"); err != nil {
			checkPlanted(t, text, err)
		}
	})
}

func TestFaultOfAPart(t *testing.T) {
	c, err := decode("store: {redis: {addrs: [\"h:1\"]}}\nsinks:\n  k:\n    type: kafka\n    config:\n      brokers:\n      - good:1\n      - bad\n      sasl: {password: hunter2}\n")
	if err != nil {
		t.Fatal(err)
	}
	got := c.Fault("sinks.k.config", errors.Join(
		fmt.Errorf("open: %w", core.Invalidf("brokers[1]", "is not host:port")),
		core.Invalidf("sasl.mechanism", "is missing"),
		errors.New("can't be used with hunter2 on good:1"),
	))
	want := lines(
		`c.yaml:6:7: error: sinks.k.config: can't be used with *** on *** [refused]`,
		`          brokers:`,
		`          ^`,
		`c.yaml:8:9: error: sinks.k.config.brokers[1]: is not host:port [refused]`,
		`          - ***`,
		`            ^`,
		`c.yaml:9:13: error: sinks.k.config.sasl.mechanism: is missing [refused]`,
		`          sasl: {password: ***}`,
		`                ^`)
	if diff := cmp.Diff(want, got.Error()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if err := c.Fault("sinks.k.config", nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}
