package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/delaybridge/delaybridge/core"
)

// maxBodyShown is how many bytes of a body the human format shows.
const maxBodyShown = 60

// human appends the message as people like to see it. What a producer wrote is
// quoted or of a checked alphabet, so a message is always one line and never
// drives the terminal.
func human(line []byte, m *core.Message, now time.Time) []byte {
	line = now.AppendFormat(line, "15:04:05.000")
	line = append(line, "  "+m.ID+"  "+plain(m.Topic)...)
	if m.Key != nil {
		line = append(line, "  key="...)
		line = strconv.AppendQuote(line, string(m.Key))
	}
	line = append(line, "  "...)
	line = appendBody(line, m.Body)
	if m.Attempt > 1 {
		line = append(line, "  attempt "...)
		line = strconv.AppendInt(line, int64(m.Attempt), 10)
	}
	return append(line, "  late "+lateness(now.Sub(m.DeliverAt))...)
}

// plain is s as it stands where it is printable ASCII, as topics are.
func plain(s string) string {
	if quoted := strconv.QuoteToASCII(s); quoted != `"`+s+`"` {
		return quoted
	}
	return s
}

func appendBody(line, body []byte) []byte {
	if body == nil {
		return append(line, "null"...)
	}
	shown := core.Shorten(string(body), maxBodyShown)
	line = strconv.AppendQuote(line, shown)
	if len(shown) < len(body) {
		line = fmt.Appendf(line, "… (%d bytes)", len(body))
	}
	return line
}

// lateness is d with its sign and about three significant digits.
func lateness(d time.Duration) string {
	switch abs := d.Abs(); {
	case abs < 100*time.Millisecond:
		return fmt.Sprintf("%+.1fms", d.Seconds()*1000)
	case abs < time.Second:
		return fmt.Sprintf("%+.0fms", d.Seconds()*1000)
	case abs < time.Minute:
		return fmt.Sprintf("%+.2fs", d.Seconds())
	}
	if d > 0 {
		return "+" + d.Round(time.Second).String()
	}
	return d.Round(time.Second).String()
}

// record is a message in the JSON format. What is not text is in the _base64
// field in place of the other.
type record struct {
	Time       string            `json:"time"`
	ID         string            `json:"id"`
	Sink       string            `json:"sink"`
	Topic      string            `json:"topic"`
	Key        *string           `json:"key,omitempty"`
	KeyBase64  []byte            `json:"key_base64,omitempty"`
	Headers    []field           `json:"headers"`
	Body       *string           `json:"body"`
	BodyBase64 []byte            `json:"body_base64,omitempty"`
	Options    map[string]string `json:"options,omitempty"`
	Priority   int               `json:"priority"`
	DeliverAt  string            `json:"deliver_at"`
	ExpiresAt  string            `json:"expires_at,omitempty"`
	Attempt    int               `json:"attempt"`
	LatenessMS float64           `json:"lateness_ms"`
}

type field struct {
	Name        string  `json:"name"`
	Value       *string `json:"value"`
	ValueBase64 []byte  `json:"value_base64,omitempty"`
}

// object appends the message as a JSON object.
func object(line []byte, m *core.Message, now time.Time) []byte {
	r := record{
		Time: now.UTC().Format(core.TimeFormat), ID: m.ID, Sink: m.Sink, Topic: m.Topic,
		Options: m.Options, Priority: m.Priority, Attempt: m.Attempt,
		DeliverAt:  m.DeliverAt.UTC().Format(core.TimeFormat),
		LatenessMS: float64(now.Sub(m.DeliverAt).Microseconds()) / 1000,
	}
	r.Key, r.KeyBase64 = textOrBytes(m.Key)
	r.Body, r.BodyBase64 = textOrBytes(m.Body)
	if !m.ExpiresAt.IsZero() {
		r.ExpiresAt = m.ExpiresAt.UTC().Format(core.TimeFormat)
	}
	for _, h := range m.DeliveredHeaders() {
		f := field{Name: h.Name}
		f.Value, f.ValueBase64 = textOrBytes(h.Value)
		r.Headers = append(r.Headers, f)
	}
	buffer := bytes.NewBuffer(line)
	encoder := json.NewEncoder(buffer)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(r) // strings, numbers and bytes only: it can't fail
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n"))
}

// textOrBytes returns b as text if JSON can carry it unchanged and harmlessly,
// else as bytes; neither for nil.
func textOrBytes(b []byte) (*string, []byte) {
	if b == nil {
		return nil, nil
	}
	text := string(b)
	if !utf8.ValidString(text) || bytes.ContainsFunc(b, unescaped) {
		return nil, b
	}
	return &text, nil
}

// unescaped tells the control characters that JSON leaves as they are.
func unescaped(r rune) bool { return r >= 0x7f && r <= 0x9f }
