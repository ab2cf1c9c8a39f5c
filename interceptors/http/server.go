package httplistener

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/dialect"
	"github.com/delaybridge/delaybridge/internal/auth"
	"github.com/delaybridge/delaybridge/internal/listener"
	"github.com/delaybridge/delaybridge/internal/tlsfiles"
)

// Server serves the HTTP API. Create it with New; Run is the Run of its core.Input.
type Server struct {
	config      Config
	dialects    *dialect.Set
	in          *core.Interceptor
	tokens      auth.Tokens
	tls         *tlsfiles.Server // nil: none
	flood       auth.Flood
	readiness   listener.Readiness
	unanswered  *listener.Budget
	buffers     buffers
	crossOrigin *http.CrossOriginProtection
	mux         *http.ServeMux
	server      *http.Server
	listener    net.Listener
	stopping    context.Context // ends when requests without an end are to end
	stop        context.CancelFunc
}

// New checks the configuration, reads the certificate if there is one, and returns a
// Server. It does not listen yet.
func New(config Config, in *core.Interceptor) (*Server, error) {
	config = config.withDefaults(in.Limits())
	if err := config.check(); err != nil {
		return nil, err
	}
	hashes, err := auth.HashTokens(config.Tokens)
	if err != nil {
		return nil, err
	}
	config.Tokens = nil // the hashes do
	tls, err := tlsfiles.LoadServer(config.TLSCert, config.TLSKey)
	if err != nil {
		return nil, err
	}
	dialects, err := foreignDialects(config.Dialects)
	if err != nil {
		return nil, err
	}
	s := &Server{config: config, dialects: dialects, in: in, tls: tls, crossOrigin: http.NewCrossOriginProtection(),
		unanswered: listener.NewBudget(config.MaxUnansweredBytes)}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.tokens.Set(hashes)
	s.mux = s.routes()
	s.server = &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		ConnContext:       withConn,
		TLSConfig:         tls.Config(),
		ReadHeaderTimeout: config.ReadHeaderTimeout,
		ReadTimeout:       config.ReadTimeout,
		WriteTimeout:      config.WriteTimeout,
		IdleTimeout:       config.IdleTimeout,
		MaxHeaderBytes:    4*in.Limits().MaxHeaderBytes + core.MaxKeyLen + 16<<10,
		// What it tells is about the other side's connections.
		ErrorLog: slog.NewLogLogger(config.Log.Handler(), slog.LevelDebug),
	}
	s.server.RegisterOnShutdown(s.stop)
	return s, nil
}

// Adopt replaces the tokens and the certificate by those of next, which New has made and
// which is not run. Requests that begin after it returns need one of the new tokens.
func (s *Server) Adopt(next *Server) {
	s.tokens.Adopt(&next.tokens)
	s.tls.Adopt(next.tls)
}

// Handler returns the handler of the API.
func (s *Server) Handler() http.Handler { return s.server.Handler }

// Listen opens the port and returns its address. Connections wait until Run.
// Call it at most once, and not together with Run.
func (s *Server) Listen() (net.Addr, error) {
	inner, err := net.Listen("tcp", s.config.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", s.config.Listen, err)
	}
	s.listener = listener.Limit(inner, s.config.MaxConnections, s.config.Log)
	if !s.config.loopback() && s.tls == nil {
		s.config.Log.Warn("HTTP is open to the network without TLS: tokens and messages are sent in plain text", "listen", s.config.Listen)
	}
	return inner.Addr(), nil
}

// Run serves until ctx ends, after Listen if that was not called. It then accepts no
// new connections and returns when the requests in progress are answered. After
// StopTimeout they are cut off, and Run returns an error. Call Run once.
func (s *Server) Run(ctx context.Context) error {
	if s.listener == nil {
		if _, err := s.Listen(); err != nil {
			return err
		}
	}
	failed := make(chan error, 1)
	go func() { failed <- s.acceptConnections() }()
	select {
	case err := <-failed:
		s.server.Close()
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	err := s.drain(ctx)
	<-failed // only says that the server was closed
	return err
}

func (s *Server) acceptConnections() error {
	if s.tls != nil {
		return s.server.ServeTLS(s.listener, "", "")
	}
	return s.server.Serve(s.listener)
}

func (s *Server) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.config.StopTimeout)
	defer cancel()
	if err := s.server.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("drain HTTP requests: %w", err), s.server.Close())
	}
	return nil
}
