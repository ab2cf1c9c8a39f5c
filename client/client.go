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

// Config configures a Client. Only URL is needed; a zero field means its default.
type Config struct {
	// URL is where the bridge's HTTP API is: http://host:port or https://...,
	// with a path if a proxy puts the API below one.
	URL string
	// Token is sent with each request, if not empty.
	Token string
	// TLS is for https: the authority to trust, a certificate to show.
	TLS *tls.Config
	// HTTP sends the requests, if not nil, instead of a client of our own. TLS is
	// then set there, and redirects are not followed all the same.
	HTTP *http.Client

	// Timeout is how long one try may take; 20 s, as the bridge itself gives up
	// after 15 s.
	Timeout time.Duration
	// Patience is how long after its beginning a call may still be tried again;
	// 60 s, negative is never. Together with Timeout it is to be less than the
	// dedupe_window of the sinks.
	Patience time.Duration

	// Answered, if not nil, is given the JSON of each good answer as the bridge wrote it,
	// which may tell more than this package reads. It is called before the call returns,
	// from its goroutine, and must leave the bytes as they are.
	Answered func(body []byte)

	// MaxBatch and MaxBatchBytes bound one request of PublishBatch; 500 messages
	// and 4 MiB, as the bridge's limits are unless configured otherwise. A bridge
	// that allows less is sent less, at the cost of a refused request.
	MaxBatch      int
	MaxBatchBytes int
}

const (
	defaultTimeout       = 20 * time.Second
	defaultPatience      = time.Minute
	defaultMaxBatch      = 500
	defaultMaxBatchBytes = 4 << 20
	// connections is how many are kept for the next call; the standard library
	// would keep two.
	connections = 64
)

// Client calls one bridge. It is safe for concurrent use and starts no
// goroutines but those of net/http's connections.
type Client struct {
	base          string // without a slash at its end
	authorization string
	http          *http.Client
	timeout       time.Duration
	patience      time.Duration
	maxBatch      int
	maxBatchBytes int
	answered      func(body []byte)
}

// New checks the configuration and dials nothing. An error says what to change.
func New(config Config) (*Client, error) {
	base, err := parseURL(config.URL)
	if err != nil {
		return nil, err
	}
	if config.HTTP != nil && config.TLS != nil {
		return nil, errors.New("delaybridge: HTTP and TLS are both set: set TLS in the HTTP client's transport")
	}
	if config.Timeout < 0 || config.MaxBatch < 0 || config.MaxBatchBytes < 0 {
		return nil, errors.New("delaybridge: Timeout, MaxBatch and MaxBatchBytes must not be negative")
	}
	c := &Client{
		base: base, http: newHTTP(config), answered: config.Answered,
		timeout:  cmp.Or(config.Timeout, defaultTimeout),
		patience: cmp.Or(config.Patience, defaultPatience),
		maxBatch: cmp.Or(config.MaxBatch, defaultMaxBatch), maxBatchBytes: cmp.Or(config.MaxBatchBytes, defaultMaxBatchBytes),
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

// Close lets go of connections that are not in use. Calls can continue.
func (c *Client) Close() { c.http.CloseIdleConnections() }
