package source

import (
	"slices"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/dialect"
)

// Config is the settings that every source has; see the package documentation.
type Config struct {
	Dialects           []string `json:"dialects"`
	Sink               string   `json:"sink"`
	Topic              string   `json:"topic"`
	TrimSuffix         string   `json:"trim_suffix"`
	AllowTargetHeaders bool     `json:"allow_target_headers"`
	Untagged           string   `json:"untagged"`
	DefaultDelay       string   `json:"default_delay"`
	AllowTopics        []string `json:"allow_topics"`
	AllowLoop          bool     `json:"allow_loop"`
	DelayFrom          string   `json:"delay_from"`
	OnBadRecord        string   `json:"on_bad_record"`
}

// What becomes of a record that can't be parked.
const (
	BadReject = "reject"
	BadStop   = "stop"
	BadSkip   = "skip"
)

// Skips reports whether records that can't be parked are left out. target is the
// setting that says where they go, and set whether it does. The error is a
// *core.InvalidError: nobody has chosen what becomes of them, or the choices
// don't go together.
func (c *Config) Skips(target string, set bool) (bool, error) {
	switch policy := c.OnBadRecord; {
	case policy != "" && policy != BadReject && policy != BadStop && policy != BadSkip:
		return false, core.Invalidf("on_bad_record", "must be reject, stop or skip")
	case set && (policy == BadStop || policy == BadSkip):
		return false, core.Invalidf("on_bad_record", "can't be %s together with %s: leave out one of them", policy, target)
	case !set && (policy == "" || policy == BadReject):
		return false, core.Invalidf(target, "is missing: set a target for records that can't be parked; or set on_bad_record: stop, "+
			"so that this source stops at the first of them, or on_bad_record: skip, so that they are logged and skipped")
	}
	return c.OnBadRecord == BadSkip, nil
}

// What becomes of a message without a time.
const (
	UntaggedReject = "reject"
	UntaggedNow    = "now"
	UntaggedDelay  = "delay"
)

// What a delay counts from.
const (
	DelayFromAcceptance = "acceptance"
	DelayFromRecord     = "record"
)

// sourceTopic is what Config.Topic may contain.
const sourceTopic = "{topic}"

// Rules says what becomes of a record. Safe for concurrent use.
type Rules struct {
	config   Config
	dialects *dialect.Set
	sources  []string
	targets  map[string]string // default topic of each source
	delay    time.Duration
	limits   func() core.Limits
}

// NewRules checks config for a source that reads from sources and understands
// dialects unless config says otherwise. Sources that are not known beforehand
// may be left out. Every error is a *core.InvalidError that names the key.
func NewRules(config Config, in *core.Interceptor, dialects []string, sources ...string) (*Rules, error) {
	if config.Dialects != nil {
		dialects = config.Dialects
	}
	set, err := dialect.New(dialects...)
	if err != nil {
		return nil, err
	}
	r := &Rules{config: config, dialects: set, sources: sources, limits: in.Limits, targets: make(map[string]string)}
	for _, step := range []func() error{func() error { return r.checkSink(in) }, r.setUntagged, r.checkDelayFrom, r.setTargets} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *Rules) checkSink(in *core.Interceptor) error {
	switch known := in.Sinks(); {
	case r.config.Sink == "" && !r.config.AllowTargetHeaders:
		return core.Invalidf("sink", "is missing: set the sink of the messages, or allow_target_headers: true so that headers can")
	case r.config.Sink != "" && !slices.Contains(known, r.config.Sink):
		return core.Invalidf("sink", "no sink has the name %q", core.Shorten(r.config.Sink, 64))
	case r.config.Topic == "" && !r.config.AllowTargetHeaders:
		return core.Invalidf("topic", "is missing: set the topic of the messages, or allow_target_headers: true so that headers can")
	}
	return nil
}

func (r *Rules) setUntagged() error {
	switch r.config.Untagged {
	case "":
		r.config.Untagged = UntaggedReject
	case UntaggedReject, UntaggedNow, UntaggedDelay:
	default:
		return core.Invalidf("untagged", "must be reject, now or delay")
	}
	switch {
	case r.config.Untagged != UntaggedDelay && r.config.DefaultDelay != "":
		return core.Invalidf("default_delay", "applies to untagged: delay only")
	case r.config.Untagged != UntaggedDelay:
		return nil
	case r.config.DefaultDelay == "":
		return core.Invalidf("default_delay", "is missing: untagged: delay needs it")
	}
	var err error
	if r.delay, err = core.ParseDuration(r.config.DefaultDelay); err != nil {
		return core.Invalidf("default_delay", "%s", err)
	}
	return nil
}

func (r *Rules) checkDelayFrom() error {
	switch r.config.DelayFrom {
	case "", DelayFromAcceptance, DelayFromRecord:
		return nil
	}
	return core.Invalidf("delay_from", "must be acceptance or record")
}

// setTargets finds out now what would be refused later, message by message.
func (r *Rules) setTargets() error {
	if r.config.TrimSuffix != "" && !strings.Contains(r.config.Topic, sourceTopic) {
		return core.Invalidf("trim_suffix", "applies to a topic that contains %s only", sourceTopic)
	}
	for _, source := range r.sources {
		target, err := r.target(source)
		if err != nil {
			return core.Invalidf("trim_suffix", "for the source %q: %s", core.Shorten(source, 64), err.Reason)
		}
		if target == "" {
			continue
		}
		if err := r.checkTopic(target); err != nil {
			return core.Invalidf("topic", "for the source %q: %s", core.Shorten(source, 64), err.Reason)
		}
		r.targets[source] = target
	}
	return nil
}

// target is the default topic for what comes from source; empty: there is none.
func (r *Rules) target(source string) (string, *core.InvalidError) {
	if known, ok := r.targets[source]; ok {
		return known, nil
	}
	if !strings.Contains(r.config.Topic, sourceTopic) {
		return r.config.Topic, nil
	}
	trimmed, ok := strings.CutSuffix(source, r.config.TrimSuffix)
	if !ok || trimmed == "" {
		return "", core.Invalidf("topic", "is formed from a name that does not end in the trim_suffix %q", core.Shorten(r.config.TrimSuffix, 64))
	}
	return strings.ReplaceAll(r.config.Topic, sourceTopic, trimmed), nil
}
