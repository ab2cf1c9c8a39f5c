package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/config"
	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/sinks/plugin"
	"github.com/delaybridge/delaybridge/sinks/suite"
)

// verifier holds one plugin to the protocol and to the suite of sinks.
type verifier struct {
	program
	settings *config.Verify
	tmp      string // a directory for what the plugin and the reader write
	run0     string // makes the topics of this run its own
	topics   atomic.Int64
	log      *logBook
	info     plugin.Info // once it has described itself
	works    bool        // it can be opened
	report   *verifyReport
}

// newVerifier makes a directory, which the caller removes.
func newVerifier(p program, settings *config.Verify) (*verifier, error) {
	hash, err := hashFile(p.Command)
	if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp("", "delaybridge-verify-")
	if err != nil {
		return nil, fmt.Errorf("make a directory: %w", err)
	}
	v := &verifier{program: p, settings: settings, tmp: tmp, log: &logBook{}, run0: strconv.FormatInt(time.Now().UnixMilli(), 36)}
	v.report = &verifyReport{Program: p.Command, SHA256: hash, Reader: len(settings.Reader) > 0}
	inTmp := strings.NewReplacer("{tmp}", tmp).Replace
	v.Config = json.RawMessage(inTmp(string(settings.Config)))
	v.Args, v.Env = make([]string, len(p.Args)), make(map[string]string, len(settings.Env))
	for n, arg := range p.Args {
		v.Args[n] = inTmp(arg)
	}
	for name, value := range settings.Env {
		v.Env[name] = inTmp(value)
	}
	return v, nil
}

// errSkipped wraps why a check could not be made.
var errSkipped = errors.New("skipped")

func skipped(why string) error { return fmt.Errorf("%w: %s", errSkipped, why) }

// chosenCases are what is to be run.
type chosenCases struct {
	protocol []protocolCheck
	suite    []suite.Case
}

// chooseCases finds cases by their numbers, such as K4; none means all. What tells
// the others about the plugin is always among them.
func chooseCases(numbers []string) (chosenCases, error) {
	all := chosenCases{protocolChecks(), suite.Cases()}
	if len(numbers) == 0 {
		return all, nil
	}
	known := map[string]bool{}
	wanted := func(name string) bool {
		number, _, _ := strings.Cut(name, " ")
		known[strings.ToUpper(number)] = true
		return slices.ContainsFunc(numbers, func(n string) bool { return strings.EqualFold(n, number) })
	}
	all.protocol = slices.DeleteFunc(all.protocol, func(c protocolCheck) bool { return !wanted(c.name) && !c.always })
	all.suite = slices.DeleteFunc(all.suite, func(c suite.Case) bool { return !wanted(c.Name) })
	for _, n := range numbers {
		if !known[strings.ToUpper(n)] {
			return all, usageError(fmt.Sprintf("--case %s is not known; they are V1 to V12 and K1 to K%d, see docs/plugins.md", core.Shorten(n, 64), len(suite.Cases())))
		}
	}
	return all, nil
}

// run makes the checks, and tells each result as it comes. The suite comes before the
// last of the protocol, which reads what all others have logged.
func (v *verifier) run(ctx context.Context, cases chosenCases, step func(group string, r verifyResult)) {
	begin := time.Now()
	add := func(group string, r verifyResult) {
		v.report.add(group, r)
		step(group, r)
	}
	for _, c := range cases.protocol {
		if !c.last {
			add("protocol", v.check(ctx, c))
		}
	}
	v.report.Name, v.report.Version, v.report.Protocol = v.info.Name, v.info.Version, v.info.Protocol
	if v.works {
		mark := v.log.mark()
		suite.Check(ctx, cases.suite, v.kit(ctx), func(s suite.Result) {
			add("delivery", v.suiteResult(s, mark))
			mark = v.log.mark()
		})
	}
	for _, c := range cases.protocol {
		if c.last {
			add("protocol", v.check(ctx, c))
		}
	}
	v.report.Seconds = time.Since(begin).Seconds()
}

// check makes one check. What the plugin has logged meanwhile is told with a failure.
func (v *verifier) check(ctx context.Context, c protocolCheck) verifyResult {
	begin, mark := time.Now(), v.log.mark()
	err := ctx.Err()
	if err == nil {
		err = c.run(v, ctx)
	}
	r := verifyResult{Name: c.name, Status: suite.Passed, Seconds: time.Since(begin).Seconds()}
	switch {
	case errors.Is(err, errSkipped), err != nil && ctx.Err() != nil:
		r.Status, r.Log = suite.Skipped, []string{strings.TrimPrefix(err.Error(), errSkipped.Error()+": ")}
	case err != nil:
		r.Status, r.Log = suite.Failed, append([]string{err.Error()}, v.log.warningsSince(mark)...)
	}
	return r
}

func (v *verifier) suiteResult(s suite.Result, mark int) verifyResult {
	r := verifyResult{Name: s.Name, Status: s.Status, Log: s.Log, Seconds: s.Duration.Seconds()}
	if s.Status == suite.Failed {
		r.Log = append(r.Log, v.log.warningsSince(mark)...)
	}
	return r
}

// open opens the sink with another configuration than the file's.
func (v *verifier) open(ctx context.Context, config json.RawMessage) (core.Sink, error) {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	return plugin.Opener(v.log.logger())(ctx, v.with(config))
}

// newTopic is a name that no topic has had.
func (v *verifier) newTopic() string {
	return strings.ReplaceAll(v.settings.Topic, "{n}", fmt.Sprintf("%s-%d", v.run0, v.topics.Add(1)))
}

// logBook keeps what was logged. Safe for concurrent use.
type logBook struct {
	mu    sync.Mutex
	lines []string
	bytes int
}

// maxBook bounds what is kept: a plugin may log without end.
const maxBook = 32 << 20

func (b *logBook) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

func (b *logBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bytes += len(p); b.bytes <= maxBook {
		b.lines = append(b.lines, string(bytes.TrimRight(p, "\n")))
	}
	return len(p), nil
}

func (b *logBook) mark() int { b.mu.Lock(); defer b.mu.Unlock(); return len(b.lines) }

// since returns the lines from mark on.
func (b *logBook) since(mark int) []string { b.mu.Lock(); defer b.mu.Unlock(); return b.lines[mark:] }

const maxWarnings = 10

// warningsSince are the last warnings and errors from mark on.
func (b *logBook) warningsSince(mark int) []string {
	var found []string
	for _, line := range b.since(mark) {
		if strings.HasPrefix(line, "level=WARN") || strings.HasPrefix(line, "level=ERROR") {
			found = append(found, "log: "+core.Shorten(line, 1000))
		}
	}
	return found[max(0, len(found)-maxWarnings):]
}
