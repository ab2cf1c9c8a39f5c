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

// Opener returns a core.OpenFunc whose sinks are plugins: each call starts one
// process, and keeps one running until the Sink is closed. What the plugin
// prints goes to log, and what becomes of it; nil discards both.
//
// The errors of the OpenFunc are *core.InvalidError where a setting is at fault,
// one or several that are joined; the plugin's own settings have "config." before
// their names. Other errors say that the plugin did not start. After one, nothing
// runs.
func Opener(log *slog.Logger) core.OpenFunc {
	return opener(log, func(settings) bool { return false })
}

// PatientOpener is an Opener for a bridge that has other sinks as well: unless the
// configuration says required, its sinks are there although their plugin does not
// start, deliver nothing, and continue when it does. What the plugin says of its own
// settings is an error all the same.
func PatientOpener(log *slog.Logger) core.OpenFunc {
	return opener(log, func(s settings) bool { return !s.required })
}

// Checker is an Opener that executes nothing: it checks the settings and the file,
// with its pin, but not what the plugin says of its own settings. Its sinks deliver
// nothing.
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
		log.Warn("plugin is not pinned: without sha256, any program at this path is run", "command", settings.command)
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

// Info is what a plugin says of itself.
type Info struct {
	Name          string        `json:"name"`
	Version       string        `json:"version"`
	Description   string        `json:"description,omitempty"`
	Protocol      int           `json:"protocol"` // the version of the protocol that is spoken
	Start         time.Duration `json:"-"`        // how long it took until it had said all this
	Checks        bool          `json:"checks"`
	TellsHealth   bool          `json:"tells_health"`
	MaxBatch      int           `json:"max_batch,omitempty"`       // 0: the host's bound
	MaxBatchBytes int64         `json:"max_batch_bytes,omitempty"` // 0: the host's bound
	Settings      []Setting     `json:"settings"`
}

// Inspect starts a plugin, has it describe itself, and ends it. config is that
// of a sink of type plugin; the plugin's own part of it is not looked at. Errors
// as those of Opener's function.
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
