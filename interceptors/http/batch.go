package httplistener

import (
	"bytes"
	"net/http"

	"github.com/delaybridge/delaybridge/core"
)

const formArray = "application/json"

// postBatch takes an array or lines of messages, as the Content-Type says, and
// answers in the same form.
func (s *Server) postBatch(w http.ResponseWriter, r *http.Request) error {
	form, err := checkForm(r, formArray, "application/x-ndjson", "application/ndjson")
	if err != nil {
		return notStored(err)
	}
	if r.URL.RawQuery != "" {
		return notStored(core.Invalidf("query", "is not supported here"))
	}
	buffer := s.buffers.get()
	if err := read(w, r, buffer, s.config.MaxBatchBytes); err != nil {
		return notStored(err)
	}
	b := batch{server: s, request: r}
	decode := b.decodeLines
	if form == formArray {
		decode = b.decodeArray
	}
	if err := decode(buffer.Bytes()); err != nil {
		return notStored(err)
	}
	receipts := s.accept(r, buffer, b.messages...)
	text := make([]byte, 0, 160*len(b.problems))
	if form == formArray {
		w.Header()["Content-Type"] = typeJSON
		text = append(b.appendResults(append(text, '['), receipts, ","), "]\n"...)
	} else {
		w.Header()["Content-Type"] = typeNDJSON
		text = append(b.appendResults(text, receipts, "\n"), '\n')
	}
	s.write(w, http.StatusOK, text)
	return nil
}

// batch is the messages of one request.
type batch struct {
	server   *Server
	request  *http.Request
	messages []*core.Message // those that can be accepted
	problems []*problem      // for each message of the request; nil if it can be accepted
}

func (b *batch) add(message *core.Message, err error) {
	if err != nil {
		p := problemOf(notStored(err))
		b.server.observe(b.request, p)
		b.problems = append(b.problems, p)
		return
	}
	b.messages, b.problems = append(b.messages, message), append(b.problems, nil)
}

// decodeLines cuts at line feeds; the last line may have one or not.
func (b *batch) decodeLines(text []byte) error {
	if len(text) == 0 {
		return core.Invalidf("batch", "has no lines")
	}
	if start := bytes.TrimLeft(text, " \t\r\n"); len(start) > 0 && (start[0] == '[' || start[0] == '"') {
		return newProblem(codeMalformed, "the body must have one JSON object per line; an array needs Content-Type: "+formArray)
	}
	text = bytes.TrimSuffix(text, []byte("\n"))
	if n := bytes.Count(text, []byte("\n")) + 1; n > b.server.config.MaxBatch {
		return core.Invalidf("batch", "has %d lines; at most %d are allowed", n, b.server.config.MaxBatch)
	}
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		b.add(b.server.decodeMessage(line))
	}
	return nil
}

// decodeArray returns an error if the text is not an array. An element that is
// not a message is the problem of that element.
func (b *batch) decodeArray(text []byte) error {
	s := newScanner(text)
	if err := s.begin(); err != nil {
		return err
	}
	if s.peek() != '[' {
		return newProblem(codeMalformed, "the body must be an array of messages; one JSON object per line needs Content-Type: application/x-ndjson")
	}
	err := s.array(func() error {
		if len(b.problems) == b.server.config.MaxBatch {
			return core.Invalidf("batch", "has more than %d messages", b.server.config.MaxBatch)
		}
		e := b.server.envelope(s)
		refused, broken := s.attempt(e.element)
		b.add(&e.message, refused)
		return broken
	})
	if err == nil {
		err = s.end()
	}
	if err == nil && len(b.problems) == 0 {
		err = core.Invalidf("batch", "has no messages")
	}
	return err
}

// appendResults appends the result of each message, in order.
func (b *batch) appendResults(text []byte, receipts []core.Receipt, separator string) []byte {
	for n, p := range b.problems {
		if n > 0 {
			text = append(text, separator...)
		}
		if p == nil {
			text, receipts = appendResult(text, receipts[0]), receipts[1:]
		} else {
			text = append(text, p.encode()...)
		}
	}
	return text
}

func appendResult(text []byte, receipt core.Receipt) []byte {
	if receipt.Err != nil {
		return append(text, acceptProblem(receipt).encode()...)
	}
	return appendReceipt(text, receipt, acceptStatus(receipt))
}
