package rocketmq

import (
	"cmp"
	"encoding/json"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/core"
	strict "github.com/delaybridge/delaybridge/internal/settings"
)

// Config is the sink's configuration. A zero field means its default.
type Config struct {
	// NameServers are host:port addresses of the name servers of one cluster;
	// hosts may be names. At least one is needed.
	NameServers []string `json:"name_servers"`
	// Group is the producer group that the brokers see; delaybridge.
	Group string `json:"group"`
	// Namespace, if set, is put before every topic ("namespace%topic"), and
	// topics may then not contain '%' themselves.
	Namespace string `json:"namespace"`

	// AccessKey and SecretKey sign every request (ACL); both or neither.
	AccessKey     string `json:"access_key"`
	SecretKey     string `json:"secret_key"`
	SecurityToken string `json:"security_token"` // goes with the keys, where the cluster wants one

	// SendTimeout is how long one request to a broker may take; 100ms to 3s,
	// which is the default: the client library waits no longer.
	SendTimeout Duration `json:"send_timeout"`
	// Workers is how many requests to one broker are under way at once; 1 to 64, 4.
	Workers int `json:"workers"`
	// MaxBatchBytes bounds what is put into one request; 1 MiB, and less than
	// MaxMessageBytes. A message that is larger travels alone.
	MaxBatchBytes int `json:"max_batch_bytes"`
	// MaxMessageBytes is the largest message that the brokers take; 4 MiB, as
	// there (maxMessageSize). Of it, 34 KiB are kept for properties: a body may
	// have the rest. 64 KiB to 12 MiB.
	MaxMessageBytes int `json:"max_message_bytes"`
	// FlushTimeouts says what it means if the broker has stored a message but
	// not flushed or replicated it in time: "retry" (default) sends it again,
	// a duplicate that is better than a loss; "accept" takes it as delivered.
	FlushTimeouts string `json:"flush_timeouts"`
}

// The values of Config.FlushTimeouts.
const (
	flushRetry  = "retry"
	flushAccept = "accept"
)

const (
	defaultGroup      = "delaybridge"
	maxSendTimeout    = 3 * time.Second // fixed in the client library
	minSendTimeout    = 100 * time.Millisecond
	defaultWorkers    = 4
	maxWorkers        = 64
	defaultBatchBytes = 1 << 20
	defaultMaxMessage = 4 << 20
	minMessageBytes   = 64 << 10
	maxMessageBytes   = 12 << 20 // a broker drops the connection at 16 MiB
	maxNameServers    = 16
	maxGroupLen       = 255
	maxNamespaceLen   = 64
	maxCredentialLen  = 1024
)

// Duration is a time.Duration that reads as text: "500ms", "3s".
type Duration time.Duration

// UnmarshalJSON takes a string with a unit. There is one such setting, which an error names.
func (d *Duration) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return errSendTimeout
	}
	parsed, err := time.ParseDuration(s)
	if err != nil {
		return errSendTimeout
	}
	*d = Duration(parsed)
	return nil
}

var errSendTimeout = core.Invalidf("send_timeout", "must be text with a unit, such as 500ms or 3s")

// decodeConfig reads and checks a Config. A fault is a *core.InvalidError, whose text
// has no value of the configuration in it: values may be secret.
func decodeConfig(config json.RawMessage) (Config, error) {
	var c Config
	if err := strict.Decode(config, &c, "a RocketMQ sink"); err != nil {
		return c, err
	}
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return c, err
	}
	return c, nil
}

func (c Config) withDefaults() Config {
	c.Group = cmp.Or(c.Group, defaultGroup)
	c.SendTimeout = cmp.Or(c.SendTimeout, Duration(maxSendTimeout))
	c.Workers = cmp.Or(c.Workers, defaultWorkers)
	c.MaxMessageBytes = cmp.Or(c.MaxMessageBytes, defaultMaxMessage)
	c.MaxBatchBytes = cmp.Or(c.MaxBatchBytes, min(defaultBatchBytes, c.MaxMessageBytes-1))
	c.FlushTimeouts = cmp.Or(c.FlushTimeouts, flushRetry)
	return c
}

func (c Config) check() error {
	timeout := time.Duration(c.SendTimeout)
	switch {
	case !onlyOf(c.Group, groupChars) || len(c.Group) > maxGroupLen:
		return core.Invalidf("group", "may hold up to %d of A-Z a-z 0-9 _ - | %% only", maxGroupLen)
	case !onlyOf(c.Namespace, namespaceChars) || len(c.Namespace) > maxNamespaceLen:
		return core.Invalidf("namespace", "may hold up to %d of A-Z a-z 0-9 _ - only", maxNamespaceLen)
	case timeout < minSendTimeout || timeout > maxSendTimeout:
		return core.Invalidf("send_timeout", "must be %s to %s", minSendTimeout, maxSendTimeout)
	case c.Workers < 1 || c.Workers > maxWorkers:
		return core.Invalidf("workers", "must be 1 to %d", maxWorkers)
	case c.MaxMessageBytes < minMessageBytes || c.MaxMessageBytes > maxMessageBytes:
		return core.Invalidf("max_message_bytes", "must be %d to %d", minMessageBytes, maxMessageBytes)
	case c.MaxBatchBytes < 1 || c.MaxBatchBytes >= c.MaxMessageBytes:
		return core.Invalidf("max_batch_bytes", "must be at least 1 and less than max_message_bytes")
	case c.FlushTimeouts != flushRetry && c.FlushTimeouts != flushAccept:
		return core.Invalidf("flush_timeouts", "must be retry or accept")
	}
	if err := c.checkCredentials(); err != nil {
		return err
	}
	return c.checkNameServers()
}

func (c Config) checkCredentials() error {
	for _, field := range []struct{ name, value string }{
		{"access_key", c.AccessKey}, {"secret_key", c.SecretKey}, {"security_token", c.SecurityToken},
	} {
		if len(field.value) > maxCredentialLen || strings.ContainsFunc(field.value, notPrintable) {
			return core.Invalidf(field.name, "may hold up to %d printable ASCII characters without spaces", maxCredentialLen)
		}
	}
	switch {
	case c.AccessKey == "" && c.SecretKey != "":
		return core.Invalidf("access_key", "is missing, as there is a secret_key")
	case c.AccessKey != "" && c.SecretKey == "":
		return core.Invalidf("secret_key", "is missing, as there is an access_key")
	case c.SecurityToken != "" && c.AccessKey == "":
		return core.Invalidf("security_token", "needs an access_key and a secret_key")
	}
	return nil
}

func notPrintable(r rune) bool { return r <= ' ' || r > '~' }

func (c Config) checkNameServers() error {
	if len(c.NameServers) == 0 {
		return core.Invalidf("name_servers", "is missing: give at least one host:port")
	}
	if len(c.NameServers) > maxNameServers {
		return core.Invalidf("name_servers", "may be %d at most", maxNameServers)
	}
	for n, address := range c.NameServers {
		if !validAddress(address) {
			return core.Invalidf("name_servers", "has an entry, number %d, that is not host:port", n+1)
		}
	}
	return nil
}

// validAddress tells whether address is host:port with nothing in the host that
// could be read as something else, such as a scheme or a second address.
func validAddress(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || strings.ContainsFunc(host, notPrintable) || strings.ContainsAny(host, "/;,@?#") {
		return false
	}
	number, err := strconv.ParseUint(port, 10, 16)
	return err == nil && number > 0
}
