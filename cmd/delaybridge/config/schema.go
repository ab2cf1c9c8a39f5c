package config

import (
	"encoding/json"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// field is one row of the table that drives decoding, suggestions and the test
// of the example: one key of the file, and where its value goes. Exactly one of
// set, add, fields, each and raw is not nil.
type field struct {
	name string
	def  string // as written in the file; empty: none
	doc  string
	kind string // what the value is called in a fault
	bare bool   // a quoted scalar is of the wrong type

	secret   bool
	file     bool // names a file that is read at the start
	required bool
	known    []string // what a value may be, if it is one of a few

	set    func(text string) error      // scalar
	add    func(text string) error      // an element of a list
	fields []field                      // section
	each   func(name string) []field    // section whose keys the user names
	raw    func(config json.RawMessage) // passed through
}

func (f field) isSecret() field   { f.secret = true; return f }
func (f field) isFile() field     { f.file = true; return f }
func (f field) isRequired() field { f.required = true; return f }

func section(name, doc string, fields ...field) field {
	return field{name: name, doc: doc, kind: "section", fields: fields}
}

// fields is the table. It binds every key to its place in c.
func (c *Config) fields(o Options) []field {
	return []field{
		number("version", &c.Version, "1", "1", "1", "of this file's format"),
		section("log", "written to standard error",
			oneOf("level", &c.Log.Level, "info", "lowest level that is logged: debug, info, warn or error", "debug", "info", "warn", "error"),
			oneOf("format", &c.Log.Format, "text", "text or json", "text", "json"),
		),
		section("store", "where messages are parked", c.Store.fields()...),
		section("http", "the HTTP listener", c.HTTP.fields()...),
		section("grpc", "the gRPC listener", c.GRPC.fields()...),
		section("metrics", "for Prometheus, at /metrics", c.Metrics.fields()...),
		section("tracing", "spans of messages, by OpenTelemetry's protocol", c.Tracing.fields()...),
		section("events", "what happens to messages, for a sink, too", c.Events.fields()...),
		section("limits", "what producers may send; more is refused", c.Limits.fields()...),
		section("retry", "of failed deliveries, unless a sink overrides it",
			retryFields(&c.Retry, retryDefaults)...),
		{name: "sinks", doc: "targets of messages, by name", kind: "section", each: func(name string) []field {
			s := &Sink{Name: name}
			c.sinks = append(c.sinks, s)
			return s.fields(o)
		}},
		{name: "sources", doc: "read tagged messages from brokers, by name", kind: "section", each: func(name string) []field {
			i := &Source{Name: name}
			c.sources = append(c.sources, i)
			return i.fields(o)
		}},
		section("shutdown", "on SIGTERM and Ctrl-C",
			duration("timeout", &c.ShutdownTimeout, "30s", "1s", "1h", "for each stage: listeners and sources, dispatchers"),
		),
	}
}

func (s *Store) fields() []field {
	return []field{
		section("redis", "either url or addrs is required", s.Redis.fields()...),
		oneOf("durability", &s.Durability, "auto", "what an accepted message survives: memory, replicated, fsync, or auto, the strongest of these that needs no timer", "auto", "memory", "replicated", "fsync"),
		number("replicas", &s.Replicas, "1", "1", "16", "replicas that must have a message, for replicated"),
		duration("durability_timeout", &s.DurabilityTimeout, "2s", "10ms", "1m", "limit for replicas or disk to confirm"),
		duration("lease", &s.Lease, "5s", "1s", "10m", "how long a bucket stays with an instance that does not respond"),
		duration("guard", &s.Guard, "5s", "100ms", "1m", "longest time until a lost wake-up is detected"),
		duration("dedupe_window", &s.DedupeWindow, "2m", "0s", "7d", "how long the id of a settled message is remembered; 0s: off"),
	}
}

func (r *Redis) fields() []field {
	return []field{
		text("url", &r.url, "", "redis://user:password@host:6379/0, or rediss:// for TLS").isSecret(),
		texts("addrs", &r.Addrs, "host:port of the server, of some nodes of a cluster, or of the Sentinels"),
		text("master_name", &r.MasterName, "", "name of the master at the Sentinels"),
		text("username", &r.Username, "", "of a Redis ACL user"),
		text("password", &r.Password, "", "never printed; better set by the environment").isSecret(),
		text("sentinel_username", &r.SentinelUsername, "", "if the Sentinels require one"),
		text("sentinel_password", &r.SentinelPassword, "", "if the Sentinels require one").isSecret(),
		number("db", &r.DB, "0", "0", "1000000", "database number; a cluster has 0 only"),
		section("tls", "for connections to Redis", r.TLS.fields()...),
		flag("cluster", &r.Cluster, "addrs are nodes of a Redis Cluster"),
		text("prefix", &r.Prefix, "delaybridge", "of every key in Redis"),
		number("buckets", &r.Buckets, "", "1", "1024", "per sink; fixed at the first start"),
		flag("allow_volatile", &r.AllowVolatile, "accept a Redis that loses everything when it restarts"),
	}
}

func (t *TLS) fields() []field {
	return []field{
		flag("enabled", &t.Enabled, "rediss:// in url does the same"),
		text("ca", &t.CA, "", "PEM file of the trusted authorities; the system's if omitted").isFile(),
		text("cert", &t.Cert, "", "PEM file of the client certificate, if the server requires one").isFile(),
		text("key", &t.Key, "", "PEM file of its key").isFile(),
		text("server_name", &t.ServerName, "", "expected in the server's certificate; the host if omitted"),
	}
}

func (h *HTTP) fields() []field {
	return []field{
		text("listen", &h.Listen, "127.0.0.1:7420", "an address other than loopback requires tokens or insecure"),
		texts("tokens", &h.Tokens, "a caller must send one of them; plain or sha256:<hex>").isSecret(),
		flag("insecure", &h.Insecure, "allow any address without tokens"),
		text("tls_cert", &h.TLSCert, "", "PEM file of the certificate; enables TLS").isFile(),
		text("tls_key", &h.TLSKey, "", "PEM file of its key").isFile(),
		texts("dialects", &h.Dialects, "further delay headers that a raw body may have: cloudevents, rabbitmq, nats, ..."),
		number("max_connections", &h.MaxConnections, "2048", "1", "1000000", "open at once; a few more are accepted for health checks"),
		size("max_unanswered", &h.MaxUnanswered, "128MiB", "1MiB", "64GiB", "all unanswered requests together; they need up to three times that in memory"),
		duration("read_header_timeout", &h.ReadHeaderTimeout, "5s", "100ms", "10m", "for the header of a request"),
		duration("read_timeout", &h.ReadTimeout, "30s", "100ms", "1h", "for a whole request"),
		duration("write_timeout", &h.WriteTimeout, "1m", "100ms", "1h", "for reading a request and writing its reply"),
		duration("idle_timeout", &h.IdleTimeout, "1m", "100ms", "1d", "until an unused connection is closed"),
		duration("stop_timeout", &h.StopTimeout, "10s", "100ms", "1h", "for requests in progress at shutdown"),
	}
}

func (g *GRPC) fields() []field {
	return []field{
		text("listen", &g.Listen, "", "such as 127.0.0.1:7421; off if omitted; other than loopback requires tokens or insecure"),
		texts("tokens", &g.Tokens, "as http.tokens; they are not shared").isSecret(),
		flag("insecure", &g.Insecure, "allow any address without tokens"),
		text("tls_cert", &g.TLSCert, "", "PEM file of the certificate; enables TLS").isFile(),
		text("tls_key", &g.TLSKey, "", "PEM file of its key").isFile(),
		flag("reflection", &g.Reflection, "let tools read the API's description"),
		size("max_metadata", &g.MaxMetadataBytes, "8KiB", "1KiB", "1MiB", "of a call"),
		number("max_streams", &g.MaxStreams, "100", "1", "100000", "calls in progress on one connection"),
		number("max_connections", &g.MaxConnections, "1024", "1", "1000000", "open at once; a few more are accepted for health checks"),
		size("max_unanswered", &g.MaxUnanswered, "128MiB", "1MiB", "64GiB", "all unanswered requests together; they need up to four times that in memory"),
		duration("keepalive_min", &g.KeepaliveMin, "10s", "100ms", "1h", "minimum between two pings; a client that sends more is disconnected"),
		duration("connection_age", &g.ConnectionAge, "30m", "1s", "365d", "then a client is asked to connect again, and streams end"),
		duration("stop_timeout", &g.StopTimeout, "10s", "100ms", "1h", "for calls in progress at shutdown"),
	}
}

func (m *Metrics) fields() []field {
	enabled := flag("enabled", &m.Enabled, "false: nothing is measured")
	enabled.def = "true"
	return []field{
		enabled,
		text("listen", &m.Listen, "", "such as 127.0.0.1:7422, for a listener of their own; else the HTTP listener has them, on loopback without a token"),
		texts("tokens", &m.Tokens, "as http.tokens, for that listener; they are not shared").isSecret(),
		flag("insecure", &m.Insecure, "allow any address without tokens"),
		text("tls_cert", &m.TLSCert, "", "PEM file of the certificate; enables TLS"),
		text("tls_key", &m.TLSKey, "", "PEM file of its key"),
		section("otlp", "export by OpenTelemetry's protocol, too", append(m.OTLP.fields("OTEL_METRICS_EXPORTER"),
			duration("interval", &m.OTLP.Interval, "", "1s", "1h", "between exports; OTEL_METRIC_EXPORT_INTERVAL or a minute if omitted"))...),
	}
}

func (t *Tracing) fields() []field {
	return append(t.Target.fields("OTEL_TRACES_EXPORTER"),
		optional(&t.SampleRatio, func(ratio *float64) field {
			return decimal("sample_ratio", ratio, "", "0", "1", "share of messages whose producer sends no trace; the others are as the producer has sampled; OTEL_TRACES_SAMPLER if omitted")
		}),
		flag("parent", &t.Parent, "a delivery is a child of the producer's span, not a trace that links to it"))
}

func (t *Target) fields(variable string) []field {
	return []field{
		optional(&t.Enabled, func(on *bool) field { return flag("enabled", on, "if omitted, whether "+variable+" is otlp") }),
		text("endpoint", &t.Endpoint, "", "such as http://127.0.0.1:4318; OTEL_EXPORTER_OTLP_ENDPOINT or this machine if omitted"),
		oneOf("protocol", &t.Protocol, "", "grpc or http/protobuf; OTEL_EXPORTER_OTLP_PROTOCOL or http/protobuf if omitted", "grpc", "http/protobuf"),
	}
}

func (e *Events) fields() []field {
	return []field{
		text("sink", &e.Sink, "", "name of a sink; if omitted, events are only streamed by GET /v1/events"),
		text("topic", &e.Topic, "delaybridge.events", "in that sink"),
		flag("bodies", &e.Bodies, "events of whole messages have the body"),
	}
}

func (l *Limits) fields() []field {
	return []field{
		size("max_body", &l.MaxBody, "256KiB", "1B", "64MiB", "of a message's body"),
		number("max_headers", &l.MaxHeaders, "64", "1", "10000", "of a message"),
		size("max_header_bytes", &l.MaxHeaderBytes, "8KiB", "1B", "1MiB", "of all its headers"),
		number("max_hops", &l.MaxHops, "1000", "1", "1000000", "how often a delivered message may be published again"),
		duration("max_delay", &l.MaxDelay, "365d", "1s", "36500d", "from now to deliver_at and expires_at"),
		duration("max_past", &l.MaxPast, "24h", "1ms", "36500d", "how far in the past deliver_at may be"),
		number("max_batch", &l.MaxBatch, "500", "1", "10000", "messages of one batch, or of one gRPC request"),
		size("max_batch_bytes", &l.MaxBatchBytes, "4MiB", "1KiB", "256MiB", "of one batch, or of one gRPC request"),
	}
}

// retryDefaults are core's own, written out; nil stands for "as in retry".
var retryDefaults = map[string]string{
	"initial": "1s", "max": "5m", "multiplier": "2", "jitter": "0.2", "max_attempts": "16",
}

func retryFields(r *core.RetryPolicy, defaults map[string]string) []field {
	return []field{
		duration("initial", &r.Initial, defaults["initial"], "1ms", "7d", "wait after the first attempt"),
		duration("max", &r.Max, defaults["max"], "1ms", "7d", "longest wait"),
		decimal("multiplier", &r.Multiplier, defaults["multiplier"], "1", "100", "growth of the wait"),
		jitter(&r.Jitter, defaults["jitter"]),
		number("max_attempts", &r.MaxAttempts, defaults["max_attempts"], "1", "10000", "then the message is a dead letter"),
	}
}

// jitter writes a written-out 0 as core wants it: there, zero is the default.
func jitter(dst *float64, def string) field {
	f := decimal("jitter", dst, def, "0", "1", "random share of each wait")
	set := f.set
	f.set = func(text string) error {
		err := set(text)
		if err == nil && *dst == 0 {
			*dst = -1
		}
		return err
	}
	return f
}

func (s *Sink) fields(o Options) []field {
	return []field{
		oneOf("type", &s.Type, "", "required; decides the keys of config", o.SinkTypes...).isRequired(),
		duration("timeout", &s.Timeout, "10s", "10ms", "10m", "of one delivery"),
		number("max_batch", &s.MaxBatch, "500", "1", "500", "messages of one delivery"),
		s.dedupeWindow(),
		texts("metric_topics", &s.MetricTopics, "topics that are labels of metrics; at most 100"),
		section("retry", "as retry above, for this sink", retryFields(&s.Retry, nil)...),
		{name: "config", doc: "settings of the sink's type", kind: "section", raw: func(config json.RawMessage) { s.Config = config }},
	}
}

func (i *Source) fields(o Options) []field {
	return []field{
		oneOf("type", &i.Type, "", "required; decides the keys of config", o.SourceTypes...).isRequired(),
		{name: "config", doc: "for the source, by its type", kind: "section", raw: func(config json.RawMessage) { i.Config = config }},
	}
}

// dedupeWindow notes that it was written out: zero means off, not absent.
func (s *Sink) dedupeWindow() field {
	f := duration("dedupe_window", &s.DedupeWindow, "", "0s", "7d", "as store.dedupe_window, for this sink")
	set := f.set
	f.set = func(text string) error {
		s.hasDedupeWindow = true
		return set(text)
	}
	return f
}

func duration(name string, dst *time.Duration, def, lowest, highest, doc string) field {
	return field{name: name, def: def, doc: doc, kind: "duration", set: bounded(dst, parseDuration, lowest, highest)}
}

func size(name string, dst *int, def, lowest, highest, doc string) field {
	return field{name: name, def: def, doc: doc, kind: "size", set: bounded(dst, parseSize, lowest, highest)}
}

func number(name string, dst *int, def, lowest, highest, doc string) field {
	return field{name: name, def: def, doc: doc, kind: "number", bare: true, set: bounded(dst, parseNumber, lowest, highest)}
}

func decimal(name string, dst *float64, def, lowest, highest, doc string) field {
	return field{name: name, def: def, doc: doc, kind: "number", bare: true, set: bounded(dst, parseDecimal, lowest, highest)}
}

func flag(name string, dst *bool, doc string) field {
	return field{name: name, def: "false", doc: doc, kind: "true or false", bare: true, set: func(text string) (err error) {
		*dst, err = parseBool(text)
		return err
	}}
}

// optional is a field that is nil if it is not there.
func optional[T any](dst **T, of func(*T) field) field {
	value := new(T)
	f := of(value)
	set := f.set
	f.def, f.set = "", func(text string) error { *dst = value; return set(text) }
	return f
}

func text(name string, dst *string, def, doc string) field {
	return field{name: name, def: def, doc: doc, kind: "text", set: func(text string) error { *dst = text; return nil }}
}

func texts(name string, dst *[]string, doc string) field {
	return field{name: name, def: "[]", doc: doc, kind: "list", add: func(text string) error { *dst = append(*dst, text); return nil }}
}

func oneOf(name string, dst *string, def, doc string, known ...string) field {
	return field{name: name, def: def, doc: doc, kind: "text", known: known,
		set: func(text string) error { *dst = text; return knownValue(text, known) }}
}
