package core

import (
	"strconv"
	"time"
)

// DeliveredHeaders returns the headers that m is delivered with: its own, in
// order and byte for byte, then the ID, the attempt and the due time. A Sink
// sends these, less those that its own broker would take as a request to delay
// once more. The result is a new slice; the values of m's headers are shared.
func (m *Message) DeliveredHeaders() []Header {
	headers := make([]Header, len(m.Headers), len(m.Headers)+3)
	copy(headers, m.Headers)
	// The three values lie one after the other in one buffer, as this is done
	// for every message that is delivered.
	values := make([]byte, 0, len(m.ID)+len(TimeFormat)+4)
	values = append(values, m.ID...)
	values = strconv.AppendInt(values, int64(m.Attempt), 10)
	attempt := len(values)
	values = appendTime(values, m.DeliverAt)
	id := len(m.ID)
	return append(headers,
		Header{HeaderID, values[:id:id]},
		Header{HeaderAttempt, values[id:attempt:attempt]},
		Header{HeaderDeliverAt, values[attempt:]},
	)
}

// appendTime appends t in UTC as TimeFormat has it, several times quicker than
// the time package, which reads the layout anew each time.
func appendTime(b []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	b = append(appendDigits(b, year, 4), '-')
	b = append(appendDigits(b, int(month), 2), '-')
	b = append(appendDigits(b, day, 2), 'T')
	b = append(appendDigits(b, hour, 2), ':')
	b = append(appendDigits(b, minute, 2), ':')
	b = append(appendDigits(b, second, 2), '.')
	return append(appendDigits(b, t.Nanosecond()/int(time.Millisecond), 3), 'Z')
}

// appendDigits appends the last width decimal digits of n.
func appendDigits(b []byte, n, width int) []byte {
	for range width {
		b = append(b, '0')
	}
	for at := len(b) - 1; width > 0; at, width, n = at-1, width-1, n/10 {
		b[at] += byte(n % 10)
	}
	return b
}
