package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Setting is one value that a configuration has.
type Setting struct {
	Key   string // the path in the file, such as sinks.kafka.config.brokers[0]
	Value string // *** if it is a secret
	Given bool   // in the file; else it is the default

	real   string
	isFile bool // it names a file that is read at the start
}

// Settings returns what the file has, and the defaults of the rest, by key. What a sink or
// source decodes by itself is as it is written: only it knows its defaults.
func (c *Config) Settings() []Setting {
	return slices.SortedFunc(slices.Values(c.settings), func(a, b Setting) int { return strings.Compare(a.Key, b.Key) })
}

// Files returns the names of the files that were read besides the configuration itself.
func (c *Config) Files() []string { return c.files }

// record keeps a value of the table.
func (d *decoder) record(key string, f field, text string, given bool) {
	shown := canonical(f.kind, text)
	if f.secret || hasUserinfo(text) {
		shown = mask
	}
	d.settings = append(d.settings, Setting{Key: key, Value: shown, Given: given, real: canonical(f.kind, text), isFile: f.file && text != ""})
}

// canonical is the same for values that mean the same.
func canonical(kind, text string) string {
	switch kind {
	case "duration":
		if d, err := parseDuration(text); err == nil {
			return d.String()
		}
	case "size":
		if n, err := parseSize(text); err == nil {
			return strconv.Itoa(n) + "B"
		}
	}
	return text
}

var fileOfPart = regexp.MustCompile(`\.tls\.(ca|cert|key)$`)

// recordOfPart keeps a value of a section without a table. Of what a plugin decodes by
// itself nobody knows what is a secret.
func (d *decoder) recordOfPart(key, raw, text string, fromEnv bool) {
	shown := text
	if fromEnv || secretKey.MatchString(key) || hasUserinfo(raw) || ownOfPlugin.MatchString(key) && !harmless.MatchString(text) {
		shown = mask
	}
	d.settings = append(d.settings, Setting{Key: key, Value: shown, Given: true, real: text,
		isFile: fileOfPart.MatchString(key) && !ownOfPlugin.MatchString(key)})
}

const contents = " (contents)" // of the file that a key names

// addContents adds to the settings what is in the files that they name.
func (c *Config) addContents() {
	for _, s := range slices.Clone(c.settings) {
		if !s.isFile {
			continue
		}
		text, _, _ := readFile(s.real) // who reads it has a fault to report, if there is one
		sum := sha256.Sum256(text)
		digest := hex.EncodeToString(sum[:])
		c.files = append(c.files, s.real)
		c.settings = append(c.settings, Setting{Key: s.Key + contents, Value: mask, Given: s.Given, real: digest})
		for n := range c.Sinks {
			if strings.HasPrefix(s.Key, "sinks."+c.Sinks[n].Name+".config.") {
				c.Sinks[n].Contents += digest
			}
		}
		for n := range c.Sources {
			if strings.HasPrefix(s.Key, "sources."+c.Sources[n].Name+".config.") {
				c.Sources[n].Contents += digest
			}
		}
	}
}

// Change is one difference between two configurations.
type Change struct {
	Key  string `json:"key"`
	Kind string `json:"change"` // added, removed or changed
	Old  string `json:"old,omitempty"`
	New  string `json:"new,omitempty"`
}

// Place is the key in the file that Key is about.
func (c Change) Place() string { return strings.TrimSuffix(c.Key, contents) }

// The kinds of a Change.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
)

// Diff returns what is different in next, by key. A sink or source that is added or
// removed is one change.
func Diff(c, next *Config) []Change {
	before, after := c.byKey(), next.byKey()
	changes := make(map[string]Change)
	for key, s := range before {
		switch now, ok := after[key]; {
		case !ok:
			one := Change{Key: key, Kind: Removed, Old: s.Value}
			if name := partOf(c, key); name != "" && partOf(next, name+".") == "" {
				one = Change{Key: name, Kind: Removed}
			}
			changes[one.Key] = one
		case now.real != s.real:
			changes[key] = Change{Key: key, Kind: Changed, Old: s.Value, New: now.Value}
		}
	}
	for key, s := range after {
		if _, ok := before[key]; ok {
			continue
		}
		one := Change{Key: key, Kind: Added, New: s.Value}
		if name := partOf(next, key); name != "" && partOf(c, name+".") == "" {
			one = Change{Key: name, Kind: Added}
		}
		changes[one.Key] = one
	}
	sorted := make([]Change, 0, len(changes))
	for _, one := range changes {
		sorted = append(sorted, one)
	}
	slices.SortFunc(sorted, func(a, b Change) int { return cmp.Compare(a.Key, b.Key) })
	return sorted
}

func (c *Config) byKey() map[string]Setting {
	all := make(map[string]Setting, len(c.settings))
	for _, s := range c.settings {
		all[s.Key] = s
	}
	return all
}

// partOf returns the path of the sink or source that key is in, empty if it is in none.
func partOf(c *Config, key string) string {
	for _, s := range c.Sinks {
		if path := "sinks." + s.Name; strings.HasPrefix(key, path+".") {
			return path
		}
	}
	for _, s := range c.Sources {
		if path := "sources." + s.Name; strings.HasPrefix(key, path+".") {
			return path
		}
	}
	return ""
}

// live finds the keys of what can change while the bridge runs.
var live = regexp.MustCompile(`^(sinks|sources|retry)\.|^log\.level$|^limits\.max_(body|headers|hops|delay|past)$|` +
	`^(http|grpc|metrics)\.(tokens\[|tls_(cert|key)( |$))|` +
	`^store\.(dedupe_window|redis\.(url|username|password)|redis\.tls\.(ca|cert|key)( |$))`)

// NeedRestart returns those of changes, from c to next, that can't be made while the
// bridge runs.
func NeedRestart(c, next *Config, changes []Change) []Change {
	fixed := slices.DeleteFunc(slices.Clone(changes), func(one Change) bool { return live.MatchString(one.Key) })
	add := func(key string, is bool) {
		if is && !slices.ContainsFunc(fixed, func(one Change) bool { return one.Key == key }) {
			fixed = append(fixed, Change{Key: key, Kind: Changed})
		}
	}
	add("http.tls_cert", (c.HTTP.TLSCert == "") != (next.HTTP.TLSCert == ""))
	add("grpc.tls_cert", (c.GRPC.TLSCert == "") != (next.GRPC.TLSCert == ""))
	add("metrics.tls_cert", (c.Metrics.TLSCert == "") != (next.Metrics.TLSCert == ""))
	url := func(one Change) bool { return one.Key == "store.redis.url" }
	add("store.redis.url", slices.ContainsFunc(changes, url) && (!slices.Equal(c.Store.Redis.Addrs, next.Store.Redis.Addrs) || c.Store.Redis.DB != next.Store.Redis.DB ||
		c.Store.Redis.TLS.Enabled != next.Store.Redis.TLS.Enabled))
	add("limits.max_body", next.Limits.MaxBody > c.Limits.MaxBody && next.requestBytes() > min(c.Limits.MaxBatchBytes, c.HTTP.MaxUnanswered))
	return fixed
}

// requestBytes is what a request with one message can take.
func (c *Config) requestBytes() int { return c.Limits.MaxBody*14/10 + c.Limits.MaxHeaderBytes + 64<<10 }
