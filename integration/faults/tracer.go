//go:build unix

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// tracer is strace at a Redis: it makes its fdatasync slow, and writes down what
// has reached the disk.
type tracer struct {
	run    *run
	cmd    *exec.Cmd
	ended  <-chan struct{}
	output string
	aof    string // the append-only file
	size   int64  // it had at first
}

// traced is set for a row that traces Redis.
func traced(set func(*run) redisSetting) func(*run) redisSetting {
	return func(r *run) redisSetting {
		if _, err := exec.LookPath("strace"); err != nil {
			r.Skipf("strace is not there")
		}
		return set(r)
	}
}

const tracedIn = 10 * time.Second

// trace begins to delay each fdatasync of Redis; how is "enter" for before it
// and "exit" for after it. Redis stands still until nothing can be missed.
func (r *run) trace(how string, delay time.Duration) *tracer {
	pid, aof := r.info("server", "process_id"), r.appendOnlyFile()
	r.redis.node.Pause()
	t := &tracer{run: r, output: filepath.Join(r.TempDir(), "strace"), aof: aof, size: sizeOf(aof)}
	t.cmd = exec.Command("strace", "-f", "-y", "-s", "0", "-o", t.output, "-p", pid, "-e", "trace=write,fdatasync",
		"-e", fmt.Sprintf("inject=fdatasync:delay_%s=%d", how, delay.Microseconds()))
	var err error
	if t.ended, err = servers.StartProcess(t.cmd); err != nil {
		r.Fatalf("start strace: %v", err)
	}
	r.Cleanup(t.detach)
	attached := t.awaitAttached(pid)
	r.redis.node.Resume()
	if !attached {
		r.Skipf("strace can't be attached to a process here")
	}
	return t
}

// awaitAttached tells whether every thread of the process is traced.
func (t *tracer) awaitAttached(pid string) bool {
	return poll.Holds(tracedIn, func() bool {
		threads, _ := filepath.Glob("/proc/" + pid + "/task/*/status")
		return len(threads) > 0 && !slices.ContainsFunc(threads, func(file string) bool {
			status, _ := os.ReadFile(file)
			return strings.Contains(string(status), "TracerPid:\t0\n")
		})
	})
}

// detach ends the tracing, or waits until it is over as Redis has ended.
func (t *tracer) detach() {
	_ = t.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	<-t.ended
}

// appendOnlyFile is the one that Redis appends to.
func (r *run) appendOnlyFile() string {
	reply, _ := r.redis.node.MustDo("CONFIG", "GET", "dir").([]any)
	if len(reply) != 2 {
		r.Fatalf("Redis does not say where its directory is")
	}
	files, _ := filepath.Glob(fmt.Sprintf("%v/appendonlydir/*.incr.aof", reply[1]))
	if len(files) != 1 {
		r.Fatalf("Redis appends to %d files, not to one", len(files))
	}
	return files[0]
}

func sizeOf(file string) int64 {
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return info.Size()
}

// synced reads what was written down: how much of the append-only file the last
// complete fdatasync has covered, and how many there were.
func (t *tracer) synced() (bytes int64, times int) {
	file, err := os.Open(t.output)
	if err != nil {
		t.run.Fatalf("read what strace wrote: %v", err)
	}
	defer file.Close()
	s := syncs{aof: t.aof, written: t.size, durable: t.size, begun: map[string]int64{}, writing: map[string]bool{}}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		s.read(lines.Text())
	}
	return s.durable, s.times
}

// syncs follows the lines of strace.
type syncs struct {
	aof              string
	written, durable int64
	times            int
	begun            map[string]int64 // by thread: what was written when its fdatasync began
	writing          map[string]bool  // by thread: its unfinished write is one to the file
}

var returned = regexp.MustCompile(` = (\d+)(?: \(DELAYED\))?$`)

// read takes one line, such as
//
//	17 write(8</d/x.incr.aof>, ""..., 120) = 120
//	17 fdatasync(8</d/x.incr.aof> <unfinished ...>
//	17 <... fdatasync resumed>) = 0 (DELAYED)
func (s *syncs) read(line string) {
	thread, call, _ := strings.Cut(line, " ")
	call = strings.TrimSpace(call)
	value, ok := int64(0), false
	if m := returned.FindStringSubmatch(call); m != nil {
		value, _ = strconv.ParseInt(m[1], 10, 64)
		ok = true
	}
	ours := strings.Contains(call, "<"+s.aof+">")
	switch {
	case ours && strings.HasPrefix(call, "write("):
		s.writing[thread] = !ok
		s.written += value
	case s.writing[thread] && strings.HasPrefix(call, "<... write resumed"):
		s.writing[thread] = false
		s.written += value
	case ours && strings.HasPrefix(call, "fdatasync("):
		s.begun[thread] = s.written
		s.ended(thread, ok)
	case strings.HasPrefix(call, "<... fdatasync resumed"):
		s.ended(thread, ok)
	}
}

func (s *syncs) ended(thread string, ok bool) {
	if began, begun := s.begun[thread]; begun && ok {
		s.durable = max(s.durable, began)
		s.times++
		delete(s.begun, thread)
	}
}
