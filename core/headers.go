package core

import "strconv"

// DeliveredHeaders returns the headers that m is delivered with: its own, in
// order and byte for byte, then the ID, the attempt and the due time. A Sink
// sends these, less those that its own broker would take as a request to delay
// once more. The result is a new slice; the values of m's headers are shared.
func (m *Message) DeliveredHeaders() []Header {
	headers := make([]Header, len(m.Headers), len(m.Headers)+3)
	copy(headers, m.Headers)
	return append(headers,
		Header{HeaderID, []byte(m.ID)},
		Header{HeaderAttempt, strconv.AppendInt(nil, int64(m.Attempt), 10)},
		Header{HeaderDeliverAt, m.DeliverAt.UTC().AppendFormat(nil, TimeFormat)},
	)
}
