package grpclistener

import (
	"cmp"
	"log/slog"
	"math"
	"net"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/internal/listener"
)

// Config configures a Server. The zero value works; a zero field means its
// default.
type Config struct {
	Listen string // host:port; default 127.0.0.1:7421
	// Insecure allows addresses other than loopback without tokens.
	Insecure bool
	// Tokens are the bearer tokens, of which calls must present one in the metadata
	// "authorization"; without tokens none is needed, which is allowed on loopback
	// only. auth.HashTokens defines the form of the entries. Only hashes are kept.
	Tokens []string
	// TLSCert and TLSKey are the paths of PEM files; both or neither.
	TLSCert, TLSKey string
	// Reflection enables the reflection service.
	Reflection bool

	MaxBatch int // messages in one request; default 500
	// MaxBatchBytes bounds a request, decompressed; default 4 MiB. It is never less
	// than one message within core.Limits needs.
	MaxBatchBytes    int
	MaxMetadataBytes int // of one call: names, values and 32 for each; default 8 KiB
	MaxStreams       int // concurrent calls on one connection; default 100
	// MaxConnections bounds the open connections; default 1024. A few more are
	// accepted, for health checks.
	MaxConnections int
	// MaxUnansweredBytes bounds all unanswered requests together; default 128 MiB. A
	// compressed request counts with its possible decompressed size, at most MaxBatchBytes.
	// They need up to about four times as much memory. It is never less than one request
	// needs.
	MaxUnansweredBytes int64

	// KeepaliveMin is the minimum interval between pings of a client; default 10 s. A
	// client that pings more often is cut off.
	KeepaliveMin time.Duration
	// ConnectionAge is the age of a connection at which the client is asked to
	// reconnect, to balance clients over instances; default 30 min. The bridge then
	// ends its streams, so that no call is cut off.
	ConnectionAge time.Duration
	// StopTimeout bounds how long calls may continue after Run's context has ended;
	// default 10 s.
	StopTimeout time.Duration

	Log *slog.Logger // nil discards
}

const (
	defaultListen           = "127.0.0.1:7421"
	defaultMaxBatch         = 500
	defaultMaxBatchBytes    = 4 << 20
	defaultMaxMetadataBytes = 8 << 10
	defaultMaxStreams       = 100
	defaultConnections      = 1024
	defaultUnanswered       = 128 << 20
	envelopeBytes           = 64 << 10 // of a message beyond its body and headers
	maxConnectionAge        = 100 * 365 * 24 * time.Hour
)

// withDefaults fills in the zero fields.
func (c Config) withDefaults(limits core.Limits) Config {
	c.Listen = cmp.Or(c.Listen, defaultListen)
	c.MaxBatch = cmp.Or(c.MaxBatch, defaultMaxBatch)
	c.MaxBatchBytes = cmp.Or(c.MaxBatchBytes, defaultMaxBatchBytes)
	if c.MaxBatchBytes > 0 {
		c.MaxBatchBytes = max(c.MaxBatchBytes, limits.MaxBody+limits.MaxHeaderBytes+envelopeBytes)
	}
	c.MaxMetadataBytes = cmp.Or(c.MaxMetadataBytes, defaultMaxMetadataBytes)
	c.MaxStreams = cmp.Or(c.MaxStreams, defaultMaxStreams)
	c.MaxConnections = cmp.Or(c.MaxConnections, defaultConnections)
	if c.MaxUnansweredBytes = cmp.Or(c.MaxUnansweredBytes, defaultUnanswered); c.MaxUnansweredBytes > 0 {
		c.MaxUnansweredBytes = max(c.MaxUnansweredBytes, int64(c.MaxBatchBytes))
	}
	c.KeepaliveMin = cmp.Or(c.KeepaliveMin, 10*time.Second)
	c.ConnectionAge = cmp.Or(c.ConnectionAge, 30*time.Minute)
	c.StopTimeout = cmp.Or(c.StopTimeout, 10*time.Second)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c
}

func (c Config) check() error {
	for _, bound := range []struct {
		name        string
		value, most int64
	}{
		{"max_batch", int64(c.MaxBatch), math.MaxInt32}, {"max_batch_bytes", int64(c.MaxBatchBytes), math.MaxInt32},
		{"max_metadata", int64(c.MaxMetadataBytes), 1 << 20}, {"max_streams", int64(c.MaxStreams), math.MaxInt32},
		{"max_connections", int64(c.MaxConnections), math.MaxInt32}, {"max_unanswered", c.MaxUnansweredBytes, math.MaxInt64},
		{"keepalive_min", int64(c.KeepaliveMin), math.MaxInt64}, {"stop_timeout", int64(c.StopTimeout), math.MaxInt64},
		{"connection_age", int64(c.ConnectionAge), int64(maxConnectionAge)},
	} {
		if bound.value < 0 || bound.value > bound.most {
			return core.Invalidf(bound.name, "must not be negative, nor more than %d", bound.most)
		}
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return core.Invalidf("tls_cert", "and tls_key must be set together")
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return core.Invalidf("listen", "must be host:port: %s", err)
	}
	return c.checkExposure(len(c.Tokens))
}

// checkExposure refuses to be open to a network by mistake.
func (c Config) checkExposure(tokens int) error {
	if tokens > 0 || c.Insecure || listener.Loopback(c.Listen) {
		return nil
	}
	return core.Invalidf("listen", "%s is reachable from other machines and there are no tokens: set tokens, listen on %s, or set insecure: true to accept messages from anyone",
		c.Listen, defaultListen)
}
