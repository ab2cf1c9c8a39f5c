package redisstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/core"
)

// Config configures a Store. A zero field means its default; Addrs is required.
type Config struct {
	// Addrs are host:port of one server, of the sentinels (with MasterName), or of some
	// nodes of a cluster (with Cluster, or if there are several).
	Addrs      []string
	MasterName string
	Cluster    bool

	Username, Password                 string
	SentinelUsername, SentinelPassword string
	DB                                 int // not with Cluster
	TLS                                *tls.Config

	// Prefix is the prefix of every key and channel; default "delaybridge". Several
	// bridges can share one Redis with different prefixes.
	Prefix string
	// Buckets is the number of buckets of each sink, up to core.MaxBuckets. It is
	// recorded in Redis at the first start and can't be changed afterwards; zero means
	// the recorded number, else 16.
	Buckets int

	// Durability is the level that a message must reach to be accepted: "memory",
	// "replicated", "fsync", or "auto" (default). "auto" is the strongest level that
	// Redis reaches without waiting for a timer: fsync if CONFIG GET returns
	// appendfsync always, else replicated if Replicas are connected, else memory.
	Durability string
	// Replicas is how many replicas must have a message at level replicated; default 1.
	Replicas int
	// DurabilityTimeout bounds the wait for replicas or disk; default 2 s.
	DurabilityTimeout time.Duration
	// AllowVolatile allows a Redis without an append-only file.
	AllowVolatile bool

	// Lease is how long an instance owns a bucket without renewing its lease; default 5
	// s, at least 500 ms. It is renewed three times in that time.
	Lease time.Duration
	// Guard bounds how long a lost wake-up can delay a take; default 5 s.
	Guard time.Duration
	// Instance is the unique name of this process; default NewInstanceName.
	Instance string

	// DedupeWindow is how long the id of a settled message is remembered if the
	// producer chose it; default 2 min, negative is not at all. DedupeWindows sets it
	// for single sinks; zero there is not at all.
	DedupeWindow  time.Duration
	DedupeWindows map[string]time.Duration

	// Called, if not nil, is told of each call of a script when it has ended: the
	// script's name, the time since the call was first sent, which includes those before
	// it in the pipeline and the wait for durability, and core.ErrFull,
	// core.ErrUnavailable or core.ErrUnknown if it has failed. It must be quick.
	Called func(script string, took time.Duration, failure error)

	// Final, if not nil, returns a line about a message that becomes final: Delivered, Dead,
	// Expired, Cancelled or Discarded. It is stored in the same step, and stays until it was
	// sent elsewhere; see Store.Unsent. If the step has to be repeated there may be two
	// lines, with the same id; different events have different ids. It must be quick, and
	// must not keep the message. What an instance without Final does is not told.
	Final func(id string, m *core.Message, o core.Outcome) []byte
	// MaxUnsent bounds the bytes of these lines of one sink; default 64 MiB. Each bucket has
	// an equal share. Lines beyond it are counted only: nothing waits for them.
	MaxUnsent int64

	Log *slog.Logger // nil discards

	present *atomic.Pointer[Config] // see Store.Adopt
	timeout time.Duration           // of a command; tests wait longer than commandTimeout
	newest  int                     // format that is read and written; tests have one more
}

// The levels of durability; see Config.Durability.
const (
	DurabilityAuto       = "auto"
	DurabilityMemory     = "memory"
	DurabilityReplicated = "replicated"
	DurabilityFsync      = "fsync"
)

const (
	defaultPrefix   = "delaybridge"
	defaultBuckets  = 16
	maxPrefixLen    = 64
	minLease        = 500 * time.Millisecond
	longestSpan     = time.Hour
	longestRemember = 7 * 24 * time.Hour
)

// Check returns an error if c is invalid. It opens nothing.
func (c Config) Check() error {
	switch {
	case len(c.Addrs) == 0:
		return errors.New("no Redis address is set")
	case c.DB != 0 && c.isCluster():
		return fmt.Errorf("db is %d, but a cluster has only db 0", c.DB)
	case c.Cluster && c.MasterName != "":
		return errors.New("a master name belongs to Sentinel and can't be used with a cluster")
	case c.Buckets < 0 || c.Buckets > core.MaxBuckets:
		return fmt.Errorf("buckets must be 1 to %d", core.MaxBuckets)
	case strings.ContainsAny(c.Prefix, "{} \r\n") || len(c.Prefix) > maxPrefixLen:
		return fmt.Errorf("prefix must be at most %d bytes, without braces or white space", maxPrefixLen)
	case c.Durability != "" && !slices.Contains([]string{DurabilityAuto, DurabilityMemory, DurabilityReplicated, DurabilityFsync}, c.Durability):
		return fmt.Errorf("durability %q is not known: use auto, memory, replicated or fsync", c.Durability)
	case c.Replicas < 0:
		return errors.New("replicas must not be negative")
	case c.Lease != 0 && (c.Lease < minLease || c.Lease > longestSpan):
		return fmt.Errorf("lease must be %s to %s", minLease, longestSpan)
	case c.Guard != 0 && (c.Guard < 10*time.Millisecond || c.Guard > longestSpan):
		return fmt.Errorf("guard must be 10ms to %s", longestSpan)
	case c.DurabilityTimeout < 0 || c.DurabilityTimeout > longestSpan:
		return fmt.Errorf("durability timeout must be up to %s", longestSpan)
	case c.DedupeWindow > longestRemember:
		return fmt.Errorf("dedupe window must be up to %s", longestRemember)
	}
	return nil
}

func (c Config) isCluster() bool { return c.Cluster || c.MasterName == "" && len(c.Addrs) > 1 }

func (c Config) withDefaults() Config {
	c.Prefix = cmp.Or(c.Prefix, defaultPrefix)
	c.Durability = cmp.Or(c.Durability, DurabilityAuto)
	c.Replicas = cmp.Or(c.Replicas, 1)
	c.DurabilityTimeout = cmp.Or(c.DurabilityTimeout, 2*time.Second)
	c.Lease = cmp.Or(c.Lease, 5*time.Second)
	c.Guard = cmp.Or(c.Guard, 5*time.Second)
	c.DedupeWindow = cmp.Or(c.DedupeWindow, 2*time.Minute)
	c.MaxUnsent = cmp.Or(c.MaxUnsent, 64<<20)
	c.timeout = cmp.Or(c.timeout, commandTimeout)
	c.newest = cmp.Or(c.newest, newestFormat())
	c.present = new(atomic.Pointer[Config])
	c.present.Store(&c)
	if c.Instance == "" {
		c.Instance = NewInstanceName()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// NewInstanceName returns a name for Config.Instance: host name, process id and random
// characters.
func NewInstanceName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), strings.ToLower(rand.Text()[:6]))
}

// window is how long settled ids of a sink are remembered, in milliseconds.
func (c Config) window(sink string) int64 {
	now := c.present.Load()
	if w, ok := now.DedupeWindows[sink]; ok {
		return max(0, w.Milliseconds())
	}
	return max(0, now.DedupeWindow.Milliseconds())
}

// Time bounds towards Redis. The client library's own defaults are minutes in
// the worst case.
const (
	commandTimeout = 3 * time.Second
	dialShare      = 3               // of a command's time, to connect
	stateReload    = 5 * time.Second // of a cluster's slots; the default is a minute
)

// connect makes a client of at most this many connections to a server; it opens none yet.
func (c Config) connect(size int) redis.UniversalClient {
	options := &redis.UniversalOptions{
		Addrs: c.Addrs, MasterName: c.MasterName, DB: c.DB, TLSConfig: c.TLS, ClientName: "delaybridge",
		CredentialsProvider: c.credentials,
		SentinelUsername:    c.SentinelUsername, SentinelPassword: c.SentinelPassword,
		DialTimeout: c.timeout / dialShare, DialerRetries: 1, ReadTimeout: c.timeout + c.DurabilityTimeout, WriteTimeout: c.timeout,
		ContextTimeoutEnabled: true, DisableIdentity: true, Protocol: 2,
		PipelinePoolSize: -1, PoolSize: size, MinIdleConns: 2,
	}
	if c.TLS != nil {
		options.Dialer = c.dialTLS
	}
	switch {
	case c.MasterName != "":
		return redis.NewFailoverClient(options.Failover())
	case c.isCluster():
		cluster := options.Cluster()
		cluster.ClusterStateReloadInterval = stateReload
		return redis.NewClusterClient(cluster)
	}
	return redis.NewClient(options.Simple())
}

func (c Config) credentials() (username, password string) {
	now := c.present.Load()
	return now.Username, now.Password
}

func (c Config) dialTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: c.timeout / dialShare}, Config: c.present.Load().TLS}
	return d.DialContext(ctx, network, addr)
}

// Adopt replaces, by those of config, what can change while a Store is used: the windows,
// and for new connections Username, Password and TLS. It can't turn TLS on or off.
func (s *Store) Adopt(config Config) {
	now := config.withDefaults()
	s.config.present.Store(&now)
}

const (
	poolSize    = 64 // of callers
	keepingSize = 8  // of leases: a pipeline of each kind, and some that a server does not answer
)
