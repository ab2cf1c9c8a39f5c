// Package config reads the configuration file of delaybridge: YAML, decoded
// strictly against one table of fields, with every fault reported at once,
// where it stands and with what was probably meant.
package config

import (
	"encoding/json"
	"os"
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// Config is a whole configuration, checked and with the defaults filled in.
// config.example.yaml documents every key.
type Config struct {
	// Hash is of the text of the file, with variables as they are named there: instances
	// with the same file have the same, and no secret from elsewhere is in it.
	Hash            string
	Version         int
	Log             Log
	Store           Store
	HTTP            HTTP
	GRPC            GRPC
	Metrics         Metrics
	Tracing         Tracing
	Events          Events
	Limits          Limits
	Retry           core.RetryPolicy
	Sinks           []Sink   // in the order of the file
	Sources         []Source // in the order of the file
	ShutdownTimeout time.Duration

	sinks   []*Sink   // while decoding
	sources []*Source // while decoding
	source  *source

	settings []Setting
	files    []string
}

// Log says what is logged, and how.
type Log struct {
	Level  string // debug, info, warn, error
	Format string // text, json
}

// Store says where messages are parked and how safely.
type Store struct {
	Redis             Redis
	Durability        string
	Replicas          int
	DurabilityTimeout time.Duration
	Lease             time.Duration
	Guard             time.Duration
	DedupeWindow      time.Duration // 0 is off
}

// Redis says which Redis to use. URL has been taken apart into the other fields.
type Redis struct {
	Addrs                              []string
	MasterName                         string
	Username, Password                 string
	SentinelUsername, SentinelPassword string
	DB                                 int
	TLS                                TLS
	Cluster                            bool
	Prefix                             string
	Buckets                            int // 0 is as recorded, else 16
	AllowVolatile                      bool

	url string
}

// TLS says how to speak TLS to a server. The fields but Enabled are optional.
type TLS struct {
	Enabled       bool
	CA, Cert, Key string // paths of PEM files
	ServerName    string
}

// HTTP is the HTTP listener.
type HTTP struct {
	Listen            string
	Tokens            []string
	Insecure          bool
	TLSCert, TLSKey   string
	Dialects          []string
	MaxConnections    int
	MaxUnanswered     int // bytes
	ReadHeaderTimeout time.Duration
	ReadTimeout       time.Duration
	WriteTimeout      time.Duration
	IdleTimeout       time.Duration
	StopTimeout       time.Duration
}

// GRPC is the gRPC listener; without Listen there is none.
type GRPC struct {
	Listen           string
	Tokens           []string
	Insecure         bool
	TLSCert, TLSKey  string
	Reflection       bool
	MaxMetadataBytes int
	MaxStreams       int
	MaxConnections   int
	MaxUnanswered    int // bytes
	KeepaliveMin     time.Duration
	ConnectionAge    time.Duration
	StopTimeout      time.Duration
}

// Metrics says where metrics are served; without Listen that is at /metrics of the HTTP
// listener.
type Metrics struct {
	Enabled         bool
	Listen          string
	Tokens          []string
	Insecure        bool
	TLSCert, TLSKey string
	OTLP            struct {
		Target
		Interval time.Duration // 0 is as the environment says
	}
}

// Tracing says of which messages spans are exported.
type Tracing struct {
	Target
	SampleRatio *float64 // nil is as the environment says
	Parent      bool
}

// Target says where something is exported to by OTLP. What is nil or empty is as the
// environment says.
type Target struct {
	Enabled            *bool
	Endpoint, Protocol string
}

// Events says to which sink the events are sent; without one they are only streamed.
type Events struct {
	Sink, Topic string
	Bodies      bool
}

// Limits bound what producers may send: the engine's limits and the batches of
// the listeners and sources.
type Limits struct {
	core.Limits
	MaxBatch      int
	MaxBatchBytes int
}

// Sink is one configured way out.
type Sink struct {
	Name         string
	Type         string
	Timeout      time.Duration
	MaxBatch     int
	DedupeWindow time.Duration // 0 is off
	MetricTopics []string      // topics that become labels
	Retry        core.RetryPolicy
	Config       json.RawMessage // a JSON object, for the sink's OpenFunc
	Contents     string          // of the TLS files that Config names: equal if they are

	hasDedupeWindow bool
}

// Source is one configured source.
type Source struct {
	Name   string
	Type   string
	Config json.RawMessage // a JSON object, for the source itself
	// Contents is as in Sink.
	Contents string
}

// Options are what Decode can't know by itself.
type Options struct {
	SinkTypes   []string // that "type" of a sink may be
	SourceTypes []string // that "type" of a source may be
	// NoStore says that the store is not used: it need not be configured.
	NoStore bool
	// LookupEnv finds the variables that values refer to; nil is os.LookupEnv.
	LookupEnv func(name string) (value string, ok bool)
	// ReadFile reads the files that secrets are in; nil is those of this machine.
	ReadFile func(path string) (text []byte, mode os.FileMode, err error)
}

func (o Options) withDefaults() Options {
	if o.LookupEnv == nil {
		o.LookupEnv = os.LookupEnv
	}
	if o.ReadFile == nil {
		o.ReadFile = readFile
	}
	o.SinkTypes = slices.Sorted(slices.Values(o.SinkTypes))
	o.SourceTypes = slices.Sorted(slices.Values(o.SourceTypes))
	return o
}

// Fault turns what the part that the section at path configures said about it
// into Faults with the place in the file: of the field, for a
// *core.InvalidError whose Field is a path within the section, such as
// "tls.cert" or "brokers[0]", else of the section. A nil err is nil.
func (c *Config) Fault(path string, err error) error {
	if err == nil {
		return nil
	}
	return c.source.render(c.source.faultsOf(path, err))
}
