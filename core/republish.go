package core

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// A consumer may publish again what was delivered to it, to be given it once
// more later, with the headers that delivery has added. That is a new message:
// those headers say nothing about it but that it was delivered before. It carries
// HeaderHop, which counts, and is then the last of Message.Headers.

// maxHopDigits are those of the largest hop that is read.
const maxHopDigits = 9

// DeliveryHeader returns which of HeaderID, HeaderAttempt, HeaderDeliverAt and
// HeaderHop name equals, in any case and with '_' for '-', or "" for none.
func DeliveryHeader(name string) string {
	for _, known := range [...]string{HeaderID, HeaderHop, HeaderAttempt, HeaderDeliverAt} {
		if len(name) == len(known) && IsReservedHeader(name) && strings.EqualFold(strings.ReplaceAll(name, "_", "-"), known) {
			return known
		}
	}
	return ""
}

// MarksDelivery reports whether only delivered messages have a header of this name.
// HeaderID and HeaderDeliverAt do not count, because producers may set them.
func MarksDelivery(name string) bool {
	known := DeliveryHeader(name)
	return known == HeaderAttempt || known == HeaderHop
}

// deliveryHeaders is how many headers delivery adds, HeaderHop included.
const deliveryHeaders = AddedHeaders + 1

// MaxGiven returns how many headers of a message a listener has to read at most: those
// that delivery has added don't count for MaxHeaders.
func (l Limits) MaxGiven() int { return l.withDefaults().MaxHeaders + deliveryHeaders }

// CountHeaders returns how many headers count for MaxHeaders.
func CountHeaders(headers []Header) int {
	count := 0
	for n := range headers {
		if DeliveryHeader(headers[n].Name) == "" {
			count++
		}
	}
	return max(count, len(headers)-deliveryHeaders)
}

// ParseHop parses the value of HeaderHop.
func ParseHop(value string) (int, *InvalidError) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || len(value) > maxHopDigits {
		return 0, Invalidf(HeaderHop, "must be a whole number from 1 on")
	}
	return n, nil
}

// republish prepares a message that was delivered before, if m is one. Doing it
// again changes nothing.
func (l Limits) republish(m *Message) *InvalidError {
	if m.Hop == 0 {
		if err := m.takeDelivery(); err != nil {
			return err
		}
	}
	switch {
	case m.Hop == 0:
		return nil
	case m.Hop > l.MaxHops:
		return Invalidf("headers", "would have %s %d: the message was delivered and published again more often than limits.max_hops allows, %d times", HeaderHop, m.Hop, l.MaxHops)
	case len(m.ownHeaders()) == len(m.Headers):
		m.Headers = append(slices.Clip(m.Headers), Header{HeaderHop, strconv.AppendInt(nil, int64(m.Hop), 10)})
	}
	return nil
}

// ownHeaders are the message's without HeaderHop, which is not the producer's
// and does not count for limits.
func (m *Message) ownHeaders() []Header {
	if last := len(m.Headers) - 1; m.Hop > 0 && last >= 0 && m.Headers[last].Name == HeaderHop {
		return m.Headers[:last]
	}
	return m.Headers
}

// takeDelivery takes off what delivery has added to the headers of a message that
// has come by a listener, and sets Hop. The ID of the delivery, if it is given as
// the message's too, becomes one of its own.
func (m *Message) takeDelivery() *InvalidError {
	if !slices.ContainsFunc(m.Headers, func(h Header) bool { return MarksDelivery(h.Name) }) {
		return nil
	}
	id, hop, rest := "", 0, make([]Header, 0, len(m.Headers)+1)
	for _, h := range m.Headers {
		switch DeliveryHeader(h.Name) {
		case "":
			rest = append(rest, h)
		case HeaderID:
			id = string(h.Value)
		case HeaderHop:
			n, err := ParseHop(string(h.Value))
			if err != nil {
				return Invalidf("headers", "have a %s, which %s", HeaderHop, err.Reason)
			}
			hop = n
		}
	}
	m.Headers, m.Hop = rest, hop+1
	if m.ID != "" && m.ID == id {
		m.ID = hopID(id, m.Hop)
	}
	return nil
}

// hopID is the ID for what is published again under the ID that it was delivered
// with: the same each time that this one is sent, and another for the next hop.
func hopID(id string, hop int) string {
	base := strings.TrimSuffix(id, "~"+strconv.Itoa(hop-1))
	suffix := "~" + strconv.Itoa(hop)
	if len(base)+len(suffix) > MaxIDLen {
		sum := sha256.Sum256([]byte(base))
		base = hex.EncodeToString(sum[:16])
	}
	return base + suffix
}
