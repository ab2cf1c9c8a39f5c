package amqp

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

func TestIsRefusal(t *testing.T) {
	alert := &net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}
	alerted := &witness{end: alert}
	tests := []struct {
		name string
		err  error
		want bool // for good
	}{
		{"login refused", &amqp091.Error{Code: amqp091.AccessRefused, Server: true}, true},
		{"virtual host refused", &amqp091.Error{Code: amqp091.NotAllowed, Server: true}, true},
		{"connection broke while logging in", amqp091.ErrCredentials, false},
		{"connection broke while opening the virtual host", amqp091.ErrVhost, false},
		{"broker shuts down", &amqp091.Error{Code: amqp091.ConnectionForced, Server: true}, false},
		{"broker fails", &amqp091.Error{Code: amqp091.InternalError, Server: true}, false},
		{"unknown authority", fmt.Errorf("TLS: %w", &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}), true},
		{"certificate refused", alert, true},
		{"certificate refused, then written", alerted.explain(&net.OpError{Op: "write", Err: net.ErrClosed}), true},
		{"no TLS there", tls.RecordHeaderError{}, true},
		{"reset", &net.OpError{Op: "read", Err: errors.New("connection reset")}, false},
		{"end", io.EOF, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := isRefusal(fmt.Errorf("wrapped: %w", tt.err)); got != tt.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestWriteDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		begin := time.Now()
		_, err := deadlineConn{near, 3 * time.Second}.Write([]byte("nobody reads this"))
		if n, ok := err.(net.Error); !ok || !n.Timeout() || time.Since(begin) != 3*time.Second {
			t.Errorf("after %s: %v, want a timeout after 3s", time.Since(begin), err)
		}
	})
}

// TestFailureShowsAtOnce: a connection that was lost is not used again before the library
// has found out.
func TestFailureShowsAtOnce(t *testing.T) {
	for name, use := range map[string]func(net.Conn) (int, error){
		"read":  func(c net.Conn) (int, error) { return c.Read(make([]byte, 1)) },
		"write": func(c net.Conn) (int, error) { return c.Write([]byte("x")) },
	} {
		near, far := net.Pipe()
		far.Close()
		c := &Connection{Connection: &amqp091.Connection{}, seen: &witness{Conn: near}}
		if c.IsClosed() {
			t.Errorf("%s: closed from the beginning", name)
		}
		if _, err := use(c.seen); err == nil || !c.IsClosed() {
			t.Errorf("%s: %v, closed: %t", name, err, c.IsClosed())
		}
		near.Close()
	}
}
