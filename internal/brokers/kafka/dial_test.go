package kafkaconn

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
	"github.com/segmentio/kafka-go/sasl/plain"
)

// fakeBroker answers what comes before the first request.
type fakeBroker struct {
	produce  int16 // the newest version of it; 0: the broker never answers
	login    kafka.Error
	lifetime time.Duration // of a login
}

func (f *fakeBroker) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	go f.serve(far)
	return near, nil
}

func (f *fakeBroker) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		version, id, _, request, err := protocol.ReadRequest(in)
		if err != nil {
			return
		}
		if answer := f.respond(request); answer != nil {
			protocol.WriteResponse(conn, version, id, answer)
		}
	}
}

func (f *fakeBroker) respond(request protocol.Message) protocol.Message {
	switch request.(type) {
	case *apiversions.Request:
		if f.produce == 0 {
			return nil
		}
		return &apiversions.Response{ApiKeys: []apiversions.ApiKeyResponse{
			{ApiKey: int16(protocol.Produce), MaxVersion: f.produce}, {ApiKey: int16(protocol.Fetch), MinVersion: 4, MaxVersion: 13},
			{ApiKey: int16(protocol.SaslHandshake), MaxVersion: 1}, {ApiKey: int16(protocol.SaslAuthenticate), MaxVersion: 1}}}
	case *saslhandshake.Request:
		return new(saslhandshake.Response)
	case *saslauthenticate.Request:
		return &saslauthenticate.Response{ErrorCode: int16(f.login), SessionLifetimeMs: f.lifetime.Milliseconds()}
	}
	return nil
}

// dial connects to f with a login, as the settings have it.
func dial(ctx context.Context, t *testing.T, f *fakeBroker) (*Conn, error) {
	t.Helper()
	d := Dialer{ClientID: "me", SASL: plain.Mechanism{Username: "u", Password: "p"}, DialTimeout: 3 * time.Second, DialContext: f.dial}
	c, err := d.Dial(ctx, "broker:9092")
	if err == nil {
		t.Cleanup(func() { c.Raw.Close() })
	}
	return c, err
}

func TestVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := dial(t.Context(), t, &fakeBroker{produce: 3})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Versions[protocol.Fetch]; got != 11 {
			t.Errorf("fetch in version %d, want 11, the newest that kafka-go knows", got)
		}
		for version, want := range map[int16]bool{3: false, 4: true, 13: true, 14: false} {
			if c.Offers(protocol.Fetch, version) != want {
				t.Errorf("fetch in version %d: offered %t, want %t", version, !want, want)
			}
		}
		if c.Offers(protocol.Metadata, 0) {
			t.Error("metadata is offered")
		}
	})
}

// TestLoginEnds: a connection is given up a little before the broker does.
func TestLoginEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := dial(t.Context(), t, &fakeBroker{produce: 3, lifetime: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		forever, err := dial(t.Context(), t, &fakeBroker{produce: 3})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(7 * time.Second)
		if c.Expired() {
			t.Error("it has expired after 7 of 10 s")
		}
		time.Sleep(2 * time.Second)
		if !c.Expired() || forever.Expired() {
			t.Errorf("after 9 of 10 s it has expired: %t, and one that does not end: %t", c.Expired(), forever.Expired())
		}
	})
}

func TestNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ending, end := context.WithCancelCause(t.Context())
		end(errors.New("it is over"))
		for want, test := range map[string]struct {
			ctx    context.Context
			broker fakeBroker
			is     error
		}{
			"older than Kafka 1.0":         {t.Context(), fakeBroker{produce: 2}, ErrTooOld},
			"log in by PLAIN":              {t.Context(), fakeBroker{produce: 3, login: kafka.SASLAuthenticationFailed}, kafka.SASLAuthenticationFailed},
			"longer than the dial timeout": {t.Context(), fakeBroker{}, nil},
			"it is over":                   {ending, fakeBroker{}, nil},
		} {
			_, err := dial(test.ctx, t, &test.broker)
			if err == nil || !strings.Contains(err.Error(), want) || test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("got %v, want %q", err, want)
			}
		}
	})
}
