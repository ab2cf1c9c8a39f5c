package core

import (
	"slices"
	"strings"
)

// The headers of a trace context, https://www.w3.org/TR/trace-context, and what else tracing
// adds to a message. A repeat of a message may have others.
const (
	headerTraceParent = "traceparent"
	headerTraceState  = "tracestate"
	headerBaggage     = "baggage"
)

// Trace is the trace that a message belongs to, as its producer says in the header
// traceparent. It shares the bytes of the header.
type Trace struct {
	ID      []byte // 32 hexadecimal digits
	Parent  []byte // 16 hexadecimal digits: the producer's span
	Sampled bool
}

// Trace returns the trace of m, and false if it has no valid one.
func (m *Message) Trace() (Trace, bool) {
	for n := range m.Headers {
		if h := &m.Headers[n]; len(h.Name) == len(headerTraceParent) && strings.EqualFold(h.Name, headerTraceParent) {
			return parseTrace(h.Value)
		}
	}
	return Trace{}, false
}

// TraceID returns the ID of the trace of m as a text; empty if there is none.
func (m *Message) TraceID() string {
	trace, _ := m.Trace()
	return string(trace.ID)
}

// parseTrace reads version-trace-parent-flags, in hexadecimal digits; later versions may
// have more.
func parseTrace(header []byte) (Trace, bool) {
	const length = len("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	if len(header) < length || header[2] != '-' || header[35] != '-' || header[52] != '-' {
		return Trace{}, false
	}
	version, trace, parent, flags := header[:2], header[3:35], header[36:52], header[53:55]
	switch {
	case !isHex(version) || !isHex(trace) || !isHex(parent) || !isHex(flags):
	case string(version) == "ff" || allZero(trace) || allZero(parent):
	case len(header) > length && (string(version) == "00" || header[length] != '-'):
	default:
		return Trace{ID: trace, Parent: parent, Sampled: strings.IndexByte("13579bdf", flags[1]) >= 0}, true
	}
	return Trace{}, false
}

func isHex(text []byte) bool {
	for _, c := range text {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func allZero(text []byte) bool {
	return !slices.ContainsFunc(text, func(c byte) bool { return c != '0' })
}

// AddTrace gives messages the trace context of the request that they came with: all values
// of its headers traceparent and tracestate. A message that has a traceparent keeps its own.
// A context that is not valid, and what the limits don't allow, is left out.
func (l Limits) AddTrace(messages []*Message, parents, states []string) {
	if len(parents) != 1 {
		return
	}
	added := []Header{{headerTraceParent, []byte(parents[0])}}
	if _, ok := parseTrace(added[0].Value); !ok {
		return
	}
	if len(states) > 0 {
		added = append(added, Header{headerTraceState, []byte(strings.Join(states, ","))})
	}
	l = l.withDefaults()
	for _, m := range messages {
		if !slices.ContainsFunc(m.Headers, isTraceHeader) {
			l.addHeaders(m, added)
		}
	}
}

// addHeaders appends as many of added as the limits allow.
func (l Limits) addHeaders(m *Message, added []Header) {
	for ; len(added) > 0; added = added[:len(added)-1] {
		all, size := append(slices.Clip(m.Headers), added...), 0
		for n := range all {
			if DeliveryHeader(all[n].Name) == "" {
				size += len(all[n].Name) + len(all[n].Value)
			}
		}
		if CountHeaders(all) <= l.MaxHeaders && size <= l.MaxHeaderBytes {
			m.Headers = all
			return
		}
	}
}

func isTraceHeader(h Header) bool {
	return strings.EqualFold(h.Name, headerTraceParent) || strings.EqualFold(h.Name, headerTraceState) || strings.EqualFold(h.Name, headerBaggage)
}

func withoutTrace(headers []Header) []Header {
	return slices.DeleteFunc(slices.Clone(headers), isTraceHeader)
}
