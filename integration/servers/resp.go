//go:build unix

package servers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

const (
	respTimeout = 3 * time.Second
	// respPatience is for who can't ask again.
	respPatience = 30 * time.Second
)

// respError is an error reply.
type respError string

func (e respError) Error() string { return string(e) }

// respDo sends one command on a connection of its own. The reply is a string,
// an int64, nil or a []any of these.
func respDo(addr, user, password string, timeout time.Duration, command ...string) (any, error) {
	conn, err := net.DialTimeout("tcp", addr, timeout)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	r := bufio.NewReader(conn)
	if password != "" {
		if _, err := respCall(conn, r, respAuth(user, password)); err != nil {
			return nil, fmt.Errorf("authenticate: %w", err)
		}
	}
	return respCall(conn, r, command)
}

func respAuth(user, password string) []string {
	if user == "" {
		return []string{"AUTH", password}
	}
	return []string{"AUTH", user, password}
}

func respCall(w io.Writer, r *bufio.Reader, command []string) (any, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(command))
	for _, word := range command {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return nil, err
	}
	return respRead(r)
}

func respRead(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return nil, errors.New("empty reply")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return nil, respError(rest)
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("reply %q: %w", line, err)
	}
	switch kind {
	case ':':
		return n, nil
	case '$':
		return respBulk(r, n)
	case '*':
		return respArray(r, n)
	}
	return nil, fmt.Errorf("reply %q is of an unknown kind", line)
}

func respBulk(r io.Reader, n int64) (any, error) {
	if n < 0 {
		return nil, nil
	}
	b := make([]byte, n+2)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, err
	}
	return string(b[:n]), nil
}

func respArray(r *bufio.Reader, n int64) (any, error) {
	if n < 0 {
		return nil, nil
	}
	items := make([]any, n)
	for i := range items {
		item, err := respRead(r)
		if e, ok := errors.AsType[respError](err); ok {
			item = e // an error in an array is an item like any other
		} else if err != nil {
			return nil, err
		}
		items[i] = item
	}
	return items, nil
}
