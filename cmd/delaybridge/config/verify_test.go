package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/sinks/plugin/kit"
)

func decodeVerify(text string) (*kit.Target, error) {
	env := func(name string) (string, bool) { return "hunter2", name == "SECRET" }
	return DecodeVerify("v.yaml", []byte(text), Options{LookupEnv: env}, []string{"headers", "header order"})
}

func TestDecodeVerify(t *testing.T) {
	v, err := decodeVerify(`
config: {dir: "{tmp}", size: 3, password: "${SECRET}"}
can: [headers, header_order]
max_body: 200kB
args: [-v]
env: {LEVEL: 3, NAME: x}
mtls: false
topic: "t.{n}"
make_topic: [make, "{topic}"]
reader: [tail, -n, "+1", -F, "{tmp}/{topic}"]
missing_topic: {topic: none, class: permanent}
hostile: [a/b]
delays: [x-delay]
read_timeout: 20s
`)
	if err != nil {
		t.Fatal(err)
	}
	want := &kit.Target{
		Config: []byte(`{"dir":"{tmp}","size":3,"password":"hunter2"}`), Can: []string{"headers", "header order"}, MaxBody: 200_000,
		Args: []string{"-v"}, Env: map[string]string{"LEVEL": "3", "NAME": "x"}, Topic: "t.{n}", MakeTopic: []string{"make", "{topic}"},
		Reader: []string{"tail", "-n", "+1", "-F", "{tmp}/{topic}"}, Hostile: []string{"a/b"}, Delays: []string{"x-delay"},
		ReadTimeout: 20 * time.Second, Quiet: 500 * time.Millisecond,
	}
	want.MissingTopic.Topic, want.MissingTopic.Class = "none", "permanent"
	if !reflect.DeepEqual(v, want) {
		t.Errorf("got\n%+v\nwant\n%+v", v, want)
	}
}

// TestLoadVerifyWithoutFile: a plugin without settings needs none.
func TestLoadVerifyWithoutFile(t *testing.T) {
	v, err := LoadVerify("", nil)
	if err != nil || string(v.Config) != "{}" || !v.MTLS || v.Topic != "verify-{n}" || v.Reader != nil {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestDecodeVerifyFaults(t *testing.T) {
	tests := map[string]string{
		"redaer: []":                              `unknown key "redaer" (did you mean "reader"?)`,
		"can: [heders]":                           `(did you mean "headers"?)`,
		"can: headers":                            "must be a list",
		"topic: fixed":                            "must contain {n}",
		"missing_topic: {class: permanent}":       "has no topic",
		"missing_topic: {topic: x, class: retry}": "known are permanent, topic_blocked",
		"config: 3":                               "must be a section",
		"mtls: \"no\"":                            "without quotes",
		"max_body: 5":                             "not a size",
		"env: [a]":                                "must be a section",
	}
	for text, want := range tests {
		v, err := decodeVerify(text)
		if v != nil || err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "v.yaml:1:") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestNoStore: a file may then leave the store out, and only that.
func TestNoStore(t *testing.T) {
	options := Options{SinkTypes: []string{"console"}, NoStore: true}
	if _, err := Decode("c.yaml", []byte("sinks: {a: {type: console}}"), options); err != nil {
		t.Error(err)
	}
	if _, err := Decode("c.yaml", []byte("log: {level: info}"), options); err == nil {
		t.Error("no sink is no fault")
	}
	options.NoStore = false
	if _, err := Decode("c.yaml", []byte("sinks: {a: {type: console}}"), options); err == nil {
		t.Error("no store is no fault")
	}
}
