package main

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-stomp/stomp/v3/frame"

	"github.com/delaybridge/delaybridge/core"
)

// maxHeaderLine is how long a line of a frame may be, escaped; ActiveMQ ends
// the connection at 10 KiB.
const maxHeaderLine = 10_000

// taken are the headers to which ActiveMQ gives a meaning, or that it replaces
// on the way to the consumer. correlation-id and type are not among them: they
// become JMSCorrelationID and JMSType, as is meant.
var taken = []string{
	"destination", "content-length", "receipt", "transaction", "persistent", "expires", "priority", "timestamp", "reply-to",
	"message-id", "redelivered", "subscription", "ack", "id", "selector", "transformation", "transformation-error", "amq-msg-type",
	"original-destination", "browser",
}

// check reports why m can't be carried, or nil.
func (s settings) check(m *core.Message) error {
	if err := checkTopic(m.Topic); err != nil {
		return err
	}
	if len(m.Body) > s.MaxBodyBytes {
		return &core.InvalidError{Field: "body", Reason: "is larger than max_body_bytes", TooLarge: true}
	}
	if !carries(string(m.Key)) {
		return core.Invalidf("key", "must be UTF-8, as JMSXGroupID is text")
	}
	for _, name := range slices.Sorted(maps.Keys(m.Options)) {
		if !strings.HasPrefix(name, core.OptionPrefix) {
			return core.Invalidf("options."+name, "is not known; an ActiveMQ sink has no options")
		}
	}
	return checkHeaders(m.Headers)
}

// checkTopic refuses names that ActiveMQ takes for several destinations, for a
// pattern, for options, for another kind of destination or for its own.
func checkTopic(topic string) error {
	switch {
	case topic == "" || !carries(topic) || strings.TrimSpace(topic) != topic:
		return core.Invalidf("topic", "must be text that neither begins nor ends with a space")
	case strings.ContainsAny(topic, ",*>?") || strings.Contains(topic, "://"):
		return core.Invalidf("topic", "must not hold , * > ? or ://")
	case strings.HasPrefix(topic, "ActiveMQ.Advisory."):
		return core.Invalidf("topic", "belongs to ActiveMQ")
	}
	return nil
}

func checkHeaders(headers []core.Header) error {
	seen := map[string]bool{}
	for _, h := range headers {
		switch {
		case isDelay(h.Name):
			continue
		case slices.Contains(taken, h.Name) || strings.HasPrefix(h.Name, "JMS"):
			return core.Invalidf("headers", "%s has a meaning of its own in ActiveMQ", core.Shorten(h.Name, 40))
		case seen[h.Name]:
			return core.Invalidf("headers", "%s is repeated, which STOMP can't carry", core.Shorten(h.Name, 40))
		case !carries(h.Name) || !carries(string(h.Value)):
			return core.Invalidf("headers", "%s is not UTF-8, as STOMP has it", strings.ToValidUTF8(core.Shorten(h.Name, 40), "?"))
		case escapedLen(h.Name)+1+escapedLen(string(h.Value)) > maxHeaderLine:
			return core.Invalidf("headers", "%s is longer than %d bytes when escaped", core.Shorten(h.Name, 40), maxHeaderLine)
		}
		seen[h.Name] = true
	}
	return nil
}

// carries: STOMP ends frames with a zero, and headers are UTF-8.
func carries(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

func escapedLen(s string) int {
	n := len(s)
	for _, c := range []string{"\\", "\r", "\n", ":"} {
		n += strings.Count(s, c)
	}
	return n
}

// isDelay tells headers with which ActiveMQ would delay a second time.
func isDelay(name string) bool {
	const prefix = "AMQ_SCHEDULED_"
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}

// encode appends the frame that sends m and asks for a receipt.
func (s settings) encode(frames *bytes.Buffer, m *core.Message, receipt string) {
	h := frame.NewHeader(frame.Destination, s.prefix+m.Topic, frame.ContentLength, strconv.Itoa(len(m.Body)),
		"persistent", "true", frame.Receipt, receipt)
	if len(m.Key) > 0 {
		h.Add("JMSXGroupID", string(m.Key))
	}
	for _, header := range m.DeliveredHeaders() {
		if !isDelay(header.Name) {
			h.Add(header.Name, string(header.Value))
		}
	}
	_ = frame.NewWriter(frames).Write(&frame.Frame{Command: frame.SEND, Header: h, Body: m.Body}) // a Buffer takes all
}
