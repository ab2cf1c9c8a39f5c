package kit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/sinks/plugin"
	"github.com/delaybridge/delaybridge/sinks/suite"
)

// Target describes how to verify a plugin, and the broker that it delivers to. In all
// texts {tmp} is replaced by a temporary directory.
type Target struct {
	Config       json.RawMessage   // of the sink, a JSON object
	Can          []string          // of suite.Capabilities
	MaxBody      int               // 0 is unknown
	Args         []string          // of the program
	Env          map[string]string // of the program
	MTLS         bool
	Topic        string   // of new topics; {n} is replaced by a unique text
	MakeTopic    []string // command that creates {topic}; empty if none is needed
	Reader       []string // command that prints the messages in {topic}; empty if there is none
	MissingTopic struct {
		Topic string // empty is unknown
		Class string
	}
	Hostile     []string // topics
	Delays      []string // headers
	ReadTimeout time.Duration
	Quiet       time.Duration
}

// verifier holds one plugin to the protocol and to the suite of sinks.
type verifier struct {
	program
	target Target
	tmp    string // a directory for what the plugin and the reader write
	run    string // makes the topics of this run its own
	topics atomic.Int64
	log    *logBook
	info   plugin.Info // once it has described itself
	works  bool        // it can be opened
}

// Verify runs the chosen checks on the program at command, an absolute path, and
// reports each result as soon as it is known. When ctx ends, the remaining checks are
// skipped.
func Verify(ctx context.Context, command string, args []string, target Target, cases Cases, step func(Result)) (r *Report, err error) {
	begin := time.Now()
	hash, err := hashFile(command)
	if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp("", "delaybridge-verify-")
	if err != nil {
		return nil, fmt.Errorf("make a directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	v := newVerifier(program{Command: command, Args: slices.Concat(target.Args, args), MTLS: target.MTLS}, target, tmp)
	r = &Report{Program: command, SHA256: hash, Reader: len(target.Reader) > 0}
	v.checkAll(ctx, cases, func(result Result) {
		r.add(result)
		step(result)
	})
	r.Name, r.Version, r.Protocol = v.info.Name, v.info.Version, v.info.Protocol
	r.Seconds = time.Since(begin).Seconds()
	return r, nil
}

func newVerifier(p program, target Target, tmp string) *verifier {
	inTmp := strings.NewReplacer("{tmp}", tmp)
	p.Args, p.Env = filledIn(p.Args, inTmp), make(map[string]string, len(target.Env))
	for name, value := range target.Env {
		p.Env[name] = inTmp.Replace(value)
	}
	target.Config = json.RawMessage(inTmp.Replace(string(target.Config)))
	target.MakeTopic, target.Reader = filledIn(target.MakeTopic, inTmp), filledIn(target.Reader, inTmp)
	return &verifier{program: p, target: target, tmp: tmp, run: strconv.FormatInt(time.Now().UnixMilli(), 36), log: &logBook{}}
}

func filledIn(texts []string, values *strings.Replacer) []string {
	filled := make([]string, len(texts))
	for n, text := range texts {
		filled[n] = values.Replace(text)
	}
	return filled
}

// errSkipped wraps why a check could not be made.
var errSkipped = errors.New("skipped")

func skipped(why string) error { return fmt.Errorf("%w: %s", errSkipped, why) }

// Cases are checks of the protocol and cases of the suite.
type Cases struct {
	protocol []protocolCheck
	suite    []suite.Case
}

// ChooseCases returns the cases with the given numbers, such as K4; none means all.
// Cases that others depend on are always included.
func ChooseCases(numbers []string) (Cases, error) {
	all := Cases{protocolChecks(), suite.Cases()}
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
			return all, fmt.Errorf("case %s is not known; they are V1 to V%d and K1 to K%d, see docs/plugins.md", core.Shorten(n, 64), len(protocolChecks()), len(suite.Cases()))
		}
	}
	return all, nil
}

// checkAll makes the checks. The suite comes before the last of the protocol, which
// reads what all others have logged.
func (v *verifier) checkAll(ctx context.Context, cases Cases, step func(Result)) {
	protocol := func(last bool) {
		for _, c := range cases.protocol {
			if c.last == last {
				step(v.check(ctx, c))
			}
		}
	}
	protocol(false)
	if v.works {
		mark := v.log.mark()
		suite.Check(ctx, cases.suite, v.kit(ctx), func(s suite.Result) {
			step(v.suiteResult(s, mark))
			mark = v.log.mark()
		})
	}
	protocol(true)
}

// check makes one check. What the plugin has logged meanwhile is told with a failure.
func (v *verifier) check(ctx context.Context, c protocolCheck) Result {
	begin, mark := time.Now(), v.log.mark()
	err := ctx.Err()
	if err == nil {
		err = c.run(v, ctx)
	}
	r := Result{Group: "protocol", Name: c.name, Status: suite.Passed, Seconds: time.Since(begin).Seconds()}
	switch {
	case errors.Is(err, errSkipped), err != nil && ctx.Err() != nil:
		r.Status, r.Log = suite.Skipped, []string{strings.TrimPrefix(err.Error(), errSkipped.Error()+": ")}
	case err != nil:
		r.Status, r.Log = suite.Failed, append([]string{err.Error()}, v.log.warningsSince(mark)...)
	}
	return r
}

func (v *verifier) suiteResult(s suite.Result, mark int) Result {
	r := Result{Group: "delivery", Name: s.Name, Status: s.Status, Log: s.Log, Seconds: s.Duration.Seconds()}
	if s.Status == suite.Failed {
		r.Log = append(r.Log, v.log.warningsSince(mark)...)
	}
	return r
}

// open opens the sink with another configuration than the file's.
func (v *verifier) open(ctx context.Context, config json.RawMessage) (core.Sink, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return plugin.Opener(v.log.logger())(ctx, v.with(config))
}

// newTopic is a name that no topic has had.
func (v *verifier) newTopic() string {
	return strings.ReplaceAll(v.target.Topic, "{n}", fmt.Sprintf("%s-%d", v.run, v.topics.Add(1)))
}
