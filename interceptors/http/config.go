package httplistener

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/internal/events"
	"github.com/delaybridge/delaybridge/internal/listener"
)

// Config configures a Server. The zero value works; a zero field means its
// default.
type Config struct {
	Listen string // host:port; default 127.0.0.1:7420
	// Insecure allows addresses other than loopback without tokens. /readyz then
	// reports it.
	Insecure bool
	// Tokens are the bearer tokens, of which requests must present one; without tokens
	// none is needed, which is allowed on loopback only. An entry is the token itself,
	// of at least auth.MinTokenLen printable ASCII characters, or "sha256:" and the
	// hash of one in hex. Only hashes are kept.
	Tokens []string
	// TLSCert and TLSKey are the paths of PEM files; both or neither.
	TLSCert, TLSKey string

	// MaxRequestBytes bounds the JSON of one message. Its default is 1.4 times the
	// present Limits.MaxBody plus 64 KiB, enough for base64.
	MaxRequestBytes int64
	MaxBatchBytes   int64 // of one batch; default 4 MiB
	MaxBatch        int   // messages in one batch; default 500
	// MaxConnections bounds the open connections; default 2048. A few more are
	// accepted, for /livez and /readyz.
	MaxConnections int
	// MaxUnansweredBytes bounds the bodies of all unanswered requests together; default
	// 128 MiB. They need up to about three times as much memory. It is never less than
	// one request needs.
	MaxUnansweredBytes int64

	ReadHeaderTimeout time.Duration // 5 s
	ReadTimeout       time.Duration // of a whole request; default 30 s
	WriteTimeout      time.Duration // from the end of the head to the end of the answer; default 60 s
	IdleTimeout       time.Duration // between two requests; default 60 s
	// StopTimeout bounds how long requests may continue after Run's context has ended;
	// default 10 s.
	StopTimeout time.Duration

	// Dialects are the dialects of request headers that /v1/publish accepts in addition
	// to the native one; see package dialect. The default is none.
	Dialects []string

	// Reload reads the configuration again and applies it, or with dryRun only compares
	// it, for POST /v1/reload; nil: it can't be. It returns what the answer is to show as
	// JSON. An error means that nothing was changed; it must hold no secret.
	Reload func(ctx context.Context, dryRun bool) (report any, err error)
	// LastReload returns why the last reload failed, for readiness; nil if it did not.
	LastReload func() error

	// Events are what GET /v1/events streams; nil: nothing.
	Events *events.Stream

	// Metrics answers GET /metrics; nil: there is no such path. It needs a token as other
	// paths do, unless Listen is a loopback address.
	Metrics http.Handler
	// MetricsOnly serves nothing but /metrics, /livez, /readyz and /problems.
	MetricsOnly bool

	Log *slog.Logger // nil discards
}

const (
	defaultListen        = "127.0.0.1:7420"
	defaultMaxBatch      = 500
	defaultMaxBatchBytes = 4 << 20
	defaultConnections   = 2048
	defaultUnanswered    = 128 << 20
	envelopeBytes        = 64 << 10 // of a message's JSON beyond its body
)

// withDefaults fills in the zero fields.
func (c Config) withDefaults(limits core.Limits) Config {
	c.Listen = cmp.Or(c.Listen, defaultListen)
	c.MaxBatchBytes = cmp.Or(c.MaxBatchBytes, defaultMaxBatchBytes)
	c.MaxBatch = cmp.Or(c.MaxBatch, defaultMaxBatch)
	c.MaxConnections = cmp.Or(c.MaxConnections, defaultConnections)
	if c.MaxUnansweredBytes = cmp.Or(c.MaxUnansweredBytes, defaultUnanswered); c.MaxUnansweredBytes > 0 {
		c.MaxUnansweredBytes = max(c.MaxUnansweredBytes, c.maxRequest(limits), c.MaxBatchBytes)
	}
	c.ReadHeaderTimeout = cmp.Or(c.ReadHeaderTimeout, 5*time.Second)
	c.ReadTimeout = cmp.Or(c.ReadTimeout, 30*time.Second)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, time.Minute)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, time.Minute)
	c.StopTimeout = cmp.Or(c.StopTimeout, 10*time.Second)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c
}

// maxRequest is MaxRequestBytes or its default.
func (c Config) maxRequest(limits core.Limits) int64 {
	return cmp.Or(c.MaxRequestBytes, int64(limits.MaxBody)*14/10+envelopeBytes)
}

func (c Config) check() error {
	for _, bound := range []struct {
		name  string
		value int64
	}{
		{"max_request_bytes", c.MaxRequestBytes}, {"max_batch_bytes", c.MaxBatchBytes}, {"max_batch", int64(c.MaxBatch)},
		{"max_connections", int64(c.MaxConnections)}, {"max_unanswered", c.MaxUnansweredBytes},
		{"read_header_timeout", int64(c.ReadHeaderTimeout)}, {"read_timeout", int64(c.ReadTimeout)},
		{"write_timeout", int64(c.WriteTimeout)}, {"idle_timeout", int64(c.IdleTimeout)}, {"stop_timeout", int64(c.StopTimeout)},
	} {
		if bound.value < 0 {
			return fmt.Errorf("%s must not be negative", bound.name)
		}
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return errors.New("tls_cert and tls_key must be set together")
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return fmt.Errorf("listen must be host:port: %w", err)
	}
	return c.checkExposure(len(c.Tokens))
}

// checkExposure refuses to be open to a network by mistake.
func (c Config) checkExposure(tokens int) error {
	if tokens > 0 || c.Insecure || c.loopback() {
		return nil
	}
	return fmt.Errorf("listen %s is reachable from other machines and there are no tokens: set tokens, listen on %s, or set insecure: true to accept messages from anyone",
		c.Listen, defaultListen)
}

func (c Config) loopback() bool { return listener.Loopback(c.Listen) }
