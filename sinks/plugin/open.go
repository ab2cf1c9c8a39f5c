package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// Opener returns a core.OpenFunc whose sinks are plugins: each call starts one process,
// which is restarted if it ends, until the Sink is closed. log receives the plugin's
// output and the events of its process; nil discards both.
//
// The errors of the OpenFunc are one or several joined *core.InvalidError if settings
// are invalid; the names of the plugin's own settings have the prefix "config.". Other
// errors mean that the plugin did not start. After an error no process runs.
func Opener(log *slog.Logger) core.OpenFunc {
	return opener(log, func(settings) bool { return false })
}

// PatientOpener is like Opener, but a plugin that does not start is not an error,
// unless the configuration has required: true. The sink then delivers nothing until the
// plugin starts. Invalid settings, also the plugin's own, are still errors.
func PatientOpener(log *slog.Logger) core.OpenFunc {
	return opener(log, func(s settings) bool { return !s.required })
}

// Checker is like Opener, but executes nothing: it checks the settings and the file
// with its checksum, but not the plugin's own settings. Its sinks deliver nothing.
func Checker(*slog.Logger) core.OpenFunc {
	return func(_ context.Context, config json.RawMessage) (core.Sink, error) {
		s, err := decode(config, os.LookupEnv)
		if err != nil {
			return nil, err
		}
		if err := checkFile(s); err != nil {
			return nil, openError(err)
		}
		return unstarted{}, nil
	}
}

func checkFile(s settings) error {
	file, err := findBinary(s.command, s.sha256)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "delaybridge-check-")
	if err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	defer os.RemoveAll(dir)
	_, err = file.executable(dir)
	return err
}

// unstarted is a sink without a plugin.
type unstarted struct{}

func (unstarted) Deliver(context.Context, []*core.Message) error { return errClosed }
func (unstarted) Close() error                                   { return nil }

func opener(log *slog.Logger, patient func(settings) bool) core.OpenFunc {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return func(ctx context.Context, config json.RawMessage) (core.Sink, error) {
		s, err := decode(config, os.LookupEnv)
		if err != nil {
			return nil, err
		}
		return open(ctx, s, log, patient(s))
	}
}

func open(ctx context.Context, settings settings, log *slog.Logger, patient bool) (core.Sink, error) {
	s := &Sink{settings: settings, log: log, out: &output{log: log}, done: make(chan struct{})}
	in, err := s.start(ctx)
	_, refuses := errors.AsType[*refused](err)
	switch {
	case err == nil:
		s.run(in)
	case !patient || refuses || ctx.Err() != nil:
		return nil, openError(err)
	default:
		s.pause(stateRestarting, classified(err))
		s.lastExit = clean(oneLine(err))
	}
	if settings.sha256 == nil {
		log.Warn("plugin is not pinned: without sha256, any program at this path is executed", "command", settings.command)
	}
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	go s.supervise(ctx, in, err)
	if in == nil || in.about.GetChecks() { // it may check once it runs
		return checkingSink{s}, nil
	}
	return s, nil
}

// openError leaves faults of settings as they are, for whoever finds their place.
func openError(err error) error {
	if e, ok := errors.AsType[*refused](err); ok {
		return e.error
	}
	if e, ok := errors.AsType[*core.InvalidError](err); ok {
		return e
	}
	return fmt.Errorf("start the plugin: %w", err)
}

// Info is a plugin's description of itself.
type Info struct {
	Name          string        `json:"name"`
	Version       string        `json:"version"`
	Description   string        `json:"description,omitempty"`
	Protocol      int           `json:"protocol"` // version of the protocol
	Start         time.Duration `json:"-"`        // time from the start to this description
	Checks        bool          `json:"checks"`
	TellsHealth   bool          `json:"tells_health"`
	MaxBatch      int           `json:"max_batch,omitempty"`       // 0: the host's bound
	MaxBatchBytes int64         `json:"max_batch_bytes,omitempty"` // 0: the host's bound
	Settings      []Setting     `json:"settings"`
}

// Inspect starts a plugin, returns its description, and stops it. config is the
// configuration of a sink of type plugin; the plugin's own settings in it are ignored.
// Errors are those of Opener's function.
func Inspect(ctx context.Context, config json.RawMessage, log *slog.Logger) (Info, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s, err := decode(config, os.LookupEnv)
	if err != nil {
		return Info{}, err
	}
	began := time.Now()
	in, err := launch(ctx, s, &output{log: log})
	if err != nil {
		return Info{}, openError(err)
	}
	took := time.Since(began)
	defer in.stop(s.stopTimeout)
	return in.info(took), nil
}

func (in *instance) info(took time.Duration) Info {
	a := in.about
	i := Info{
		Name: clean(a.GetName()), Version: clean(a.GetVersion()), Description: clean(a.GetDescription()),
		Checks: a.GetChecks(), TellsHealth: a.GetTellsHealth(),
		MaxBatch: int(a.GetMaxBatch()), MaxBatchBytes: a.GetMaxBatchBytes(),
		Protocol: in.client.NegotiatedVersion(), Start: took,
	}
	for _, s := range a.GetSettings() {
		i.Settings = append(i.Settings, Setting{
			Name: clean(s.GetName()), Description: clean(s.GetDescription()), Default: clean(s.GetDefaultValue()),
			Required: s.GetRequired(), Secret: s.GetSecret(),
		})
	}
	return i
}
