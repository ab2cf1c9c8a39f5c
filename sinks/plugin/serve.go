package plugin

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

const (
	// maxRequest is what one request may hold. Hosts send up to 3 MiB, or one
	// message if that is larger.
	maxRequest = 16 << 20
	// pingEvery is how often a host may ask whether the connection lives.
	pingEvery = time.Second
	// endIn is how long the sink has to close when nobody waits for it.
	endIn = 3 * time.Second
)

// Serve serves the plugin until the host stops it, then exits the process. It is the
// only call in main.
//
// The sink is opened when the host has sent its configuration, and closed on the host's
// request, on SIGTERM, and when the host has died. SIGINT is ignored, because a
// terminal sends it to host and plugin. A panic in a call is logged and fails that
// call; elsewhere it ends the process, which the host restarts.
//
// Records of the default logger of log/slog are written to the host's log with level
// and attributes, other lines on standard error and standard output without a level.
// Write nothing to standard output before Serve is called.
//
// Run by hand, the program prints an explanation on standard error and exits with 2;
// with --describe it prints its description as JSON.
func Serve(d Definition) { os.Exit(d.serve(os.Args)) }

// The exit codes.
const (
	exitServed = 0
	exitFailed = 1
	exitUsage  = 2
)

func (d Definition) serve(args []string) int {
	if err := d.check(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitFailed
	}
	cookie := handshake()
	if os.Getenv(cookie.MagicCookieKey) == cookie.MagicCookieValue {
		d.serveHost()
		return exitServed
	}
	if len(args) == 2 && args[1] == "--describe" {
		if err := d.printJSON(os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return exitFailed
		}
		return exitServed
	}
	d.explain(os.Stderr, args[0])
	return exitUsage
}

// serveHost returns when the host has ended the plugin, or is gone.
func (d Definition) serveHost() {
	signal.Ignore(os.Interrupt)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log := slog.New(newLogHandler(os.Stderr))
	slog.SetDefault(log)
	s := newServer(d, log)
	server, served := make(chan *grpc.Server, 1), make(chan struct{})
	go func() {
		defer close(served)
		goplugin.Serve(&goplugin.ServeConfig{
			HandshakeConfig: handshake(), VersionedPlugins: versions(s),
			GRPCServer: func(options []grpc.ServerOption) *grpc.Server {
				g := grpc.NewServer(append(options, s.options()...)...)
				server <- g
				return g
			},
			Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: os.Stderr, JSONFormat: true}),
		})
	}()
	select {
	case <-served:
	case <-ctx.Done():
	case <-parentGone(ctx, os.Getppid):
	}
	s.end()
	select {
	case g := <-server: // ends Serve, which removes its socket
		g.Stop()
		<-served
	default:
	}
}

func (s *server) options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxRequest),
		grpc.InitialWindowSize(window), grpc.InitialConnWindowSize(window),
		grpc.ReadBufferSize(socketBuffer), grpc.WriteBufferSize(socketBuffer),
		experimental.BufferPool(bufferPool()),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingEvery, PermitWithoutStream: true}),
		grpc.UnaryInterceptor(s.surviving),
	}
}

// surviving makes of a panic a failed call.
func (s *server) surviving(ctx context.Context, request any, call *grpc.UnaryServerInfo, next grpc.UnaryHandler) (response any, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			s.log.ErrorContext(ctx, "plugin panicked", "call", call.FullMethod, "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
			response, err = nil, status.Errorf(codes.Internal, "plugin panicked: %s", printable(fmt.Sprint(cause)))
		}
	}()
	return next(ctx, request)
}
