package kit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/sinks/plugin"
)

// protocolCheck is one promise of a plugin beyond those of a sink.
type protocolCheck struct {
	name string
	run  func(v *verifier, ctx context.Context) error
	// always: the others need what it finds out.
	always bool
	// last: it looks at what the others have left.
	last bool
}

func protocolChecks() []protocolCheck {
	return []protocolCheck{
		{name: "V1 starts within 5 s and prints one valid first line", run: (*verifier).startsTidily},
		{name: "V2 run by hand, it prints an explanation", run: (*verifier).explainsItself},
		{name: "V3 ends on SIGTERM, with its child processes", run: (*verifier).endsOnSignal},
		{name: "V4 ends when its host is killed", run: (*verifier).endsWithHost},
		{name: "V5 describes itself", run: (*verifier).describesItself, always: true},
		{name: "V6 accepts its configuration", run: (*verifier).takesConfig, always: true},
		{name: "V7 reports an unknown setting", run: (*verifier).pointsAtUnknown},
		{name: "V8 reports a setting of a wrong type", run: (*verifier).pointsAtWrongType},
		{name: "V9 reports a missing setting", run: (*verifier).pointsAtMissing},
		{name: "V10 closes in time", run: (*verifier).closesInTime},
		{name: "V11 delivers after it was killed and restarted", run: (*verifier).survivesKill},
		{name: "V12 logs no secrets", run: (*verifier).secretsKept, last: true},
	}
}

func (v *verifier) describesItself(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	info, err := plugin.Inspect(ctx, v.with(nil), v.log.logger())
	if err != nil {
		return err
	}
	v.info = info
	var faults []error
	complain := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if core.CheckSinkName(info.Name) != nil {
		complain("the name %q is not a valid name of a sink", info.Name)
	}
	if info.Version == "" {
		complain("it reports no version")
	}
	if info.Description == "" {
		complain("it reports no description")
	}
	known := map[string]bool{}
	for _, s := range info.Settings {
		key, _, _ := strings.Cut(s.Name, ".")
		known[key] = true
		if s.Description == "" {
			complain("the setting %q has no description", s.Name)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(v.configKeys())) {
		if !known[key] {
			complain("the setting %q is in your file, but not among those described", key)
		}
	}
	return errors.Join(faults...)
}

// configKeys is the top level of the sink's configuration.
func (v *verifier) configKeys() map[string]json.RawMessage {
	keys := map[string]json.RawMessage{}
	_ = json.Unmarshal(v.target.Config, &keys) // an object, as config has made it
	return keys
}

func (v *verifier) takesConfig(ctx context.Context) error {
	sink, err := v.open(ctx, v.target.Config)
	if err != nil {
		return err
	}
	v.works = true
	return sink.Close()
}

// needsConfig skips what makes no sense for a plugin that can't be opened.
func (v *verifier) needsConfig() error {
	if !v.works {
		return skipped("the plugin does not accept its configuration")
	}
	return nil
}

// unknownKey is one that surely no plugin knows.
const unknownKey = "no_such_setting"

func (v *verifier) pointsAtUnknown(ctx context.Context) error {
	if err := v.needsConfig(); err != nil {
		return err
	}
	keys := v.configKeys()
	keys[unknownKey] = json.RawMessage("1")
	return v.refusesAt(ctx, "an unknown setting", unknownKey, keys)
}

// refusesAt opens the plugin with a bad configuration and wants a fault at key.
// The values are not told: some may be secrets.
func (v *verifier) refusesAt(ctx context.Context, what, key string, keys map[string]json.RawMessage) error {
	raw, err := json.Marshal(keys)
	if err != nil {
		return err
	}
	sink, err := v.open(ctx, raw)
	if err == nil {
		sink.Close()
		return fmt.Errorf("%s is accepted, want a fault at %q", what, key)
	}
	fields := faultFields(err)
	for _, field := range fields {
		rest, ok := strings.CutPrefix(strings.TrimPrefix(field, "config."), key)
		if ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return nil
		}
	}
	return fmt.Errorf("%s is refused at %q, want a fault at %q: %w", what, fields, key, err)
}

// faultFields are the keys that an error points at.
func faultFields(err error) []string {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		var fields []string
		for _, one := range all.Unwrap() {
			fields = append(fields, faultFields(one)...)
		}
		return fields
	}
	if invalid, ok := errors.AsType[*core.InvalidError](err); ok {
		return []string{invalid.Field}
	}
	return nil
}

// maxTried bounds how many settings are tried, as each try starts the plugin.
const maxTried = 8

// pointsAtWrongType gives each setting a section with an unknown key, which
// neither a value nor a list nor a section may be.
func (v *verifier) pointsAtWrongType(ctx context.Context) error {
	if err := v.needsConfig(); err != nil {
		return err
	}
	names := slices.Collect(maps.Keys(v.configKeys()))
	for _, s := range v.info.Settings {
		if key, _, _ := strings.Cut(s.Name, "."); !slices.Contains(names, key) {
			names = append(names, key)
		}
	}
	if len(names) == 0 {
		return skipped("the plugin has no settings")
	}
	slices.Sort(names)
	var faults []error
	for _, name := range names[:min(maxTried, len(names))] {
		keys := v.configKeys()
		keys[name] = json.RawMessage(`{"` + unknownKey + `": true}`)
		faults = append(faults, v.refusesAt(ctx, "a section in place of a value", name, keys))
	}
	return errors.Join(faults...)
}

// pointsAtMissing leaves out each setting that is required. A plugin without
// such a setting must take an empty configuration.
func (v *verifier) pointsAtMissing(ctx context.Context) error {
	if err := v.needsConfig(); err != nil {
		return err
	}
	var faults []error
	tried := 0
	for _, s := range v.info.Settings {
		if s.Required && !strings.Contains(s.Name, ".") && tried < maxTried {
			tried++
			keys := v.configKeys()
			delete(keys, s.Name)
			faults = append(faults, v.refusesAt(ctx, "a configuration without it", s.Name, keys))
		}
	}
	if tried > 0 {
		return errors.Join(faults...)
	}
	sink, err := v.open(ctx, json.RawMessage("{}"))
	if err != nil {
		return fmt.Errorf("no setting is described as required, but an empty configuration fails: %w", err)
	}
	return sink.Close()
}

// closeLimit is what the host gives a plugin, and some.
const closeLimit = 5 * time.Second

func (v *verifier) closesInTime(ctx context.Context) error {
	if err := v.needsConfig(); err != nil {
		return err
	}
	sink, err := v.open(ctx, v.target.Config)
	if err != nil {
		return err
	}
	pid, mark := pidOf(sink), v.log.mark()
	begin := time.Now()
	if err := sink.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	if took := time.Since(begin); took > closeLimit {
		return fmt.Errorf("close took %s, want at most %s", took.Round(time.Millisecond), closeLimit)
	}
	if pid > 0 && isAlive(pid) {
		return fmt.Errorf("process %d still runs after close", pid)
	}
	if warnings := v.log.warningsSince(mark); len(warnings) > 0 {
		return fmt.Errorf("there was trouble while closing: %s", strings.Join(warnings, "; "))
	}
	return nil
}

// pidOf is 0 if the host does not tell.
func pidOf(sink core.Sink) int {
	describer, ok := core.Ability[core.Describer](sink)
	if !ok {
		return 0
	}
	pid, _ := strconv.Atoi(describer.Describe()["pid"]) // none is 0
	return pid
}

// backLimit is for the host to start a plugin again that has been killed.
const backLimit = 15 * time.Second

func (v *verifier) survivesKill(ctx context.Context) error {
	if err := v.needsConfig(); err != nil {
		return err
	}
	sink, err := v.open(ctx, v.target.Config)
	if err != nil {
		return err
	}
	defer sink.Close()
	pid := pidOf(sink)
	if pid == 0 {
		return skipped("the host does not tell the process")
	}
	if err := kill(pid, syscall.SIGKILL); err != nil {
		return err
	}
	if len(v.target.Reader) == 0 && len(v.target.Can) == 0 {
		return v.awaitRestart(ctx, sink, pid)
	}
	return v.awaitDelivery(ctx, sink, pid)
}

// awaitRestart is for a plugin of whose target nothing is known.
func (v *verifier) awaitRestart(ctx context.Context, sink core.Sink, pid int) error {
	for deadline := time.Now().Add(backLimit); time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		if now := pidOf(sink); now > 0 && now != pid {
			return nil
		}
	}
	return fmt.Errorf("it was not started again within %s", backLimit)
}

func (v *verifier) awaitDelivery(ctx context.Context, sink core.Sink, pid int) error {
	now := time.Now()
	m := &core.Message{ID: core.NewIDs().New(0, now), Sink: "verify", Topic: v.newTopic(), Body: []byte("after a kill"),
		DeliverAt: now.Truncate(time.Millisecond)}
	var err error
	for deadline := now.Add(backLimit); time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		m.Attempt++
		if err = v.deliverOnce(ctx, sink, m); err == nil && pidOf(sink) != pid {
			return nil
		}
	}
	return fmt.Errorf("nothing is delivered within %s after a kill: %w", backLimit, err)
}

func (v *verifier) deliverOnce(ctx context.Context, sink core.Sink, m *core.Message) error {
	ctx, cancel := context.WithTimeout(ctx, closeLimit)
	defer cancel()
	return sink.Deliver(ctx, []*core.Message{m})
}

// minSecret is the shortest value that is looked for: a shorter one may stand
// in the log by chance.
const minSecret = 6

func (v *verifier) secretsKept(context.Context) error {
	values, looked := v.configKeys(), 0
	for _, s := range v.info.Settings {
		var value string
		if !s.Secret || json.Unmarshal(values[s.Name], &value) != nil || len(value) < minSecret {
			continue
		}
		looked++
		for _, line := range v.log.since(0) {
			if strings.Contains(line, value) {
				return fmt.Errorf("the value of %q is in the log", s.Name)
			}
		}
	}
	if looked == 0 {
		return skipped("your file has no secret setting")
	}
	return nil
}
