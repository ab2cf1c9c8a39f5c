package plugin

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/core"
	strict "github.com/delaybridge/delaybridge/internal/settings"
)

// config is the configuration of a sink of type plugin, as written.
type config struct {
	Command        string            `json:"command"`
	Args           []string          `json:"args"`
	Env            map[string]string `json:"env"`
	PassEnv        []string          `json:"pass_env"`
	SHA256         string            `json:"sha256"`
	MTLS           *bool             `json:"mtls"`
	StartTimeout   string            `json:"start_timeout"`
	HealthInterval string            `json:"health_interval"`
	StopTimeout    string            `json:"stop_timeout"`
	Required       bool              `json:"required"`
	Config         json.RawMessage   `json:"config"`
}

// settings is the configuration as used.
type settings struct {
	command        string
	args           []string
	env            []string // name=value; those set and those passed on
	sha256         []byte   // nil: not pinned
	mtls           bool
	startTimeout   time.Duration
	healthInterval time.Duration
	stopTimeout    time.Duration
	required       bool
	config         json.RawMessage // an object
	pace           pace
}

const (
	minTimeout = 10 * time.Millisecond
	maxTimeout = 10 * time.Minute
	// minInterval keeps a plugin from doing nothing but saying that it lives.
	minInterval = 100 * time.Millisecond
)

// decode reads the configuration and checks everything that needs no program.
// Every error is a *core.InvalidError that names the field. lookup finds the
// host's environment variables.
func decode(raw json.RawMessage, lookup func(string) (string, bool)) (settings, error) {
	var c config
	if err := strict.Decode(raw, &c, "a plugin sink; the plugin's own settings are in its config"); err != nil {
		return settings{}, err
	}
	return c.settings(lookup)
}

func (c *config) settings(lookup func(string) (string, bool)) (settings, error) {
	s := settings{command: c.Command, args: c.Args, mtls: c.MTLS == nil || *c.MTLS, required: c.Required, pace: standardPace()}
	steps := []func(*settings) error{
		c.checkCommand, c.setSum, c.setTimes, c.setConfig,
		func(s *settings) error { return c.setEnv(s, lookup) },
	}
	for _, step := range steps {
		if err := step(&s); err != nil {
			return settings{}, err
		}
	}
	return s, nil
}

func (c *config) checkCommand(*settings) error {
	switch {
	case c.Command == "":
		return core.Invalidf("command", "is missing: give the absolute path of the plugin's program")
	case strings.ContainsRune(c.Command, 0):
		return core.Invalidf("command", "contains a NUL")
	}
	for n, arg := range c.Args {
		if strings.ContainsRune(arg, 0) {
			return core.Invalidf("args["+strconv.Itoa(n)+"]", "contains a NUL")
		}
	}
	return nil
}

func (c *config) setSum(s *settings) error {
	if c.SHA256 == "" {
		return nil
	}
	sum, err := hex.DecodeString(c.SHA256)
	if err != nil || len(sum) != 32 {
		return core.Invalidf("sha256", "must be 64 hexadecimal digits, as sha256sum prints them")
	}
	s.sha256 = sum
	return nil
}

func (c *config) setTimes(s *settings) error {
	return strict.Durations(
		strict.Duration{Field: "start_timeout", Text: c.StartTimeout, Standard: 10 * time.Second, Min: minTimeout, Max: maxTimeout, To: &s.startTimeout},
		strict.Duration{Field: "health_interval", Text: c.HealthInterval, Standard: 5 * time.Second, Min: minInterval, Max: maxTimeout, To: &s.healthInterval},
		strict.Duration{Field: "stop_timeout", Text: c.StopTimeout, Standard: 3 * time.Second, Min: minTimeout, Max: maxTimeout, To: &s.stopTimeout},
	)
}

// setConfig takes the plugin's own settings as they are: only it knows them.
func (c *config) setConfig(s *settings) error {
	s.config = bytes.TrimSpace(c.Config)
	if len(s.config) == 0 || string(s.config) == "null" {
		s.config = json.RawMessage("{}")
	}
	if s.config[0] != '{' {
		return core.Invalidf("config", "must be an object with the plugin's own settings")
	}
	return nil
}

// setEnv passes on what is named, and those variables without which many
// programs do not find what they are made of.
func (c *config) setEnv(s *settings, lookup func(string) (string, bool)) error {
	pass := []string{"PATH", "HOME", "TMPDIR", "LANG"}
	for n, name := range c.PassEnv {
		field := "pass_env[" + strconv.Itoa(n) + "]"
		if err := checkEnv(field, name, ""); err != nil {
			return err
		}
		if _, twice := c.Env[name]; twice {
			return core.Invalidf(field, "is also set in env: remove one of the two")
		}
		if _, ok := lookup(name); !ok {
			return core.Invalidf(field, "is not set in the environment of delaybridge")
		}
		pass = append(pass, name)
	}
	for _, name := range pass {
		if value, ok := lookup(name); ok {
			s.env = append(s.env, name+"="+value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) { // last, as the last of two counts
		value := c.Env[name]
		if err := checkEnv("env."+core.Shorten(name, 64), name, value); err != nil {
			return err
		}
		s.env = append(s.env, name+"="+value)
	}
	return nil
}

const envChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"

// checkEnv also keeps back the variables by which host and plugin find each other.
func checkEnv(field, name, value string) *core.InvalidError {
	switch {
	case name == "" || strings.Trim(name, envChars) != "" || name[0] >= '0' && name[0] <= '9':
		return core.Invalidf(field, "is not a name of an environment variable: A-Z a-z 0-9 _, not beginning with a digit")
	case strings.HasPrefix(name, "PLUGIN_") || name == handshake().MagicCookieKey:
		return core.Invalidf(field, "is set by delaybridge itself")
	case strings.ContainsRune(value, 0):
		return core.Invalidf(field, "contains a NULs value")
	}
	return nil
}
