package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/sinks/plugin/sinkv1"
)

// instance is a plugin that runs and that we are connected to: a program and
// what talks to it. It is recreated for each start.
type instance struct {
	program *program
	client  *goplugin.Client
	dir     string // ours alone; removed at the end
	log     *slog.Logger
	pace    pace

	sink   sinkv1.SinkServiceClient
	health grpc_health_v1.HealthClient
	about  *sinkv1.DescribeResponse
	bounds bounds
	since  time.Time

	condemned atomic.Bool
	result    chan error    // why it is condemned; has room for one
	suspect   chan struct{} // a call had no answer; has room for one
	odd       atomic.Bool   // an outcome that is not known was logged
	verbose   atomic.Bool   // that a reply was too large was logged
	delivers  pulse
	checks    pulse
	unsure    atomic.Bool  // that a Check failed was logged
	under     atomic.Int64 // messages that it is delivering
	cut       atomic.Int64 // how many were, when its end cut off the first call
	stopping  atomic.Bool
}

// launch starts the plugin and has it describe itself, within the start timeout.
// On error nothing of it is left. Errors are a *core.InvalidError if a setting is
// at fault, a *badGreeting if the program is no plugin that we can use, or others.
func launch(ctx context.Context, s settings, out *output) (*instance, error) {
	file, err := findBinary(s.command, s.sha256)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "delaybridge-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the plugin: %w", err)
	}
	if len(dir) > maxDir {
		_ = os.Remove(dir) // it is empty, and in the way of nobody
		return nil, fmt.Errorf("make a directory for the plugin: the path of TMPDIR is too long for a socket: %s", dir)
	}
	in := &instance{dir: dir, log: out.log, pace: s.pace, since: time.Now(), result: make(chan error, 1), suspect: make(chan struct{}, 1)}
	if err := in.launch(ctx, s, file, out); err != nil {
		in.end()
		return nil, err
	}
	return in, nil
}

// maxDir leaves room for what the library adds: the whole may have 103 bytes.
const maxDir = 103 - len("/plugin-dir0123456789/plugin0123456789")

func (in *instance) launch(ctx context.Context, s settings, file binary, out *output) error {
	bin := filepath.Join(in.dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		return fmt.Errorf("make a directory for the plugin: %w", err)
	}
	path, err := file.executable(bin)
	if err != nil {
		return err
	}
	in.program = newProgram(path, s.args, s.mtls, out)
	ctx, cancel := context.WithTimeoutCause(ctx, s.startTimeout, fmt.Errorf("the plugin was not ready within start_timeout, %s", s.startTimeout))
	defer cancel()
	// The library's calls do not end with a context, but with the process.
	defer context.AfterFunc(ctx, func() { in.program.signal(syscall.SIGKILL) })()
	if err := in.connect(ctx, s, out); err != nil {
		return in.explain(ctx, err)
	}
	return nil
}

// connect has the library start the program and find its server, then asks
// whether it is there and what it is.
func (in *instance) connect(ctx context.Context, s settings, out *output) error {
	in.client = goplugin.NewClient(in.clientConfig(s, out))
	if _, err := in.client.Start(); err != nil {
		return err
	}
	protocol, err := in.client.Client()
	if err != nil {
		return err
	}
	connected, ok := protocol.(*goplugin.GRPCClient)
	if !ok {
		return fmt.Errorf("connect by %T", protocol)
	}
	in.sink, in.health = sinkv1.NewSinkServiceClient(connected.Conn), grpc_health_v1.NewHealthClient(connected.Conn)
	if err := in.ping(ctx); err != nil {
		expire(ctx, err)
		return explainPing(err, s.mtls)
	}
	in.about, err = in.sink.Describe(ctx, &sinkv1.DescribeRequest{})
	if err != nil {
		expire(ctx, err)
		return explainCall("describe itself", err)
	}
	in.bounds = boundsOf(in.about)
	return nil
}

// clientConfig leaves to the library the handshake and the certificates only.
// The program is ours to check, start and end, and so is what it prints: the
// library would wait for ever for a pipe that a child has inherited.
func (in *instance) clientConfig(s settings, out *output) *goplugin.ClientConfig {
	return &goplugin.ClientConfig{
		HandshakeConfig:  handshake(),
		VersionedPlugins: versions(nil),
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		AutoMTLS:         s.mtls,
		SkipHostEnv:      true,
		StartTimeout:     s.startTimeout + endTime, // ours comes first
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: in.dir},
		Logger:           libraryLog(out.log),
		SyncStdout:       out.stream(streamStdout),
		SyncStderr:       out.stream(streamStderr),
		GRPCDialOptions: append(hostOptions(),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReply)),
			grpc.WithMaxHeaderListSize(maxTrailer),
			grpc.WithStreamInterceptor(refuseBroker),
		),
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, _ string) (runner.Runner, error) {
			in.program.setEnv(append(s.env[:len(s.env):len(s.env)], cmd.Env...))
			return in.program, nil
		},
	}
}

const (
	// maxTrailer bounds what comes with an error.
	maxTrailer = 64 << 10
	// maxReply bounds replies, for plugins that do not cut the texts of their errors.
	maxReply = maxRequest
)

// refuseBroker keeps the stream closed on which a plugin could ask for
// connections of its own: we serve none, and the library would note each wish.
func refuseBroker(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if strings.HasPrefix(method, "/plugin.GRPCBroker/") {
		return nil, status.Error(codes.Unimplemented, "the host serves nothing")
	}
	return streamer(ctx, desc, conn, method, opts...)
}

// expire lets ctx end where a call was a little quicker to see that it will.
func expire(ctx context.Context, err error) {
	if status.Code(err) == codes.DeadlineExceeded {
		<-ctx.Done()
	}
}

// ping asks the plugin's server whether it is there, whatever it says of itself.
func (in *instance) ping(ctx context.Context) error {
	_, err := in.health.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: goplugin.GRPCServiceName})
	return err
}

// explain finds the cause of a failed start behind what the library made of it.
func (in *instance) explain(ctx context.Context, err error) error {
	late := ctx.Err() != nil
	if in.program.pid() == 0 {
		return err
	}
	fault := in.program.handshakeFault()
	if fault != nil && !errors.Is(fault, errNoGreeting) {
		return fault
	}
	if late {
		return context.Cause(ctx)
	}
	// How it has ended says more; what does not even listen, the library has killed.
	if in.hasEnded() {
		return in.program.lastWords()
	}
	if fault != nil {
		return fault
	}
	return err
}

// hasEnded tells, after a call has failed, whether the process had ended by
// itself, or is about to.
func (in *instance) hasEnded() bool {
	p := in.program
	return await(p.ended, endTime) == nil && await(p.exited, killTime) == nil && p.endedByItself()
}

// endTime is how long the end of a process may take to be noticed.
const endTime = time.Second

// explainPing names the setting that is mostly to blame.
func explainPing(err error, mtls bool) error {
	text := status.Convert(err).Message()
	tls := strings.Contains(text, "handshake") || strings.Contains(text, "tls:") || strings.Contains(text, "x509:") || strings.Contains(text, "preface")
	switch {
	case status.Code(err) == codes.Unimplemented:
		return badGreetingf("the program is not a plugin: it does not serve grpc.health.v1.Health")
	case tls && mtls:
		return core.Invalidf("mtls", "is true (the default), but mTLS with the plugin failed (%s): set mtls: false for a plugin without mTLS", clean(text))
	}
	return fmt.Errorf("check the plugin: %s", clean(err.Error()))
}

func explainCall(verb string, err error) error {
	text := clean(status.Convert(err).Message())
	if status.Code(err) == codes.Unimplemented {
		return badGreetingf("the plugin can't %s: %s", verb, text)
	}
	return fmt.Errorf("have the plugin %s: %s: %s", verb, status.Code(err), text)
}

// refused is what the plugin said about its configuration.
type refused struct{ error }

func (e *refused) Unwrap() error { return e.error }

// configure hands over the plugin's own configuration. A *refused holds
// *core.InvalidError.
func (in *instance) configure(ctx context.Context, s settings) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.startTimeout, fmt.Errorf("the plugin did not answer Configure within start_timeout, %s", s.startTimeout))
	defer cancel()
	response, err := in.sink.Configure(ctx, &sinkv1.ConfigureRequest{ConfigJson: s.config})
	expire(ctx, err)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case status.Code(err) == codes.Unavailable && in.hasEnded():
		return in.program.lastWords()
	default:
		return explainCall("take its configuration", err)
	}
	var faults []error
	for _, fault := range response.Faults[:min(len(response.Faults), maxFaults)] {
		field := "config"
		if fault.GetField() != "" {
			field += "." + printableText(core.Shorten(fault.GetField(), 128))
		}
		faults = append(faults, core.Invalidf(field, "%s", clean(fault.GetReason())))
	}
	if len(faults) == 0 {
		return nil
	}
	return &refused{errors.Join(faults...)}
}

const maxFaults = 50

// condemn has the instance replaced. Calls from now on are not made.
func (in *instance) condemn(why error) {
	if in.condemned.CompareAndSwap(false, true) {
		in.result <- why
	}
}

// gone reports whether there is nobody to call any more.
func (in *instance) gone() bool {
	select {
	case <-in.program.exited:
		return true
	default:
		return in.condemned.Load()
	}
}

// endedOnOne reports whether the plugin ended while it delivered a single message: that
// says more of the message than of the plugin.
func (in *instance) endedOnOne() bool {
	return in.cut.Load() == 1 || in.cut.Load() == 0 && in.under.Load() == 1
}

// stop asks the plugin to close, and ends it, gently if it lets us.
func (in *instance) stop(timeout time.Duration) {
	in.stopping.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	_, err := in.sink.Close(ctx, &sinkv1.CloseRequest{})
	if err != nil && !in.gone() {
		in.log.Warn("plugin failed to close", "err", clean(err.Error()))
	}
	in.program.signal(syscall.SIGTERM)
	if await(in.program.ended, in.pace.term) != nil {
		in.log.Warn("plugin did not exit in time, it was killed", "waited", in.pace.term)
	}
	in.end()
}

// end kills what still lives, and lets go of everything. It returns in bounded time.
func (in *instance) end() {
	if in.program != nil {
		if err := in.program.kill(); err != nil {
			in.log.Error("plugin process could not be killed", "pid", in.program.pid(), "err", err)
		}
	}
	if in.client != nil {
		in.release()
	}
	if err := os.RemoveAll(in.dir); err != nil {
		in.log.Warn("the temporary directory of a plugin could not be removed", "err", err)
	}
}

// release lets the library close its connection. Its Kill has no bound of its own.
func (in *instance) release() {
	released := make(chan struct{})
	go func() { defer close(released); in.client.Kill() }()
	timer := time.NewTimer(killTime)
	defer timer.Stop()
	select {
	case <-released:
	case <-timer.C:
	}
}

// libraryLog passes on what the library says, for those who look for it.
func libraryLog(log *slog.Logger) hclog.Logger {
	if !log.Enabled(context.Background(), slog.LevelDebug) {
		return hclog.NewNullLogger()
	}
	return hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: &libraryLines{log}, DisableTime: true})
}

// libraryLines is an io.Writer that gets one line a call.
type libraryLines struct{ log *slog.Logger }

func (l *libraryLines) Write(p []byte) (int, error) {
	l.log.Debug("go-plugin log", "text", printableText(strings.TrimSpace(string(p))))
	return len(p), nil
}
