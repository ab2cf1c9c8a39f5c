package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/config"
	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/redisstore"
	"github.com/delaybridge/delaybridge/internal/events"
	"github.com/delaybridge/delaybridge/internal/tlsfiles"
	"github.com/delaybridge/delaybridge/sinks/plugin"
)

func (a *app) doctorCommand() *cobra.Command {
	var path, output string
	cmd := &cobra.Command{
		Use:   "doctor --config FILE",
		Short: "Check Redis, brokers and certificates, and say what to do",
		Long: `Check what a configuration file names: Redis with its settings, memory, clock and
rights; the brokers of sinks and sources with their topics, queues and groups; and the
expiry of certificates. Each finding is ok, a warning or a problem, with what to do about
it. The exit code is 1 if there is a problem, and 3 if the file is invalid.

No instance needs to run, and those that run are not disturbed: nothing is written, and
no message is read. Plugins are started, and asked for their health. Each part has
` + doctorTimeout.String() + `, all at the same time.`,
		Example: "  delaybridge doctor --config delaybridge.yaml\n  delaybridge doctor -o json",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVar(&path, "config", "", "path of the configuration file (env "+envConfig+")")
	outputFlag(cmd, &output)
	cmd.RunE = a.runE(func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context(), path, output) })
	return cmd
}

// doctorTimeout is for each part.
const doctorTimeout = 10 * time.Second

// part is what is checked at the same time as the others.
type part struct {
	name     string // such as sink orders
	diagnose func(ctx context.Context) []core.Finding
}

func (a *app) doctor(ctx context.Context, path, output string) (err error) {
	out, err := newPrinter(a.stdout, output)
	if err != nil {
		return err
	}
	c, err := loadConfig(path)
	if err != nil {
		return err
	}
	quiet := slog.New(slog.DiscardHandler)
	redisstore.LogClient(quiet)
	checked, err := prepare(ctx, c, nil, quiet, plugin.PatientOpener)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, checked.discard()) }()
	parts, err := checked.parts(quiet)
	if err != nil {
		return err
	}
	return out.findings(core.Findings(len(parts), func(i int) []core.Finding {
		ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
		defer cancel()
		found := parts[i].diagnose(ctx)
		for n := range found {
			found[n].About = parts[i].name + ": " + found[n].About
		}
		return found
	}))
}

func (p *prepared) parts(log *slog.Logger) ([]part, error) {
	c := p.config
	sources, err := newSources(c, c.Sources, core.NewBridge(nil, core.Options{Limits: c.Limits.Limits}, p.sinks...).Interceptor, log)
	if err != nil {
		return nil, err
	}
	parts := []part{{"redis", p.diagnoseRedis}, {"file", func(context.Context) []core.Finding { return diagnoseFiles(c.Files()) }}}
	for n, s := range c.Sinks {
		parts = append(parts, part{"sink " + s.Name, func(ctx context.Context) []core.Finding { return diagnoseSink(ctx, p.sinks[n].Sink, topicsOf(c, s)) }})
	}
	for _, s := range sources {
		if d, ok := core.Ability[core.Diagnoser](s.Reader); ok {
			parts = append(parts, part{sourcePart(s.Name), func(ctx context.Context) []core.Finding { return d.Diagnose(ctx, nil) }})
		}
	}
	return parts, nil
}

// topicsOf are those of a sink that the configuration names: by itself, for a source, or for events.
func topicsOf(c *config.Config, sink config.Sink) []string {
	topics := slices.Clone(sink.MetricTopics)
	for _, s := range c.Sources {
		var to struct{ Sink, Topic string }
		if err := json.Unmarshal(s.Config, &to); err == nil && to.Topic != "" && (to.Sink == sink.Name || to.Sink == "" && len(c.Sinks) == 1) {
			topics = append(topics, to.Topic)
		}
	}
	if c.Events.Sink == sink.Name {
		topics = append(topics, c.Events.Topic)
	}
	return slices.Compact(slices.Sorted(slices.Values(topics)))
}

func (p *prepared) diagnoseRedis(ctx context.Context) []core.Finding {
	var names []string
	for _, s := range p.config.Sinks {
		names = append(names, s.Name)
	}
	if p.events != nil {
		p.redis.Final = events.New("").Final(false) // it needs more rights
	}
	shown := p.redis.Addrs
	if p.redis.TLS == nil {
		shown = nil
	}
	return core.Findings(1+len(shown), func(i int) (found []core.Finding) {
		if i == 0 {
			return redisstore.Diagnose(ctx, p.redis, names)
		}
		addr := shown[i-1]
		dialer := tls.Dialer{Config: tlsfiles.Witness(p.redis.TLS, func(cert *x509.Certificate) { found = append(found, tlsfiles.Expiry(addr, cert)) })}
		connection, err := dialer.DialContext(ctx, "tcp", addr)
		if err != nil {
			return []core.Finding{{Level: core.FindingProblem, About: addr, Text: err.Error(), Fix: "start the server, or correct store.redis.tls"}}
		}
		connection.Close()
		return found
	})
}

// diagnoseFiles looks at the first certificate of each file that has one.
func diagnoseFiles(names []string) (found []core.Finding) {
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		text, _ := os.ReadFile(name) // it could be read just now
		if block, _ := pem.Decode(text); block != nil && block.Type == "CERTIFICATE" {
			if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
				found = append(found, tlsfiles.Expiry(name, cert))
			}
		}
	}
	return found
}

func diagnoseSink(ctx context.Context, sink core.Sink, topics []string) []core.Finding {
	if d, ok := core.Ability[core.Diagnoser](sink); ok {
		found := d.Diagnose(ctx, topics)
		if len(topics) == 0 {
			found = append(found, core.Finding{Level: core.FindingOK, About: "topics", Text: "not checked: the sink has no metric_topics, and no source has a topic for it"})
		}
		return found
	}
	f := core.Finding{Level: core.FindingOK, About: "health", Text: "nothing to check"}
	if h, ok := core.Ability[core.HealthChecker](sink); ok {
		f.Text = "good; topics and certificates are not checked"
		if err := h.Health(ctx); err != nil {
			f.Level, f.Text, f.Fix = core.FindingProblem, err.Error(), "correct that, and try the plugin with delaybridge plugin verify"
		}
	}
	return []core.Finding{f}
}

// findings prints what was found. The error says that there is a problem.
func (p printer) findings(found []core.Finding) error {
	count := make(map[string]int)
	var lines strings.Builder
	for _, f := range found {
		count[f.Level]++
		fmt.Fprintf(&lines, "%-8s %s: %s\n", f.Level, escape(f.About), escape(f.Text))
		if f.Fix != "" {
			fmt.Fprintf(&lines, "%8s to do: %s\n", "", escape(f.Fix))
		}
	}
	fmt.Fprintf(&lines, "%s, %s\n", counted(count[core.FindingProblem], "problem"), counted(count[core.FindingWarning], "warning"))
	var err error
	switch p.format {
	case formatTable:
		err = p.print(lines.String())
	case formatJSON:
		err = p.value(found)
	default:
		for _, f := range found {
			err = errors.Join(err, p.value(f))
		}
	}
	if err != nil || count[core.FindingProblem] == 0 {
		return err
	}
	return coded(exitFailed, errReported)
}
