package suite

import (
	"fmt"
	"strings"

	"github.com/delaybridge/delaybridge/core"
)

// show is r in a line.
func show(r Received) string {
	text := fmt.Sprintf("body %s, key %s, headers [", quote(r.Body), quote(r.Key))
	for _, h := range r.Headers {
		text += fmt.Sprintf("%q: %s, ", h.Name, quote(h.Value))
	}
	text = strings.TrimSuffix(text, ", ") + "]"
	if r.Lane != "" {
		text += fmt.Sprintf(", lane %q", r.Lane)
	}
	return text
}

// showMessage is all of m that a sink sees.
func showMessage(m *core.Message) string {
	return fmt.Sprintf("id %q, topic %q, attempt %d, %s", m.ID, m.Topic, m.Attempt, show(Received{Body: m.Body, Key: m.Key, Headers: m.Headers}))
}

// maxShown is how much of a value is shown.
const maxShown = 128

// quote keeps null and empty apart.
func quote(b []byte) string {
	switch {
	case b == nil:
		return "null"
	case len(b) > maxShown:
		return fmt.Sprintf("%q... (%d bytes)", b[:maxShown], len(b))
	}
	return fmt.Sprintf("%q", b)
}
