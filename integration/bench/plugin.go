package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/redisstore"
	"github.com/delaybridge/delaybridge/sinks/plugin"
)

// pluginArg has this program serve a null sink as a plugin.
const pluginArg = "null-sink"

func servePlugin() {
	if len(os.Args) == 2 && os.Args[1] == pluginArg {
		plugin.Serve(plugin.Definition{Name: pluginArg, Version: "bench", Open: func(context.Context, json.RawMessage) (core.Sink, error) {
			return confirming{}, nil
		}})
	}
}

// confirming confirms all.
type confirming struct{}

func (confirming) Deliver(context.Context, []*core.Message) error { return nil }
func (confirming) Close() error                                   { return nil }

// counted notes in a nullSink what another sink has confirmed.
type counted struct {
	core.Sink
	count nullSink
}

func (s *counted) Deliver(ctx context.Context, batch []*core.Message) error {
	if err := s.Sink.Deliver(ctx, batch); err != nil {
		return err
	}
	return s.count.Deliver(ctx, batch)
}

// measurePlugin: a null sink behind the boundary of processes, beside the same
// in this process: in a bridge, and alone. The processor time counts Redis, the
// bridge and the plugin; it hardly depends on what else the machine does.
func measurePlugin(ctx context.Context, b *bench) error {
	inProcess := func() (core.Sink, error) { return confirming{}, nil }
	base, err := medianPlugin(ctx, b, inProcess)
	if err != nil {
		return err
	}
	for _, mtls := range []bool{true, false} {
		open := func() (core.Sink, error) { return openNullPlugin(ctx, mtls) }
		name := "with mTLS"
		if !mtls {
			name = "without mTLS"
		}
		run, err := medianPlugin(ctx, b, open)
		if err != nil {
			return err
		}
		b.table.rates(fmt.Sprintf("burst of %d k into a null sink that is a plugin, %s; raw: the sink in process", pluginBurst/1000, name),
			run.rate, base.rate, "≥ 50 %, ≥ 100 k/s")
		b.table.row("… processor time a message", micros(run.cpu), micros(base.cpu),
			fmt.Sprintf("%.0f %%", 100*base.cpu.Seconds()/run.cpu.Seconds()), "≥ 50 %")
		rate, err := boundary(ctx, open)
		if err != nil {
			return err
		}
		b.table.row("… the boundary alone, 16 callers of batches of 500", perSecond(rate), "", "", "")
	}
	return nil
}

func micros(d time.Duration) string { return fmt.Sprintf("%.1f µs", float64(d.Nanoseconds())/1000) }

func openNullPlugin(ctx context.Context, mtls bool) (core.Sink, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(map[string]any{"command": path, "args": []string{pluginArg}, "mtls": mtls})
	if err != nil {
		return nil, err
	}
	return plugin.Opener(nil)(ctx, config)
}

const pluginBurst = 300_000

// pluginRun is what one burst has shown.
type pluginRun struct {
	rate float64
	cpu  time.Duration // for each message
}

// medianPlugin is the middle, by rate, of three bursts on an emptied Redis.
func medianPlugin(ctx context.Context, b *bench, open func() (core.Sink, error)) (pluginRun, error) {
	var runs []pluginRun
	for range 3 {
		if err := b.redis.flush(ctx); err != nil {
			return pluginRun{}, err
		}
		run, err := runPlugin(ctx, b, open)
		if err != nil {
			return pluginRun{}, err
		}
		runs = append(runs, run)
	}
	slices.SortFunc(runs, func(a, b pluginRun) int { return cmp.Compare(a.rate, b.rate) })
	return runs[1], nil
}

// runPlugin drains messages that are due already through a real dispatcher.
func runPlugin(ctx context.Context, b *bench, open func() (core.Sink, error)) (run pluginRun, err error) {
	store, err := redisstore.Open(ctx, redisstore.Config{Addrs: []string{b.redis.addr}})
	if err != nil {
		return run, err
	}
	inner, err := open()
	if err != nil {
		return run, errors.Join(err, store.Close())
	}
	sink := &counted{Sink: inner}
	sink.count.expect(pluginBurst)
	d := &core.Dispatcher{Name: benchSink, Sink: sink}
	whole := core.NewBridge(store, core.Options{}, d)
	br := &bridge{in: whole.Interceptor}
	if err := br.fill(ctx, pluginBurst, bodySize, in(0)); err != nil {
		return run, errors.Join(err, inner.Close(), store.Close())
	}
	runtime.GC()
	before, err := cpuTimes(b, inner)
	if err != nil {
		return run, errors.Join(err, inner.Close(), store.Close())
	}
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- whole.Run(running) }()
	defer func() { cancel(); err = errors.Join(err, <-ended) }()
	select {
	case <-sink.count.reached:
	case <-ctx.Done():
		return run, ctx.Err()
	}
	run.rate = pluginBurst / time.Duration(sink.count.last.Load()-sink.count.first.Load()).Seconds()
	after, err := cpuTimes(b, inner)
	run.cpu = (after - before) / pluginBurst
	return run, err
}

// cpuTimes is the processor time of all that takes part.
func cpuTimes(b *bench, sink core.Sink) (sum time.Duration, err error) {
	pids := []int{os.Getpid(), b.redis.cmd.Process.Pid}
	if d, ok := core.Ability[core.Describer](sink); ok {
		pid, err := strconv.Atoi(d.Describe()["pid"])
		if err != nil {
			return 0, fmt.Errorf("find the plugin's process: %w", err)
		}
		pids = append(pids, pid)
	}
	for _, pid := range pids {
		used, err := cpuTime(pid)
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

// boundary sends batches without a store.
func boundary(ctx context.Context, open func() (core.Sink, error)) (rate float64, err error) {
	const callers, size, batches = 16, 500, 2000
	sink, err := open()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, sink.Close()) }()
	batch, now, ids := make([]*core.Message, size), time.Now(), core.NewIDs()
	for i := range batch {
		batch[i] = &core.Message{ID: ids.New(0, now), Sink: benchSink, Topic: "t", Body: body(bodySize), DeliverAt: now, Attempt: 1}
	}
	var next atomic.Int64
	began := time.Now()
	err = parallel(callers, func() error {
		for next.Add(1) <= batches {
			if err := sink.Deliver(ctx, batch); err != nil {
				return err
			}
		}
		return nil
	})
	return size * batches / time.Since(began).Seconds(), err
}
