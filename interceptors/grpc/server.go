package grpclistener

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/gzip" // clients may compress
	"google.golang.org/grpc/encoding/proto"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
	"github.com/delaybridge/delaybridge/internal/auth"
	"github.com/delaybridge/delaybridge/internal/listener"
	"github.com/delaybridge/delaybridge/internal/tlsfiles"
)

// Server serves the gRPC API. Create it with New; Run is the Run of its core.Input.
type Server struct {
	config   Config
	tokens   auth.Tokens
	flood    auth.Flood
	bridge   *bridge
	traffic  *traffic
	tls      *tlsfiles.Server // nil: none
	server   *grpc.Server
	listener net.Listener
}

// New checks the configuration, reads the certificate if there is one, and returns a
// Server. It does not listen yet. An error about a single key of the configuration is a
// *core.InvalidError.
func New(config Config, in *core.Interceptor) (*Server, error) {
	config = config.withDefaults(in.Limits())
	if err := config.check(); err != nil {
		return nil, err
	}
	hashes, err := auth.HashTokens(config.Tokens)
	if err != nil {
		return nil, core.Invalidf("tokens", "%s", err)
	}
	config.Tokens = nil // the hashes do
	tls, err := tlsfiles.LoadServer(config.TLSCert, config.TLSKey)
	if err != nil {
		return nil, core.Invalidf("tls_cert", "%s", err)
	}
	s := &Server{config: config, tls: tls, bridge: newBridge(config, in), traffic: newTraffic(config)}
	s.tokens.Set(hashes)
	s.server = grpc.NewServer(s.options(tls.Config())...)
	bridgev1.RegisterBridgeServiceServer(s.server, s.bridge)
	healthv1.RegisterHealthServer(s.server, &health{in: in, log: config.Log, stopping: s.bridge.stopping, age: config.ConnectionAge, every: watchEvery})
	if config.Reflection {
		reflection.Register(s.server)
	}
	return s, nil
}

const (
	// streamWindow is how much of one call lies unread in memory; fixed, since
	// the library would let it grow to 16 MiB.
	streamWindow = 512 << 10
	connWindow   = 4 << 20

	// A client that does not answer a ping is gone.
	pingEvery   = time.Minute
	pingTimeout = 20 * time.Second

	// metadataRoom is what the transport takes in any case: a call between this
	// and MaxMetadataBytes gets a status, beyond it the library's reset.
	metadataRoom = 64 << 10
)

func (s *Server) options(tlsConfig *tls.Config) []grpc.ServerOption {
	c := s.config
	creds := insecure.NewCredentials()
	if tlsConfig != nil {
		creds = credentials.NewTLS(tlsConfig)
	}
	return []grpc.ServerOption{
		grpc.Creds(metered{creds, s.traffic}),
		grpc.InTapHandle(s.admit),
		grpc.ForceServerCodecV2(codec{encoding.GetCodecV2(proto.Name), c.MaxBatch, s.bridge.in.Limits}),
		grpc.ChainUnaryInterceptor(s.surviveUnary),
		grpc.ChainStreamInterceptor(s.surviveStream),
		grpc.MaxRecvMsgSize(c.MaxBatchBytes),
		grpc.MaxHeaderListSize(uint32(max(metadataRoom, c.MaxMetadataBytes))),
		grpc.MaxConcurrentStreams(uint32(c.MaxStreams)),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
		grpc.ConnectionTimeout(10 * time.Second), // TLS and preface
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: c.KeepaliveMin, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: pingEvery, Timeout: pingTimeout, MaxConnectionAge: c.ConnectionAge,
			// A stream that began at the last moment ends by itself before this.
			MaxConnectionAgeGrace: c.ConnectionAge + c.StopTimeout,
		}),
		grpc.WaitForHandlers(true),
	}
}

// Adopt replaces the tokens and the certificate by those of next, which New has made and
// which is not run. Calls that begin after it returns need one of the new tokens.
func (s *Server) Adopt(next *Server) {
	s.tokens.Adopt(&next.tokens)
	s.tls.Adopt(next.tls)
}

// Listen opens the port and returns its address. Connections wait until Run.
// Call it at most once, and not together with Run.
func (s *Server) Listen() (net.Addr, error) {
	inner, err := net.Listen("tcp", s.config.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", s.config.Listen, err)
	}
	s.listener = listener.Limit(inner, s.config.MaxConnections, s.config.Log)
	if !listener.Loopback(s.config.Listen) && s.tls == nil {
		s.config.Log.Warn("gRPC is open to the network without TLS: tokens and messages are sent in plain text", "listen", s.config.Listen)
	}
	return inner.Addr(), nil
}

// Run serves until ctx ends, after Listen if that was not called. It then accepts no
// new calls and returns when the calls in progress are answered and the streams have
// ended. After StopTimeout they are cut off, and Run returns an error. Call Run once.
func (s *Server) Run(ctx context.Context) error {
	if s.listener == nil {
		if _, err := s.Listen(); err != nil {
			return err
		}
	}
	failed := make(chan error, 1)
	go func() { failed <- s.server.Serve(s.listener) }()
	select {
	case err := <-failed:
		s.server.Stop()
		return fmt.Errorf("serve gRPC: %w", err)
	case <-ctx.Done():
	}
	err := s.drain()
	<-failed // only says that the server was stopped
	s.bridge.readers.Wait()
	return err
}

func (s *Server) drain() error {
	close(s.bridge.stopping)
	drained := make(chan struct{})
	go func() { s.server.GracefulStop(); close(drained) }()
	timer := time.NewTimer(s.config.StopTimeout)
	defer timer.Stop()
	select {
	case <-drained:
		return nil
	case <-timer.C:
	}
	s.server.Stop()
	<-drained
	return fmt.Errorf("drain gRPC calls: some were not done within %s and were cut off", s.config.StopTimeout)
}
