package httplistener

import (
	"bytes"
	"net/http"

	"github.com/delaybridge/delaybridge/core"
)

func (s *Server) postBatch(w http.ResponseWriter, r *http.Request) error {
	if err := checkForm(r, "application/x-ndjson", "application/ndjson", "application/json"); err != nil {
		return notStored(err)
	}
	if r.URL.RawQuery != "" {
		return notStored(core.Invalidf("query", "is not supported here"))
	}
	buffer := s.buffers.get()
	if err := read(w, r, buffer, s.config.MaxBatchBytes); err != nil {
		return notStored(err)
	}
	lines, err := s.splitLines(buffer.Bytes())
	if err != nil {
		return notStored(err)
	}
	text := s.acceptLines(r, buffer, lines)
	w.Header()["Content-Type"] = typeNDJSON
	s.write(w, http.StatusOK, text)
	return nil
}

// splitLines cuts at line feeds; the last line may have one or not.
func (s *Server) splitLines(text []byte) ([][]byte, error) {
	if len(text) == 0 {
		return nil, core.Invalidf("batch", "has no lines")
	}
	text = bytes.TrimSuffix(text, []byte("\n"))
	if n := bytes.Count(text, []byte("\n")) + 1; n > s.config.MaxBatch {
		return nil, core.Invalidf("batch", "has %d lines; at most %d are allowed", n, s.config.MaxBatch)
	}
	return bytes.Split(text, []byte("\n")), nil
}

// acceptLines has the good lines stored in one go, and returns a line of JSON
// for each, in order.
func (s *Server) acceptLines(r *http.Request, buffer *bytes.Buffer, lines [][]byte) []byte {
	problems := make([]*problem, len(lines))
	messages := make([]*core.Message, 0, len(lines))
	for n, line := range lines {
		message, err := s.decodeMessage(line)
		if err != nil {
			problems[n] = problemOf(notStored(err))
			continue
		}
		messages = append(messages, message)
	}
	receipts := s.accept(r, buffer, messages...)
	text := make([]byte, 0, 160*len(lines))
	for _, p := range problems {
		if p != nil {
			text = append(append(text, p.encode()...), '\n')
			continue
		}
		text = append(appendResult(text, receipts[0]), '\n')
		receipts = receipts[1:]
	}
	return text
}

func appendResult(text []byte, receipt core.Receipt) []byte {
	if receipt.Err != nil {
		return append(text, acceptProblem(receipt).encode()...)
	}
	return appendReceipt(text, receipt, acceptStatus(receipt))
}
