package config

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/sinks/plugin/kit"
)

// LoadVerify reads the file that says how `delaybridge plugin verify` is to treat a
// plugin, whose format is that of the configuration. The
// error is Faults, or says why path can't be read. capabilities are those that
// can be declared. An empty path is an empty file.
func LoadVerify(path string, capabilities []string) (*kit.Target, error) {
	if path == "" {
		return DecodeVerify("", nil, Options{}, capabilities)
	}
	text, _, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("read file: %w", err)
	}
	return DecodeVerify(path, text, Options{}, capabilities)
}

// DecodeVerify reads it from the text of the named file.
func DecodeVerify(name string, text []byte, options Options, capabilities []string) (*kit.Target, error) {
	clean := strings.ReplaceAll(strings.TrimPrefix(string(text), "\uFEFF"), "\r\n", "\n")
	d := decoder{source: newSource(name, clean, verifyFields(new(kit.Target), capabilities)), options: options.withDefaults()}
	body, f := d.parse(clean)
	if f != nil {
		return nil, d.render([]fault{*f})
	}
	v := &kit.Target{Config: json.RawMessage("{}"), Env: map[string]string{}}
	d.section("", verifyFields(v, capabilities), body)
	if m := v.MissingTopic; m.Topic == "" && d.has("missing_topic") && !d.isBroken("missing_topic") {
		d.fail("missing_topic", "missing", "has no topic")
	}
	if !d.isBroken("topic") && !strings.Contains(v.Topic, "{n}") {
		d.fail("topic", "bad-value", "must contain {n}, which makes each topic unique")
	}
	if err := d.render(d.faults); err != nil {
		return nil, err
	}
	return v, nil
}

func verifyFields(v *kit.Target, capabilities []string) []field {
	mtls := flag("mtls", &v.MTLS, "mutual TLS between host and plugin")
	mtls.def = "true"
	classes := []string{core.Permanent.String(), core.TopicBlocked.String()}
	return []field{
		{name: "config", doc: "of the sink", kind: "section", raw: func(config json.RawMessage) { v.Config = config }},
		capabilityList("can", &v.Can, capabilities),
		size("max_body", &v.MaxBody, "", "1B", "64MiB", "largest body that the sink accepts"),
		texts("args", &v.Args, "of the program"),
		{name: "env", doc: "of the program", kind: "section", raw: func(env json.RawMessage) { setEnv(v.Env, env) }},
		mtls,
		text("topic", &v.Topic, "verify-{n}", "of new topics"),
		texts("make_topic", &v.MakeTopic, "command that makes a topic"),
		texts("reader", &v.Reader, "command that prints the messages of a topic"),
		section("missing_topic", "a topic that does not exist, or can't",
			text("topic", &v.MissingTopic.Topic, "", "its name"),
			oneOf("class", &v.MissingTopic.Class, "topic_blocked", "class that the sink returns", classes...)),
		texts("hostile", &v.Hostile, "topics that might make other messages fail"),
		texts("delays", &v.Delays, "headers that the target would interpret as a request to delay"),
		duration("read_timeout", &v.ReadTimeout, "15s", "1s", "10m", "for a message that must arrive"),
		duration("quiet", &v.Quiet, "500ms", "10ms", "1m", "for messages that must not come"),
	}
}

// setEnv takes what is left to be said of a value's type to be text.
func setEnv(env map[string]string, raw json.RawMessage) {
	values := map[string]any{}
	_ = json.Unmarshal(raw, &values) // the decoder has made it
	for name, value := range values {
		env[name] = fmt.Sprint(value)
	}
}

// capabilityList knows words that are spelt with spaces, _ or -.
func capabilityList(name string, dst *[]string, known []string) field {
	f := texts(name, dst, "capabilities of the sink")
	f.add = func(text string) error {
		text = strings.NewReplacer("_", " ", "-", " ").Replace(text)
		*dst = append(*dst, text)
		return knownValue(text, known)
	}
	return f
}
