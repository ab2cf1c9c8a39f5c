package client

import (
	"cmp"
	"crypto/tls"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Config configures a Client. Only URL is required; a zero field means its default.
type Config struct {
	// URL is the address of the bridge's HTTP API: http://host:port or
	// https://host:port, with a path if a proxy serves the API under one.
	URL string
	// Token is sent with each request, if not empty.
	Token string
	// TLS configures https: the trusted authorities, a client certificate.
	TLS *tls.Config
	// HTTP, if not nil, sends the requests. TLS is then set in its transport. Redirects
	// are never followed.
	HTTP *http.Client

	// Timeout bounds one try; default 20 s. The bridge itself times out after 15 s.
	Timeout time.Duration
	// Patience is how long after its start a call may be tried again; default 60 s,
	// negative is never. Patience and Timeout together must be less than the
	// dedupe_window of the sinks.
	Patience time.Duration

	// Answered, if not nil, is called with the unchanged JSON of each successful answer,
	// which may have more fields than this package decodes. It is called in the goroutine
	// of the call, before the call returns, or in that of a Publisher, and must not change
	// the bytes.
	Answered func(body []byte)

	// MaxBatch and MaxBatchBytes bound one request of PublishBatch or a Publisher; default
	// 500 messages and 4 MiB, the bridge's default limits. If the bridge refuses a request
	// as too large, the client sends smaller ones.
	MaxBatch      int
	MaxBatchBytes int

	// MaxPending and MaxPendingBytes bound what a Publisher holds: messages without a
	// result, and the bytes of their JSON; default 10,000 and 64 MiB. A message that is
	// larger alone is taken when there is no other.
	MaxPending      int
	MaxPendingBytes int
}

const (
	defaultTimeout       = 20 * time.Second
	defaultPatience      = time.Minute
	defaultMaxBatch      = 500
	defaultMaxBatchBytes = 4 << 20

	defaultMaxPending      = 10_000
	defaultMaxPendingBytes = 64 << 20

	// connections is how many are kept for the next call; the standard library
	// would keep two.
	connections = 64
)

// Client calls one bridge. It is safe for concurrent use and starts no goroutines
// except those of net/http's connections and of Publishers.
type Client struct {
	base          string // without a slash at its end
	authorization string
	http          *http.Client
	timeout       time.Duration
	patience      time.Duration
	maxBatch      int
	maxBatchBytes int
	answered      func(body []byte)

	maxPending      int // of a Publisher
	maxPendingBytes int
}

// New checks the configuration and returns a Client. It opens no connection.
func New(config Config) (*Client, error) {
	base, err := parseURL(config.URL)
	if err != nil {
		return nil, err
	}
	if config.HTTP != nil && config.TLS != nil {
		return nil, errors.New("delaybridge: HTTP and TLS are both set: set TLS in the HTTP client's transport")
	}
	if config.Timeout < 0 || min(config.MaxBatch, config.MaxBatchBytes, config.MaxPending, config.MaxPendingBytes) < 0 {
		return nil, errors.New("delaybridge: Timeout, MaxBatch, MaxBatchBytes, MaxPending and MaxPendingBytes must not be negative")
	}
	c := &Client{
		base: base, http: newHTTP(config), answered: config.Answered,
		timeout:  cmp.Or(config.Timeout, defaultTimeout),
		patience: cmp.Or(config.Patience, defaultPatience),
		maxBatch: cmp.Or(config.MaxBatch, defaultMaxBatch), maxBatchBytes: cmp.Or(config.MaxBatchBytes, defaultMaxBatchBytes),
		maxPending: cmp.Or(config.MaxPending, defaultMaxPending), maxPendingBytes: cmp.Or(config.MaxPendingBytes, defaultMaxPendingBytes),
	}
	if config.Token != "" {
		if strings.ContainsFunc(config.Token, notPrintable) {
			return nil, errors.New("delaybridge: Token may hold printable ASCII without spaces only")
		}
		c.authorization = "Bearer " + config.Token
	}
	return c, nil
}

func parseURL(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("delaybridge: URL must be of the form http://host:port or https://host:port")
	}
	return strings.TrimRight(u.String(), "/"), nil
}

func notPrintable(r rune) bool { return r <= ' ' || r > '~' }

func newHTTP(config Config) *http.Client {
	client := new(http.Client)
	if config.HTTP != nil {
		*client = *config.HTTP
	} else {
		transport := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
			MaxIdleConnsPerHost: connections, IdleConnTimeout: 30 * time.Second, TLSHandshakeTimeout: 10 * time.Second}
		if config.TLS != nil {
			transport.TLSClientConfig = config.TLS.Clone()
		}
		client.Transport = transport
	}
	// A redirect would make a GET of a POST.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client
}

// Close closes idle connections. Calls in progress continue, and the Client can still
// be used.
func (c *Client) Close() { c.http.CloseIdleConnections() }
