package config

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/delaybridge/delaybridge/core"
)

// wordsOfParts are settings, and values of them, that stand in no table, as the sinks
// and the ways in that read from a broker decode their config by themselves. One
// that is missing here is masked.
const wordsOfParts = `access_key acks allow_loop allow_target_headers allow_topics args batch
	brokers ca cert channels client_id command compression config confirm_timeout connections
	default_delay dial_timeout dialects drop_user_id env exchange exchanges fetch_bytes
	flush_timeouts format group health_interval heartbeat idle_timeout insecure_skip_verify key
	mandatory max_batch_bytes max_connections max_message_bytes max_message_size mechanism
	metadata_ttl mtls name name_servers namespace partitioner pass_env password persistent
	prefetch prefix properties queue_arguments queues reject_exchange reject_queue reject_topic
	request_timeout require_message_id sasl secret_key security_token send_timeout server_name
	session_timeout sha256 sink start start_timeout stop_timeout tags tls to topic topics
	trim_suffix untagged url urls username workers write_timeout x_delay_compat

	accept all amqp delay direct earliest fanout gzip headers human json latest lz4 murmur2 native
	negate none now options plain reject remove retry snappy text zstd`

// harmless is the form of values that are no secrets: a number, with a unit or
// not, a truth value, an address of digits, a reference to a variable.
var harmless = regexp.MustCompile(`^(-?[0-9]{1,12}(\.[0-9]{1,6})?[A-Za-z]{0,3}|(?i:true|false|yes|no|on|off|y|n|null)|` +
	`(localhost|[0-9]{1,3}(\.[0-9]{1,3}){3}|\[[0-9a-fA-F:.]{2,40}\])?:[0-9]{1,5}|\$\{[A-Za-z_][A-Za-z0-9_]*(:-)?\})$`)

// quotedName is a key's name in quotes, if it may be shown.
func (s *source) quotedName(e entry) string {
	if s.known[e.name] || s.shown[e.key] {
		return strconv.Quote(core.Shorten(e.name, 64))
	}
	return mask
}

// leastMasked is how short a text may be that is looked for in what others say: a
// shorter one would be found by chance.
const leastMasked = 4

// cleaner takes out of what somebody says about the file, such as the YAML parser
// or the part that a section configures, what it quotes and must not be shown.
func (s *source) cleaner() *strings.Replacer {
	var pairs []string
	for _, hidden := range s.hidden() {
		pairs = append(pairs, hidden, mask)
	}
	return strings.NewReplacer(pairs...) // of several that fit, the first is taken
}

// hidden returns the texts that must not be shown, in the forms in which they are
// quoted, the longest first.
func (s *source) hidden() []string {
	texts, public := slices.Clone(s.values), map[string]bool{}
	for _, t := range s.tokens {
		if s.shown[t] || isKey(t) && s.known[t.Value] {
			public[t.Value] = true
			continue
		}
		texts = append(texts, t.Value, strings.Trim(t.Origin, " \t\r\n!&*|>'\"%@`"))
	}
	var forms []string
	for _, text := range texts {
		quoted := strconv.Quote(text)
		for _, form := range append(strings.Split(text, "\n"), core.Shorten(text, 64), quoted[1:len(quoted)-1]) {
			if form = strings.TrimSpace(form); len(form) >= leastMasked && !public[form] && !s.known[form] {
				forms = append(forms, form)
			}
		}
	}
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return slices.Compact(forms)
}
