package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/cmd/delaybridge/config"
	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/redisstore"
	"github.com/delaybridge/delaybridge/internal/metrics"
	"github.com/delaybridge/delaybridge/sinks/plugin"
)

// reloads is what became of the configurations that an instance has read. Its methods
// can be called at any time.
type reloads struct {
	mu         sync.Mutex
	generation int
	at         time.Time
	err        error
}

// Generation returns how many different configurations were applied, the first included.
func (r *reloads) Generation() int { r.mu.Lock(); defer r.mu.Unlock(); return r.generation }

// LastSuccess returns when a configuration was last read and applied, or found to be the
// present one.
func (r *reloads) LastSuccess() time.Time { r.mu.Lock(); defer r.mu.Unlock(); return r.at }

// LastError returns why the last reload failed; nil if it did not.
func (r *reloads) LastError() error { r.mu.Lock(); defer r.mu.Unlock(); return r.err }

// loaded is for metrics.
func (r *reloads) loaded() metrics.Loaded {
	return metrics.Loaded{Generation: r.Generation(), At: r.LastSuccess(), Failed: r.LastError() != nil}
}

// note notes how a reload ended, and whether it has changed something.
func (r *reloads) note(changed bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err = err; err != nil {
		return
	}
	r.at = time.Now()
	if changed {
		r.generation++
	}
}

// reloaded is what a reload has done, as POST /v1/reload answers.
type reloaded struct {
	Generation int             `json:"generation"`
	Changes    []config.Change `json:"changes"`
	Parked     map[string]int  `json:"parked,omitempty"` // for removed sinks
	NotStopped string          `json:"not_stopped,omitempty"`
}

func (r *reloaded) keys() (keys []string) {
	for _, one := range r.Changes {
		keys = append(keys, one.Key)
	}
	return keys
}

func (i *instance) reloadByRequest(ctx context.Context, dryRun bool) (any, error) {
	done, err := i.reload(ctx, dryRun)
	return done, err
}

// reload reads the configuration again, checks all of it, and applies it unless dryRun.
// On error nothing has changed. Others who reload wait.
func (i *instance) reload(ctx context.Context, dryRun bool) (reloaded, error) {
	select {
	case i.turn <- struct{}{}:
		defer func() { <-i.turn }()
	case <-i.ending:
		return reloaded{}, core.ErrEnded
	}
	done, next, err := i.compare(ctx)
	if err == nil && (dryRun || len(done.Changes) == 0) {
		if !dryRun {
			i.tell(next.config) // of which only the text is another
		}
		err = next.discard()
	} else if err == nil {
		err = i.replace(ctx, next, &done)
	}
	if dryRun {
		return done, err
	}
	i.reloads.note(len(done.Changes) > 0, err)
	done.Generation = i.reloads.Generation()
	i.logReload(done, err)
	i.telemetry.events.Reloaded(done.keys(), err)
	return done, err
}

// compare reads the configuration and prepares it.
func (i *instance) compare(ctx context.Context) (reloaded, *prepared, error) {
	done := reloaded{Generation: i.reloads.Generation(), Changes: []config.Change{}}
	c, err := config.Load(i.path, configOptions())
	if err != nil {
		return done, nil, err
	}
	changes := config.Diff(i.present.config, c)
	if err := needRestart(i.present.config, c, changes); err != nil {
		return done, nil, err
	}
	next, err := prepare(ctx, c, i.present, i.log, plugin.PatientOpener)
	if err != nil {
		return done, nil, err
	}
	if slices.ContainsFunc(changes, func(one config.Change) bool { return strings.HasPrefix(one.Key, "store.redis.") }) {
		err = tryStore(ctx, next.redis)
	}
	if err != nil {
		return done, nil, errors.Join(err, next.discard())
	}
	done.Changes = append(done.Changes, changes...)
	done.Parked = i.parkedFor(ctx, i.present, next)
	return done, next, nil
}

func needRestart(present, next *config.Config, changes []config.Change) error {
	var errs []error
	for _, one := range config.NeedRestart(present, next, changes) {
		errs = append(errs, core.Invalidf(one.Place(), "can't be changed while the bridge runs; change it back, or restart the bridge"))
	}
	return next.Fault("", errors.Join(errs...))
}

// tryStore finds out whether Redis takes another login or certificate.
func tryStore(ctx context.Context, c redisstore.Config) error {
	s, err := redisstore.Open(ctx, c)
	if err != nil {
		return fmt.Errorf("connect to Redis with the new settings: %w", err)
	}
	return s.Close()
}

// replace applies next.
func (i *instance) replace(ctx context.Context, next *prepared, done *reloaded) error {
	before := i.present
	applied, err := i.apply(next)
	if !applied {
		return errors.Join(err, next.discard())
	}
	if err != nil {
		done.NotStopped = err.Error()
	}
	done.Parked = i.parkedFor(ctx, before, next)
	return nil
}

// parkedFor counts the messages of the sinks that next lacks; negative is unknown.
func (i *instance) parkedFor(ctx context.Context, before, next *prepared) map[string]int {
	parked := make(map[string]int)
	for _, s := range before.config.Sinks {
		if _, d := next.sink(s.Name); d != nil {
			continue
		}
		parked[s.Name] = -1
		if stats, err := i.store.Stats(ctx, s.Name); err == nil {
			parked[s.Name] = stats[0].Scheduled + stats[0].Dead
		}
	}
	return parked
}

func (i *instance) logReload(done reloaded, err error) {
	if err != nil {
		i.log.Error("reload failed, the bridge runs on with the configuration before", "err", err)
		return
	}
	for _, one := range done.Changes {
		i.log.Info("configuration changed", "key", one.Key, "change", one.Kind, "old", one.Old, "new", one.New)
	}
	for name, count := range done.Parked {
		i.log.Warn("sink removed, its messages stay parked until it is back", "sink", name, "messages", count)
	}
	if done.NotStopped != "" {
		i.log.Warn("reload", "err", done.NotStopped)
	}
	if len(done.Changes) == 0 {
		i.log.Info("configuration read again, nothing has changed")
		return
	}
	i.log.Info("configuration reloaded", "generation", done.Generation, "changes", len(done.Changes))
}

// reloadAt reloads when it is signalled, and if watch is positive when the files have
// changed and are the same at two looks. It returns when ctx ends and no reload is in
// progress.
func (i *instance) reloadAt(ctx context.Context, signals <-chan os.Signal, watch time.Duration) {
	var tick <-chan time.Time
	if watch > 0 {
		ticker := time.NewTicker(watch)
		defer ticker.Stop()
		tick = ticker.C
	}
	var applied, seen string
	for {
		select {
		case <-ctx.Done():
			close(i.ending)
			i.turn <- struct{}{} // for good
			return
		case <-signals:
		case <-tick:
			was := seen
			if seen = i.filesNow(); seen != was || seen == applied {
				continue
			}
			applied = seen
		}
		_, _ = i.reload(context.WithoutCancel(ctx), false) // it has logged how it ended
	}
}

// filesNow is different if the configuration, or a file that it names, is.
func (i *instance) filesNow() string {
	i.turn <- struct{}{}
	names := append([]string{i.path}, i.present.config.Files()...)
	<-i.turn
	sum := sha256.New()
	for _, name := range names {
		text, err := os.ReadFile(name)
		fmt.Fprintf(sum, "%q %v %d ", name, err, len(text))
		sum.Write(text)
	}
	return string(sum.Sum(nil))
}
