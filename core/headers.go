package core

import (
	"strconv"
	"time"
)

// AddedHeaders is the number of headers that delivery adds to a message's own.
const AddedHeaders = 3

// DeliveredHeaders returns the headers that m is delivered with: its own, in order and
// byte for byte, then the ID, the attempt and the due time. A Sink sends these, except
// headers that its broker would interpret as a request to delay the message again. The
// result is a new slice; the values of m's headers are shared.
func (m *Message) DeliveredHeaders() []Header {
	headers := make([]Header, len(m.Headers), len(m.Headers)+AddedHeaders)
	copy(headers, m.Headers)
	added, _ := m.AppendAdded(make([]byte, 0, m.AddedBytes()))
	return append(headers, added[:]...)
}

// AppendAdded returns only the headers that delivery adds, the last three of
// DeliveredHeaders, for sinks that build the headers of a whole batch at once. It
// appends the headers' values to values, which it returns as extended. AddedBytes
// bounds how many bytes it appends.
func (m *Message) AppendAdded(values []byte) (added [AddedHeaders]Header, extended []byte) {
	start := len(values)
	values = append(values, m.ID...)
	id := len(values)
	values = strconv.AppendInt(values, int64(m.Attempt), 10)
	attempt := len(values)
	values = appendTime(values, m.DeliverAt)
	return [AddedHeaders]Header{
		{HeaderID, values[start:id:id]},
		{HeaderAttempt, values[id:attempt:attempt]},
		{HeaderDeliverAt, values[attempt:len(values):len(values)]},
	}, values
}

// AddedBytes returns an upper bound of the bytes that AppendAdded appends.
func (m *Message) AddedBytes() int { return len(m.ID) + maxAttemptDigits + len(TimeFormat) }

// maxAttemptDigits are those of the longest int64.
const maxAttemptDigits = 20

// appendTime appends t in UTC as TimeFormat has it, several times quicker than
// the time package, which reads the layout again each time.
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
