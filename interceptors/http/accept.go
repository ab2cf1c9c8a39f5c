package httplistener

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// callTimeout bounds one call into the store.
const callTimeout = 15 * time.Second

func (s *Server) postMessage(w http.ResponseWriter, r *http.Request) error {
	if _, err := checkForm(r, "application/json"); err != nil {
		return notStored(err)
	}
	if r.URL.RawQuery != "" {
		return notStored(core.Invalidf("query", "is not supported here"))
	}
	buffer := s.buffers.get()
	if err := read(w, r, buffer, s.config.maxRequest(s.in.Limits())); err != nil {
		return notStored(err)
	}
	message, err := s.decodeMessage(buffer.Bytes())
	if err != nil {
		return notStored(err)
	}
	return s.accepted(w, s.accept(r, buffer, message)[0])
}

// decodeMessage decodes the JSON of one message, which it spoils; the message
// points into it.
func (s *Server) decodeMessage(text []byte) (*core.Message, error) {
	e := s.envelope(newScanner(text))
	if err := e.decode(); err != nil {
		return nil, err
	}
	return &e.message, nil
}

func (s *Server) envelope(text scanner) *envelope {
	return &envelope{scanner: text, allowed: allFields, limits: s.in.Limits()}
}

// accept has messages stored that point into buffer, with the request's trace, and takes
// buffer back. If the call was cut off, the store is not trusted to be done with it.
func (s *Server) accept(r *http.Request, buffer *bytes.Buffer, messages ...*core.Message) []core.Receipt {
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	s.in.Limits().AddTrace(messages, r.Header["Traceparent"], r.Header["Tracestate"])
	receipts := s.in.Accept(ctx, messages...)
	if ctx.Err() == nil {
		s.buffers.put(buffer)
	}
	return receipts
}

// accepted answers with a receipt.
func (s *Server) accepted(w http.ResponseWriter, receipt core.Receipt) error {
	if receipt.Err != nil {
		return acceptProblem(receipt)
	}
	header := w.Header()
	header["Content-Type"] = typeJSON
	header["Location"] = []string{"/v1/messages/" + url.PathEscape(receipt.ID) + "?sink=" + receipt.Sink}
	text := append(appendReceipt(make([]byte, 0, 256), receipt, 0), '\n')
	s.write(w, acceptStatus(receipt), text)
	return nil
}

func acceptStatus(receipt core.Receipt) int {
	if receipt.Duplicate {
		return http.StatusOK
	}
	return http.StatusCreated
}

// appendReceipt appends the JSON of the receipt of an accepted message, with
// the status if that is not zero. IDs, sinks and states need no escapes.
func appendReceipt(b []byte, receipt core.Receipt, status int) []byte {
	b = append(b, '{')
	if status != 0 {
		b = append(b, `"status":`...)
		b = strconv.AppendInt(b, int64(status), 10)
		b = append(b, ',')
	}
	b = append(b, `"id":"`...)
	b = append(b, receipt.ID...)
	b = append(b, `","sink":"`...)
	b = append(b, receipt.Sink...)
	b = append(b, `","state":"`...)
	b = append(b, receipt.State...)
	if !receipt.DeliverAt.IsZero() {
		b = append(b, `","deliver_at":"`...)
		b = receipt.DeliverAt.UTC().AppendFormat(b, core.TimeFormat)
	}
	b = append(b, `","durability":"`...)
	b = append(b, receipt.Durability...)
	b = append(b, '"')
	if receipt.Duplicate {
		b = append(b, `,"duplicate":true`...)
	}
	return append(b, '}')
}
