package httplistener

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// buffers lends the space that requests are read into. Messages point into it,
// so it goes back only when Accept has returned.
type buffers struct{ pool sync.Pool }

// maxKept is how large a buffer may be to be kept for later.
const maxKept = 1 << 20

func (b *buffers) get() *bytes.Buffer {
	if buffer, ok := b.pool.Get().(*bytes.Buffer); ok {
		return buffer
	}
	return new(bytes.Buffer)
}

func (b *buffers) put(buffer *bytes.Buffer) {
	if buffer.Cap() <= maxKept {
		buffer.Reset()
		b.pool.Put(buffer)
	}
}

func tooLarge(limit int64) error {
	p := newProblem(codeTooLarge, fmt.Sprintf("the request's body is larger than %d bytes", limit))
	p.close = true
	return p
}

// read reads the request's body, up to limit bytes, into buffer.
func read(w http.ResponseWriter, r *http.Request, buffer *bytes.Buffer, limit int64) error {
	if r.ContentLength > limit {
		return tooLarge(limit)
	}
	_, err := buffer.ReadFrom(http.MaxBytesReader(w, r.Body, limit))
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge(limit)
	}
	if errors.Is(err, errSpent) {
		return busy(r, "the unanswered requests together have reached the limit of their size")
	}
	p := newProblem(codeMalformed, "the body ended early")
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		p = newProblem(codeTimeout, "the body did not arrive in time")
	}
	p.close = true
	return p
}

// checkForm returns which of the media types given the body has. It refuses
// another one, and a body that is compressed. A request that does not say what it
// sends is accepted; its media type is empty.
func checkForm(r *http.Request, types ...string) (string, error) {
	if err := checkEncoding(r); err != nil {
		return "", err
	}
	given := r.Header.Get("Content-Type")
	if given == "" || slices.Contains(types, given) {
		return given, nil
	}
	media, params, err := mime.ParseMediaType(given)
	if err == nil && slices.Contains(types, media) && (params["charset"] == "" || strings.EqualFold(params["charset"], "utf-8")) {
		return media, nil
	}
	return "", newProblem(codeMediaType, "send it with Content-Type: "+strings.Join(types, " or "))
}

func checkEncoding(r *http.Request) error {
	for _, coding := range r.Header["Content-Encoding"] {
		if !strings.EqualFold(coding, "identity") && coding != "" {
			return newProblem(codeMediaType, "the body must not have a Content-Encoding")
		}
	}
	return nil
}
