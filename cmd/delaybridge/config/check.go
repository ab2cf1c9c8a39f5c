package config

import (
	"cmp"
	"encoding/hex"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/internal/auth"
)

// check holds the rules between keys and those on the form of a text.
func (d *decoder) check(c *Config) {
	if !d.options.NoStore {
		d.checkRedis(&c.Store.Redis)
	}
	d.checkHTTP(&c.HTTP)
	d.checkGRPC(&c.GRPC)
	d.checkMetrics(&c.Metrics)
	d.checkEndpoint("tracing.endpoint", c.Tracing.Endpoint)
	d.checkLimits(c)
	d.checkEvents(c)
	d.checkRetry("retry", c.Retry)
	for _, s := range c.Sinks {
		d.checkRetry("sinks."+s.Name+".retry", s.Retry)
		if path := "sinks." + s.Name + ".metric_topics"; len(s.MetricTopics) > maxMetricTopics {
			d.fail(path, "out-of-range", "has %d topics, at most %d are allowed, as each is a time series more", len(s.MetricTopics), maxMetricTopics)
		}
	}
	if len(c.Sinks) == 0 && !d.isBroken("sinks") {
		d.fail("sinks", "missing", "no sink is configured; add at least one, such as sinks: {console: {type: console}}")
	}
}

var prefixForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,31}$`)

func (d *decoder) checkRedis(r *Redis) {
	const at = "store.redis"
	if r.url == "" && len(r.Addrs) == 0 && !d.isBroken(at) {
		d.fail(at, "missing", "has neither url nor addrs; set one, such as url: redis://127.0.0.1:6379")
	}
	for n, addr := range r.Addrs {
		if checkHostPort(addr) != nil {
			path := item(at+".addrs", n)
			d.fail(path, "bad-address", "%s is not host:port", d.show(path, addr))
		}
	}
	if r.url != "" {
		d.checkURL(r)
	}
	if !prefixForm.MatchString(r.Prefix) && r.Prefix != "" {
		d.fail(at+".prefix", "bad-name", "may hold 1 to 32 of A-Z a-z 0-9 . _ : - and begins with a letter or digit")
	}
	d.checkTopology(r)
	d.checkTLS(at+".tls", &r.TLS)
}

func (d *decoder) checkTopology(r *Redis) {
	const at = "store.redis"
	switch {
	case r.Cluster && r.DB != 0:
		d.fail(at+".db", "conflict", "must be 0 because cluster is true")
	case r.Cluster && r.MasterName != "":
		d.fail(at+".master_name", "conflict", "can't be used together with cluster: true")
	case len(r.Addrs) > 1 && !r.Cluster && r.MasterName == "":
		d.fail(at+".addrs", "conflict", "has several addresses, which needs cluster: true or, for Sentinels, master_name")
	case r.MasterName == "" && r.SentinelUsername+r.SentinelPassword != "":
		d.fail(at+".sentinel_"+map[bool]string{true: "username", false: "password"}[r.SentinelUsername != ""],
			"conflict", "needs master_name")
	}
}

// checkURL takes the URL apart into the other fields.
func (d *decoder) checkURL(r *Redis) {
	const at = "store.redis"
	parsed, err := ParseRedisURL(r.url)
	if err != nil {
		d.fail(at+".url", "bad-address", "%s", err)
		return
	}
	clashes := []struct {
		key   string
		clash bool
	}{
		{"addrs", len(r.Addrs) > 0},
		{"master_name", r.MasterName != ""},
		{"username", r.Username != "" && parsed.Username != ""},
		{"password", r.Password != "" && parsed.Password != ""},
		{"db", r.DB != 0 && parsed.DB != 0},
	}
	for _, c := range clashes {
		if c.clash {
			d.fail(at+"."+c.key, "conflict", "can't be used together with url, or with the same in it")
		}
	}
	r.Addrs = append(parsed.Addrs, r.Addrs...)
	r.Username, r.Password = cmp.Or(r.Username, parsed.Username), cmp.Or(r.Password, parsed.Password)
	r.DB, r.TLS.Enabled = cmp.Or(r.DB, parsed.DB), r.TLS.Enabled || parsed.TLS.Enabled
}

// urlError is a fault of a URL, without the URL: it may hold a password.
type urlError string

func (e urlError) Error() string { return string(e) }

const urlForm = urlError("is not of the form redis://user:password@host:6379/0 (or rediss:// for TLS)")

// ParseRedisURL takes redis://user:password@host:6379/0, or rediss:// for TLS,
// apart. Errors do not repeat the URL.
func ParseRedisURL(s string) (Redis, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "redis" && u.Scheme != "rediss" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" {
		return Redis{}, urlForm
	}
	r := Redis{Addrs: []string{net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "6379"))}, Username: u.User.Username()}
	r.Password, _ = u.User.Password()
	r.TLS.Enabled = u.Scheme == "rediss"
	if db := strings.Trim(u.Path, "/"); db != "" {
		if r.DB, err = parseNumber(db); err != nil || r.DB < 0 {
			return Redis{}, urlForm
		}
	}
	if err := checkHostPort(r.Addrs[0]); err != nil {
		return Redis{}, urlForm
	}
	return r, nil
}

func checkHostPort(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	n, portErr := strconv.Atoi(port)
	if err != nil || portErr != nil || n < 0 || n > 65535 || strings.ContainsAny(host, "/ @") {
		return urlForm
	}
	return nil
}

func (d *decoder) checkTLS(at string, t *TLS) {
	for _, f := range []struct{ key, value string }{{"ca", t.CA}, {"cert", t.Cert}, {"key", t.Key}, {"server_name", t.ServerName}} {
		if f.value != "" && !t.Enabled {
			d.fail(at+"."+f.key, "conflict", "has no effect because enabled is false")
		}
	}
	d.checkPair(at+".cert", t.Cert, at+".key", t.Key)
}

func (d *decoder) checkPair(certPath, cert, keyPath, key string) {
	switch {
	case cert != "" && key == "" && !d.has(keyPath):
		d.fail(certPath, "conflict", "needs %s as well", keyPath)
	case cert == "" && key != "" && !d.has(certPath):
		d.fail(keyPath, "conflict", "needs %s as well", certPath)
	}
}

const hashPrefix = "sha256:"

func (d *decoder) checkHTTP(h *HTTP) {
	d.checkListen("http", h.Listen, h.Tokens, h.Insecure)
	d.checkPair("http.tls_cert", h.TLSCert, "http.tls_key", h.TLSKey)
	if h.ReadTimeout > 0 && h.ReadTimeout < h.ReadHeaderTimeout {
		d.fail("http.read_timeout", "conflict", "must not be less than read_header_timeout, %s", h.ReadHeaderTimeout)
	}
}

func (d *decoder) checkGRPC(g *GRPC) {
	d.checkListen("grpc", g.Listen, g.Tokens, g.Insecure)
	d.checkPair("grpc.tls_cert", g.TLSCert, "grpc.tls_key", g.TLSKey)
}

// maxMetricTopics is how many topics of a sink may be labels.
const maxMetricTopics = 100

func (d *decoder) checkMetrics(m *Metrics) {
	d.checkListen("metrics", m.Listen, m.Tokens, m.Insecure)
	d.checkPair("metrics.tls_cert", m.TLSCert, "metrics.tls_key", m.TLSKey)
	if own := m.Tokens != nil || m.Insecure || m.TLSCert != ""; own && m.Listen == "" && !d.isBroken("metrics") {
		d.fail("metrics", "conflict", "has settings of a listener of its own, but no listen; set it, such as listen: 127.0.0.1:7422")
	}
	d.checkEndpoint("metrics.otlp.endpoint", m.OTLP.Endpoint)
	if export := m.OTLP.Enabled; export != nil && *export && !m.Enabled && !d.isBroken("metrics") {
		d.fail("metrics.otlp.enabled", "conflict", "has no effect because metrics.enabled is false")
	}
}

// checkEndpoint looks after a URL of a collector.
func (d *decoder) checkEndpoint(at, endpoint string) {
	u, err := url.Parse(endpoint)
	if endpoint != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "") {
		d.fail(at, "bad-address", "%s is not a URL such as http://127.0.0.1:4318", d.show(at, endpoint))
	}
}

func (d *decoder) checkEvents(c *Config) {
	named := func(s *Sink) bool { return s.Name == c.Events.Sink }
	if c.Events.Sink != "" && !slices.ContainsFunc(c.sinks, named) && !d.isBroken("sinks") {
		d.fail("events.sink", "unknown-value", "is not the name of one of sinks")
	}
}

// checkListen looks after the address and the tokens of the listener at a path.
func (d *decoder) checkListen(at, listen string, tokens []string, insecure bool) {
	if listen != "" && checkHostPort(listen) != nil {
		d.fail(at+".listen", "bad-address", "%s is not host:port", d.show(at+".listen", listen))
	} else if len(tokens) == 0 && !insecure && !d.isBroken(at) && !isLoopback(listen) {
		d.fail(at+".listen", "open-listener", "is reachable from other machines; set %s.tokens, or write %s.insecure: true", at, at)
	}
	for n, token := range tokens {
		d.checkToken(item(at+".tokens", n), token)
	}
}

func (d *decoder) checkToken(path, token string) {
	if hash, ok := strings.CutPrefix(token, hashPrefix); ok {
		if raw, err := hex.DecodeString(hash); err != nil || len(raw) != 32 {
			d.fail(path, "bad-value", "is not sha256: and 64 hexadecimal digits")
		}
		return
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) || len(token) < auth.MinTokenLen {
		d.fail(path, "bad-value", "must be %d or more of printable ASCII without spaces; make one with: openssl rand -hex 32", auth.MinTokenLen)
	}
}

func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err != nil || host == "localhost" || ip != nil && ip.IsLoopback()
}

func (d *decoder) checkLimits(c *Config) {
	if l := c.Limits; l.MaxBatchBytes > 0 && l.MaxBatchBytes < l.MaxBody {
		d.fail("limits.max_batch_bytes", "conflict", "must not be less than max_body, %d bytes", l.MaxBody)
	}
}

func (d *decoder) checkRetry(path string, r core.RetryPolicy) {
	if r.Max < r.Initial && (d.has(path+".max") || d.has(path+".initial")) {
		at := path + ".max"
		if !d.has(at) {
			at = path + ".initial"
		}
		d.fail(at, "conflict", "makes the longest wait, %s, less than the first, %s", r.Max, r.Initial)
	}
}

// inheritRetry fills the zero fields of r from the section above.
func inheritRetry(r, above core.RetryPolicy) core.RetryPolicy {
	return core.RetryPolicy{
		Initial: cmp.Or(r.Initial, above.Initial), Max: cmp.Or(r.Max, above.Max),
		Multiplier: cmp.Or(r.Multiplier, above.Multiplier), Jitter: cmp.Or(r.Jitter, above.Jitter),
		MaxAttempts: cmp.Or(r.MaxAttempts, above.MaxAttempts),
	}
}

func (d *decoder) has(path string) bool {
	_, ok := d.places[path]
	return ok
}

// show quotes a value that is harmless.
func (d *decoder) show(path, value string) string {
	p := d.places[path]
	at := cmp.Or(p.value, p.key)
	if at == nil || !d.shown[at] || strings.Contains(at.Value, "${") {
		return mask
	}
	return strconv.Quote(value)
}

func item(path string, n int) string { return path + "[" + strconv.Itoa(n) + "]" }
