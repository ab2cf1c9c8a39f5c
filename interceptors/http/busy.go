package httplistener

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/delaybridge/delaybridge/internal/listener"
)

// connKey is where the context of a request has its connection.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	if counted := listener.ConnOf(c); counted != nil {
		return context.WithValue(ctx, connKey{}, counted)
	}
	return ctx
}

// isSpare reports whether r came on a connection that is for health only.
func isSpare(r *http.Request) bool {
	c, ok := r.Context().Value(connKey{}).(*listener.Conn)
	return ok && !c.Admitted()
}

func busy(r *http.Request, detail string) error {
	p := newProblem(codeBusy, detail)
	if r.Method == http.MethodPost {
		p.Stored = false
	}
	return p
}

var errSpent = errors.New("more bytes of requests than allowed")

// countedBody is the body of a request, counted until that is answered.
type countedBody struct {
	io.ReadCloser
	budget *listener.Budget
	taken  int
}

func (c *countedBody) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.taken += n
	if !c.budget.Take(n) {
		return 0, errSpent
	}
	return n, err
}

func (c *countedBody) answered() { c.budget.Give(c.taken) }
