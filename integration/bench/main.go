// Command bench measures what delaybridge costs: each figure stands beside the
// raw limit of the same run, which is a bare client loop that does the least
// possible Redis work for the same job on the same server. So the shares hold
// where absolute rates differ from machine to machine.
//
//	go run ./integration/bench             everything, about a quarter of an hour
//	go run ./integration/bench -run park   one part: park, http, burst, lateness, memory, idle, growth, brokers, plugin, source, observed
//	go run ./integration/bench -run scale  many buckets, sinks and instances: scale.leases, scale.failures, scale.balance,
//	                                       scale.sinks, scale.keyed, scale.list, scale.byid
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/core/redisstore"
)

func main() {
	servePlugin()
	redisstore.LogClient(slog.New(slog.DiscardHandler)) // it would write between the rows
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// part is one group of figures.
type part struct {
	name    string
	measure func(context.Context, *bench) error
}

func parts() []part {
	return append([]part{
		{"park", measurePark},
		{"http", measureHTTP},
		{"burst", measureBurst},
		{"lateness", measureLateness},
		{"memory", measureMemory},
		{"idle", measureIdle},
		{"growth", measureGrowth},
		{"brokers", measureBrokers},
		{"plugin", measurePlugin},
		{"source", measureSource},
		{"observed", measureObserved},
	}, scaleParts()...)
}

// bench is what the parts share.
type bench struct {
	redis *redisProcess
	table *table
	large bool // also what needs more than 2 GB of memory
	burst int  // messages of a burst of scale.leases
	lease time.Duration
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	only := flags.String("run", "", "parts to run, separated by commas, as park,scale.list; all if empty")
	profile := flags.String("cpuprofile", "", "write a processor profile of this process to a file")
	b := &bench{table: &table{out: out}}
	flags.IntVar(&b.burst, "burst", 300_000, "messages of the bursts of scale.leases")
	flags.DurationVar(&b.lease, "lease", time.Second, "lease of scale.leases, which a burst should outlast")
	flags.BoolVar(&b.large, "large", false, "measure growth up to 10 million messages (5 GB of memory)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *profile != "" {
		file, err := os.Create(*profile)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	b.table.head()
	for _, p := range parts() {
		if *only != "" && !contains(*only, p.name) {
			continue
		}
		if err := b.fresh(ctx, p); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

func contains(list, name string) bool {
	for one := range strings.SplitSeq(list, ",") {
		if one == name || strings.HasPrefix(name, one+".") {
			return true
		}
	}
	return false
}

// fresh runs a part on a Redis of its own.
func (b *bench) fresh(ctx context.Context, p part) error {
	redis, err := startRedis(ctx)
	if err != nil {
		return err
	}
	defer redis.stop()
	b.redis = redis
	return p.measure(ctx, b)
}

// table prints figures as they come, as Markdown.
type table struct{ out io.Writer }

func (t *table) head() {
	fmt.Fprintln(t.out, "| what | measured | raw limit, same run | share | aim |")
	fmt.Fprintln(t.out, "|---|--:|--:|--:|---|")
}

func (t *table) row(what, measured, raw, share, aim string) {
	fmt.Fprintf(t.out, "| %s | %s | %s | %s | %s |\n", what, measured, raw, share, aim)
}

// rates prints a rate beside its raw limit.
func (t *table) rates(what string, rate, raw float64, aim string) {
	t.row(what, perSecond(rate), perSecond(raw), fmt.Sprintf("%.0f %%", 100*rate/raw), aim)
}

// durations prints a duration beside one that is to be compared with it.
func (t *table) durations(what string, measured, raw time.Duration, aim string) {
	t.row(what, millis(measured), millis(raw), times(float64(measured), float64(raw)), aim)
}

func times(measured, raw float64) string { return fmt.Sprintf("%.1f ×", measured/raw) }

func perSecond(rate float64) string { return fmt.Sprintf("%.0f k/s", rate/1000) }
