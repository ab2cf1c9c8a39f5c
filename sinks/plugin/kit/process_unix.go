//go:build unix

package kit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The host's side of the handshake, done by hand: these checks look at what the
// library on the host's side would forgive.
const (
	pluginCookie = "DELAYBRIDGE_PLUGIN=sink"
	startLimit   = 20 * time.Second
	endLimit     = 5 * time.Second
)

// helloForm is the line that a plugin says first.
var helloForm = regexp.MustCompile(`^1\|1\|(unix|tcp)\|[^|]+\|grpc(\|.*)?$`)

// bare is a plugin's process without a host.
type bare struct {
	cmd    *exec.Cmd
	output *bufio.Reader
	pipe   io.Closer
	stderr tail
	ended  chan struct{} // closed when the process has
	gone   chan struct{} // closed when nobody holds standard error any more
}

// environment is what the host would give.
func (v *verifier) environment(host bool) []string {
	env := []string{}
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LANG"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	for name, value := range v.Env {
		env = append(env, name+"="+value)
	}
	if host {
		env = append(env, pluginCookie, "PLUGIN_PROTOCOL_VERSIONS=1", "PLUGIN_MIN_PORT=10000", "PLUGIN_MAX_PORT=25000",
			"PLUGIN_UNIX_SOCKET_DIR="+v.tmp)
	}
	return env
}

// startBare starts the plugin, or what leads to it, as a group of its own.
func (v *verifier) startBare(host bool, before ...string) (*bare, error) {
	args := append(append(slices.Clone(before), v.Command), v.Args...)
	b := &bare{cmd: exec.Command(args[0], args[1:]...), ended: make(chan struct{}), gone: make(chan struct{})}
	b.cmd.Env = v.environment(host)
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, outWriter, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	stderr, errWriter, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	b.cmd.Stdout, b.cmd.Stderr = outWriter, errWriter
	err = b.cmd.Start()
	outWriter.Close()
	errWriter.Close()
	if err != nil {
		return nil, errors.Join(err, stdout.Close(), stderr.Close())
	}
	b.output, b.pipe = bufio.NewReader(stdout), stdout
	go func() {
		defer close(b.ended)
		_ = b.cmd.Wait() // who wants to know looks at ProcessState
	}()
	go func() {
		defer close(b.gone)
		defer stderr.Close()
		_, _ = io.Copy(&b.stderr, stderr) // a tail takes everything
	}()
	return b, nil
}

// end kills whatever is left.
func (b *bare) end() {
	_ = syscall.Kill(-b.cmd.Process.Pid, syscall.SIGKILL) // it may have ended
	<-b.ended
	b.pipe.Close()
}

// hello waits for the first line and looks at its form.
func (b *bare) hello(ctx context.Context) error {
	type read struct {
		line string
		err  error
	}
	lines := make(chan read, 1)
	go func() {
		line, err := b.output.ReadString('\n')
		lines <- read{line, err}
	}()
	select {
	case r := <-lines:
		if r.err != nil { // it has ended, and may have said why
			b.awaitLastWords()
		}
		if line := strings.TrimRight(r.line, "\r\n"); r.err != nil || !helloForm.MatchString(line) {
			return fmt.Errorf("the first line on standard output is %q, want 1|1|unix|PATH|grpc|; standard error says: %s", line, b.stderr.String())
		}
		return nil
	case <-time.After(startLimit):
		return fmt.Errorf("no line on standard output within %s; standard error says: %s", startLimit, b.stderr.String())
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awaitLastWords waits a little for what is on its way through standard error.
func (b *bare) awaitLastWords() {
	select {
	case <-b.gone:
	case <-time.After(time.Second):
	}
}

func (v *verifier) startsTidily(ctx context.Context) error {
	b, err := v.startBare(true)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	defer b.end()
	return b.hello(ctx)
}

func (v *verifier) explainsItself(ctx context.Context) error {
	b, err := v.startBare(false)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	defer b.end()
	if err := b.ends(ctx, "by itself"); err != nil {
		return err
	}
	if state := b.cmd.ProcessState; state.Success() {
		return errors.New("it ends with exit code 0, want an error: it was not started by a host")
	}
	if b.stderr.String() == "" {
		return errors.New("it prints nothing on standard error")
	}
	return nil
}

// ends waits for the end of the process and of all that hold its output.
func (b *bare) ends(ctx context.Context, how string) error {
	limit := time.NewTimer(endLimit)
	defer limit.Stop()
	for _, step := range []struct {
		done <-chan struct{}
		what string
	}{{b.ended, "it does not end"}, {b.gone, "its child processes do not end"}} {
		select {
		case <-step.done:
		case <-limit.C:
			return fmt.Errorf("%s %s within %s", step.what, how, endLimit)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (v *verifier) endsOnSignal(ctx context.Context) error {
	b, err := v.startBare(true)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	defer b.end()
	if err := b.hello(ctx); err != nil {
		return err
	}
	if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return b.ends(ctx, "after SIGTERM")
}

// endsWithHost has a shell for a host, which is killed.
func (v *verifier) endsWithHost(ctx context.Context) error {
	b, err := v.startBare(true, "/bin/sh", "-c", `"$@" & wait`, "sh")
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	defer b.end()
	if err := b.hello(ctx); err != nil {
		return err
	}
	if err := b.cmd.Process.Kill(); err != nil {
		return err
	}
	return b.ends(ctx, "when its host is gone")
}

func isAlive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func kill(pid int, signal syscall.Signal) error {
	if err := syscall.Kill(pid, signal); err != nil {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	return nil
}
