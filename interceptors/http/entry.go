package httplistener

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/delaybridge/delaybridge/core"
)

// entryJSON is a stored message. What is not UTF-8 is given as base64. Of a
// settled message that is only remembered, little is known.
type entryJSON struct {
	ID              string            `json:"id"`
	Generated       bool              `json:"generated,omitempty"`
	Sink            string            `json:"sink"`
	State           core.State        `json:"state"`
	Topic           string            `json:"topic,omitempty"`
	Key             *string           `json:"key,omitempty"`
	KeyBase64       *[]byte           `json:"key_base64,omitempty"`
	Headers         []headerJSON      `json:"headers,omitempty"`
	Body            json.RawMessage   `json:"body,omitempty"`
	BodyBase64      *[]byte           `json:"body_base64,omitempty"`
	BodySize        *int              `json:"body_size,omitempty"`
	Options         map[string]string `json:"options,omitempty"`
	DeliverAt       string            `json:"deliver_at,omitempty"`
	ExpiresAt       string            `json:"expires_at,omitempty"`
	Due             string            `json:"due,omitempty"`
	Priority        int               `json:"priority,omitempty"`
	Attempt         int               `json:"attempt"`
	MayHaveBeenSent bool              `json:"may_have_been_sent"`
	Reason          string            `json:"reason,omitempty"`
	Error           string            `json:"error,omitempty"`
}

// headerJSON is a header in the array form: value is null where there is none.
type headerJSON struct {
	Name        string          `json:"name"`
	Value       json.RawMessage `json:"value,omitempty"`
	ValueBase64 *[]byte         `json:"value_base64,omitempty"`
}

func newEntryJSON(entry core.Entry, withBody bool) entryJSON {
	m := entry.Message
	e := entryJSON{
		ID: m.ID, Generated: m.Generated, Sink: m.Sink, State: entry.State, Topic: m.Topic, Options: m.Options,
		DeliverAt: timeText(m.DeliverAt), ExpiresAt: timeText(m.ExpiresAt), Due: timeText(entry.Due),
		Priority: m.Priority, Attempt: m.Attempt, MayHaveBeenSent: entry.MayHaveBeenSent,
		Reason: entry.Reason, Error: entry.Error,
	}
	if entry.State.Settled() {
		return e
	}
	e.BodySize = &entry.BodySize
	if m.Key != nil {
		e.Key, e.KeyBase64 = textOrBytes(m.Key)
	}
	for _, h := range m.Headers {
		value, raw := valueOrBytes(h.Value)
		e.Headers = append(e.Headers, headerJSON{h.Name, value, raw})
	}
	if withBody {
		e.Body, e.BodyBase64 = valueOrBytes(m.Body)
	}
	return e
}

// textOrBytes returns raw as text if it is some, and as bytes otherwise.
func textOrBytes(raw []byte) (*string, *[]byte) {
	if !utf8.Valid(raw) {
		return nil, &raw
	}
	text := string(raw)
	return &text, nil
}

// valueOrBytes is textOrBytes for what may be null.
func valueOrBytes(raw []byte) (json.RawMessage, *[]byte) {
	if raw == nil {
		return json.RawMessage("null"), nil
	}
	text, raws := textOrBytes(raw)
	if text == nil {
		return nil, raws
	}
	quoted, err := json.Marshal(*text)
	if err != nil {
		panic(err) // a string can be marshalled
	}
	return quoted, nil
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(core.TimeFormat)
}

// receiptJSON answers a call that changed a message.
type receiptJSON struct {
	ID              string     `json:"id"`
	Sink            string     `json:"sink"`
	State           core.State `json:"state"`
	DeliverAt       string     `json:"deliver_at,omitempty"`
	Durability      string     `json:"durability,omitempty"`
	Attempt         int        `json:"attempt"`
	MayHaveBeenSent bool       `json:"may_have_been_sent"`
}

func newReceiptJSON(r core.Receipt) receiptJSON {
	return receiptJSON{ID: r.ID, Sink: r.Sink, State: r.State, DeliverAt: timeText(r.DeliverAt),
		Durability: r.Durability, Attempt: r.Attempt, MayHaveBeenSent: r.Attempt > 0}
}

// writeJSON answers with what is quickly made and not asked for often.
func (s *Server) writeJSON(w http.ResponseWriter, status int, answer any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(answer); err != nil {
		return err
	}
	w.Header()["Content-Type"] = typeJSON
	s.write(w, status, text.Bytes())
	return nil
}
