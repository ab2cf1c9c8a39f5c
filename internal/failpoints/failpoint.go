//go:build failpoints && unix

package failpoints

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// envFailpoint says where to fail, when and how: a list, separated by commas, of
//
//	point:hit[+]:action[:duration][@file]
//
//	settle.before:17:kill          SIGKILL to itself before the 17th settle
//	take.after:3:stop              SIGSTOP to itself after the third take
//	deliver.before:1:sleep:5s      the first delivery begins 5 s late
//	deliver.before:2:unknown       the second one is not tried, and its outcome is said to be unknown
//	park.after:1+:error@/tmp/on    each park is done but reported as unknown while the file is there
//	deliver.poison:1+:permanent    each delivery with such a message is refused permanently
//
// The points are park, take, deliver, settle, own (the work on a bucket) and
// cancel, each with .before and .after; deliver.poison is a delivery in which there is
// a message of topic poison. Hits count from 1, and where there is a
// file only while it exists. A + means this hit and all after it.
const envFailpoint = "DELAYBRIDGE_FAILPOINT"

// stopTakes is longer than a SIGSTOP needs to stop all threads.
const stopTakes = 20 * time.Millisecond

var (
	errFailpoint        = errors.New("failpoint")
	errFailpointUnknown = errors.New("outcome unknown")
)

// failpoint is one place in which to fail.
type failpoint struct {
	point    string
	hit      int64
	onwards  bool
	action   string
	duration time.Duration
	file     string
	hits     atomic.Int64
}

type failpoints []*failpoint

// readFailpoints ends the process if it can't make sense of the environment.
func readFailpoints() failpoints {
	var all failpoints
	for _, text := range strings.Split(os.Getenv(envFailpoint), ",") {
		if text == "" {
			continue
		}
		f, err := parseFailpoint(text)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %q: %v\n", envFailpoint, text, err)
			os.Exit(3) // the exit code for a wrong configuration
		}
		all = append(all, f)
	}
	return all
}

func parseFailpoint(text string) (*failpoint, error) {
	f := &failpoint{}
	text, f.file, _ = strings.Cut(text, "@")
	parts := strings.Split(text, ":")
	if len(parts) < 3 {
		return nil, errors.New("is not point:hit:action")
	}
	f.point, f.action = parts[0], parts[2]
	count, onwards := strings.CutSuffix(parts[1], "+")
	f.onwards = onwards
	var err error
	if f.hit, err = strconv.ParseInt(count, 10, 64); err != nil || f.hit < 1 {
		return nil, errors.New("hits count from 1")
	}
	switch f.action {
	case "kill", "stop", "error", "unknown", "permanent":
	case "sleep":
		if len(parts) != 4 {
			return nil, errors.New("sleep needs a duration")
		}
		f.duration, err = time.ParseDuration(parts[3])
	default:
		err = errors.New("the action is kill, stop, error, unknown, permanent or sleep")
	}
	return f, err
}

// reach is called where the process stands at a point. It returns errFailpoint
// if it is to fail there, and not at all if it is killed.
func (all failpoints) reach(point string) error {
	var err error
	for _, f := range all {
		if f.point == point && f.due() {
			err = errors.Join(err, f.act())
		}
	}
	return err
}

func (f *failpoint) due() bool {
	if f.file != "" {
		if _, err := os.Stat(f.file); err != nil {
			return false
		}
	}
	n := f.hits.Add(1)
	return n == f.hit || f.onwards && n > f.hit
}

func (f *failpoint) act() error {
	switch f.action {
	case "kill":
		fmt.Fprintf(os.Stderr, "failpoint %s: kill\n", f.point)
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "stop":
		fmt.Fprintf(os.Stderr, "failpoint %s: stop\n", f.point)
		syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		time.Sleep(stopTakes) // or this goroutine would run on for a moment
	case "sleep":
		time.Sleep(f.duration)
	case "error":
		return fmt.Errorf("%w %s", errFailpoint, f.point)
	case "unknown":
		return fmt.Errorf("%w %s: %w", errFailpoint, f.point, errFailpointUnknown)
	case "permanent":
		return core.Classify(core.Permanent, fmt.Errorf("%w %s", errFailpoint, f.point))
	}
	return nil
}

// countGoroutines logs how many there are whenever the process is asked to by
// SIGUSR1.
func countGoroutines() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	go func() {
		for range asked {
			fmt.Fprintf(os.Stderr, "goroutines %d\n", runtime.NumGoroutine())
		}
	}()
}
