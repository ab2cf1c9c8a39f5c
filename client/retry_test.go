package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/delaybridge/delaybridge/client"
	httplistener "github.com/delaybridge/delaybridge/interceptors/http"
)

// TestLostReplyStoresOnce: the listener does what it is asked, and the connection
// breaks before the answer.
func TestLostReplyStoresOnce(t *testing.T) {
	t.Run("publish", func(t *testing.T) {
		d, c := fixture(t)
		d.first(2, d.dropReply)
		receipt, err := c.Publish(context.Background(), client.Message{Topic: "t", Delay: time.Hour})
		if err != nil || !receipt.Duplicate || receipt.State != client.Scheduled {
			t.Fatalf("got %+v, %v", receipt, err)
		}
		if n := count(t, c); n != 1 || len(d.asked()) != 4 {
			t.Errorf("%d messages are stored after %v", n, d.asked())
		}
	})
	t.Run("batch", func(t *testing.T) {
		d, c := fixture(t)
		d.first(1, d.dropReply)
		list := messages(3, 1)
		list[1].ID = ""
		receipts, err := c.PublishBatch(context.Background(), list)
		if err != nil || !receipts[0].Duplicate || !receipts[1].Duplicate || !receipts[2].Duplicate {
			t.Fatalf("got %+v, %v", receipts, err)
		}
		if n := count(t, c); n != 3 {
			t.Errorf("%d messages are stored", n)
		}
	})
	t.Run("cancel", func(t *testing.T) {
		d, c := fixture(t)
		receipt := publish(t, c)
		d.first(1, d.dropReply)
		got, err := c.Cancel(context.Background(), client.Ref{ID: receipt.ID})
		if err != nil || got.State != client.Cancelled || !got.MayHaveBeenSent {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("discard", func(t *testing.T) {
		d, c := fixture(t)
		d.first(1, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		_, err := c.Discard(context.Background(), client.Ref{ID: "was-it-there"})
		if !errors.Is(err, client.ErrUnknown) || !errors.Is(err, client.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("list", func(t *testing.T) {
		d, c := fixture(t)
		publish(t, c)
		d.first(1, d.dropReply)
		if n := count(t, c); n != 1 {
			t.Errorf("listed %d", n)
		}
	})
}

func publish(t *testing.T, c *client.Client) client.Receipt {
	t.Helper()
	receipt, err := c.Publish(context.Background(), client.Message{Topic: "t", Delay: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return receipt
}

func count(t *testing.T, c *client.Client) (n int) {
	t.Helper()
	for _, err := range c.List(context.Background(), client.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// script answers requests one after the other, in no time; the last answer is
// given again and again.
type script struct {
	answers []any // an error, or a text "status type after body"
	times   []time.Time
	bodies  []string
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	s.times, s.bodies = append(s.times, time.Now()), append(s.bodies, string(body))
	answer := s.answers[min(len(s.times), len(s.answers))-1]
	switch a := answer.(type) {
	case error:
		return nil, a
	case time.Duration: // silence
		select {
		case <-r.Context().Done():
			return nil, r.Context().Err()
		case <-time.After(a):
			return nil, errors.New("the test is over")
		}
	}
	recorder := httptest.NewRecorder()
	parts := strings.SplitN(answer.(string), " ", 4)
	recorder.Header().Set("Content-Type", parts[1])
	if parts[2] != "-" {
		recorder.Header().Set("Retry-After", parts[2])
	}
	var status int
	fmt.Sscan(parts[0], &status)
	recorder.WriteHeader(status)
	recorder.WriteString(strings.ReplaceAll(parts[3], "$status", parts[0]))
	return recorder.Result(), nil
}

func problemText(status int, after, code, stored string) string {
	return fmt.Sprintf(`%d application/problem+json %s {"status":%d,"code":%q,"detail":"d","stored":%s}`, status, after, status, code, stored)
}

const stored = `201 application/json - {"id":"i","sink":"s","state":"scheduled","durability":"memory"}`

var (
	errReset   = &net.OpError{Op: "read", Err: errors.New("reset")}
	errRefused = &net.OpError{Op: "dial", Err: errors.New("refused")}
)

func TestTries(t *testing.T) {
	full := problemText(503, "5", "store_full", "false")
	unavailable := problemText(503, "-", "unavailable", "false")
	unknown := problemText(503, "1", "outcome_unknown", `"unknown"`)
	tests := map[string]struct {
		answers []any
		want    error // nil: stored
		not     error
		tries   int
		least   time.Duration // from the first try to the last
		most    time.Duration
	}{
		"at once":               {[]any{stored}, nil, nil, 1, 0, 0},
		"after Retry-After":     {[]any{full, stored}, nil, nil, 2, 5 * time.Second, 5 * time.Second},
		"after pauses":          {[]any{unavailable, unavailable, unavailable, stored}, nil, nil, 4, 350 * time.Millisecond, 700 * time.Millisecond},
		"after a reset":         {[]any{errReset, stored}, nil, nil, 2, 50 * time.Millisecond, 100 * time.Millisecond},
		"after silence":         {[]any{time.Hour, stored}, nil, nil, 2, 20 * time.Second, 21 * time.Second},
		"proxy's 502":           {[]any{"502 text/html - <p>", stored}, nil, nil, 2, 0, time.Second},
		"never there":           {[]any{errRefused}, client.ErrUnavailable, client.ErrUnknown, 0, 50 * time.Second, time.Minute},
		"never answers":         {[]any{errReset}, client.ErrUnknown, client.ErrUnavailable, 0, 50 * time.Second, time.Minute},
		"unknown at last":       {[]any{unknown}, client.ErrUnknown, client.ErrUnavailable, 0, 50 * time.Second, time.Minute},
		"full at last":          {[]any{full}, client.ErrUnavailable, client.ErrUnknown, 0, 50 * time.Second, time.Minute},
		"unknown, then not":     {[]any{unknown, full}, client.ErrUnknown, client.ErrUnavailable, 0, 50 * time.Second, time.Minute},
		"invalid":               {[]any{problemText(400, "-", "invalid", "false")}, client.ErrInvalid, client.ErrUnknown, 1, 0, 0},
		"unknown, invalid":      {[]any{unknown, problemText(400, "-", "invalid", "false")}, client.ErrUnknown, nil, 2, 0, time.Second},
		"unknown, conflict":     {[]any{unknown, problemText(409, "-", "conflict", "false")}, client.ErrConflict, client.ErrUnknown, 2, 0, time.Second},
		"no token":              {[]any{problemText(401, "-", "unauthorized", "null")}, client.ErrUnauthorized, client.ErrUnknown, 1, 0, 0},
		"internal":              {[]any{problemText(500, "-", "internal", `"unknown"`), stored}, nil, nil, 2, 0, time.Second},
		"some web page":         {[]any{"200 text/html - <p>"}, client.ErrUnknown, nil, 1, 0, 0},
		"another's receipt":     {[]any{`200 application/json - {"id":"x","state":"scheduled"}`}, client.ErrUnknown, nil, 1, 0, 0},
		"a redirect":            {[]any{"307 text/html - <p>"}, nil, client.ErrUnknown, 1, 0, 0},
		"status not the JSON's": {[]any{`404 application/problem+json - {"status":409,"code":"conflict"}`}, nil, client.ErrConflict, 1, 0, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: test.answers}
				c, err := client.New(client.Config{URL: "http://bridge", HTTP: &http.Client{Transport: s}})
				if err != nil {
					t.Fatal(err)
				}
				receipt, err := c.Publish(context.Background(), client.Message{ID: "i", Topic: "t", Delay: client.Now})
				good := test.answers[len(test.answers)-1] == any(stored)
				if good != (err == nil) || test.want != nil && !errors.Is(err, test.want) || test.not != nil && errors.Is(err, test.not) {
					t.Errorf("got error %v", err)
				}
				if receipt.ID != "i" || good != (receipt.State == client.Scheduled) {
					t.Errorf("got receipt %+v", receipt)
				}
				if n := len(s.times); test.tries != 0 && n != test.tries {
					t.Errorf("%d tries, want %d", n, test.tries)
				}
				if took := s.times[len(s.times)-1].Sub(s.times[0]); took < test.least || took > test.most {
					t.Errorf("the last try was after %s, want %s to %s", took, test.least, test.most)
				}
				for _, body := range s.bodies {
					if body != s.bodies[0] {
						t.Errorf("a repeat is %s after %s", body, s.bodies[0])
					}
				}
			})
		})
	}
}

// TestContextEndsTries: no pause is begun that would not end in time, and what
// was under way is told.
func TestContextEndsTries(t *testing.T) {
	tests := map[string]struct {
		answer  any
		unknown bool
		after   time.Duration
	}{
		"in a pause":    {problemText(503, "20", "unavailable", "false"), false, 0}, // not waited for
		"under way":     {time.Hour, true, 10 * time.Second},
		"between tries": {errReset, true, 10 * time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: []any{test.answer}}
				c, err := client.New(client.Config{URL: "http://bridge", HTTP: &http.Client{Transport: s}})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				defer cancel()
				began := time.Now()
				_, err = c.PublishBatch(ctx, messages(501, 1))
				b, _ := errors.AsType[client.BatchError](err)
				if len(b) != 501 || errors.Is(b[0], client.ErrUnknown) != test.unknown || errors.Is(b[500], client.ErrUnknown) {
					t.Fatalf("got %v", err)
				}
				if took := time.Since(began); took > test.after {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

// TestErrorText: an error has a code only if the bridge gave it one.
func TestErrorText(t *testing.T) {
	tests := map[string]struct {
		answer any
		want   string
	}{
		"no answer": {errReset, "ask http://bridge: read: reset; it may have been done anyway"},
		"no bridge": {errRefused, "ask http://bridge: dial: refused"},
		"a proxy":   {"502 text/html - <p>", "ask http://bridge: the answer 502 Bad Gateway is not delaybridge's; it may have been done anyway"},
		"its own":   {problemText(503, "-", "store_full", "false"), "d [store_full]"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c, err := client.New(client.Config{URL: "http://bridge", Patience: -1, HTTP: &http.Client{Transport: &script{answers: []any{test.answer}}}})
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.Publish(context.Background(), client.Message{ID: "i", Topic: "t", Delay: client.Now})
			e, ok := errors.AsType[*client.Error](err)
			if !ok || e.Error() != "delaybridge: "+test.want || (e.Code != "") != (name == "its own") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestCancelledContextSendsNothing(t *testing.T) {
	d, c := fixture(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := c.Publish(ctx, client.Message{Topic: "t", Delay: client.Now})
	if !errors.Is(err, context.Canceled) || errors.Is(err, client.ErrUnknown) || len(d.asked()) != 0 {
		t.Errorf("got %v, asked %v", err, d.asked())
	}
	_, err = c.Get(ctx, client.Ref{ID: "x"})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestOnlyFailedLinesAreRepeated: each line of a batch has its own outcome.
func TestOnlyFailedLinesAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line := func(n int) string { return fmt.Sprintf(`{"status":201,"id":"m-%d","sink":"s","state":"scheduled"}`, n) }
		refused := `{"status":409,"code":"conflict","detail":"d","stored":false}`
		later := `{"status":503,"code":"unavailable","detail":"d","stored":false}`
		s := &script{answers: []any{
			"200 application/x-ndjson - " + strings.Join([]string{line(0), later, refused, later}, "\n") + "\n",
			"200 application/x-ndjson - " + strings.Join([]string{line(1), later}, "\n"),
			"200 application/json - " + line(3),
		}}
		c, err := client.New(client.Config{URL: "http://bridge", HTTP: &http.Client{Transport: s}})
		if err != nil {
			t.Fatal(err)
		}
		receipts, err := c.PublishBatch(context.Background(), messages(4, 1))
		b, _ := errors.AsType[client.BatchError](err)
		if len(b) != 4 || b[0] != nil || b[1] != nil || !errors.Is(b[2], client.ErrConflict) || b[3] != nil {
			t.Fatalf("got %v", err)
		}
		if !errors.Is(err, client.ErrConflict) || errors.Is(err, client.ErrUnknown) {
			t.Errorf("the batch's error is not that of its message: %v", err)
		}
		for _, n := range []int{0, 1, 3} {
			if receipts[n].State != client.Scheduled {
				t.Errorf("receipt %d is %+v", n, receipts[n])
			}
		}
		if len(s.bodies) != 3 || strings.Count(s.bodies[1], "\n") != 1 || strings.Contains(s.bodies[1], "m-2") || !strings.Contains(s.bodies[2], `"m-3"`) {
			t.Errorf("sent %q", s.bodies)
		}
	})
}

// TestBatchAnswersThatMakeNoSense leave open what became of these lines only,
// or of all if the lines can't be told apart.
func TestBatchAnswersThatMakeNoSense(t *testing.T) {
	good := `{"status":201,"id":"m-0","sink":"s","state":"scheduled"}`
	for name, test := range map[string]struct {
		text   string
		failed int // of two
	}{"garbage": {good + "\nx", 1}, "a line too few": {good, 2}, "other ID": {good + "\n" + good, 1}, "none": {"", 2}} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{answers: []any{"200 application/x-ndjson - " + test.text}}
			c, err := client.New(client.Config{URL: "http://bridge", HTTP: &http.Client{Transport: s}})
			if err != nil {
				t.Fatal(err)
			}
			receipts, err := c.PublishBatch(context.Background(), messages(2, 1))
			b, _ := errors.AsType[client.BatchError](err)
			if len(b) != 2 || len(b.Unwrap()) != test.failed || !errors.Is(b[1], client.ErrUnknown) || len(s.times) != 1 {
				t.Errorf("%s: got %v after %d tries", name, err, len(s.times))
			}
			if (receipts[0].State == client.Scheduled) != (test.failed == 1) {
				t.Errorf("%s: got %+v", name, receipts)
			}
		})
	}
}

// TestBatchGivesUpTogether: when the bridge is gone, the rest is not tried.
func TestBatchGivesUpTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []any{errReset}}
		c, err := client.New(client.Config{URL: "http://bridge", HTTP: &http.Client{Transport: s}, MaxBatch: 2, Patience: -1})
		if err != nil {
			t.Fatal(err)
		}
		receipts, err := c.PublishBatch(context.Background(), messages(5, 1))
		b, _ := errors.AsType[client.BatchError](err)
		if len(s.times) != 1 || len(b) != 5 || !errors.Is(b[1], client.ErrUnknown) || !errors.Is(b[2], client.ErrUnavailable) || errors.Is(b[4], client.ErrUnknown) {
			t.Errorf("%d tries, got %v", len(s.times), err)
		}
		if receipts[4].ID != "m-4" {
			t.Errorf("got %+v", receipts)
		}
	})
}

func TestTokens(t *testing.T) {
	d := newListener(t, httplistener.Config{Tokens: []string{"0123456789abcdef"}})
	good, bad := d.client(t, client.Config{Token: "0123456789abcdef"}), d.client(t, client.Config{Token: "nonsense"})
	if _, err := good.Publish(context.Background(), client.Message{Topic: "t", Delay: client.Now}); err != nil {
		t.Error(err)
	}
	_, err := bad.Publish(context.Background(), client.Message{Topic: "t", Delay: client.Now})
	if e, ok := errors.AsType[*client.Error](err); !ok || !errors.Is(err, client.ErrUnauthorized) || e.Status != 401 || e.Unknown {
		t.Errorf("got %v", err)
	}
}

func TestTLS(t *testing.T) {
	d := newListener(t, httplistener.Config{})
	web := httptest.NewTLSServer(d)
	defer web.Close()
	trusting := web.Client().Transport.(*http.Transport).TLSClientConfig
	for name, config := range map[string]client.Config{"TLS": {TLS: trusting}, "HTTP": {HTTP: web.Client()}} {
		config.URL = web.URL
		c, err := client.New(config)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Publish(context.Background(), client.Message{Topic: "t", Delay: client.Now}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, url := range map[string]string{"untrusted": web.URL, "no TLS there": strings.Replace(d.url, "http:", "https:", 1)} {
		c, err := client.New(client.Config{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		began := time.Now()
		_, err = c.Publish(context.Background(), client.Message{Topic: "t", Delay: client.Now})
		if err == nil || errors.Is(err, client.ErrUnknown) || time.Since(began) > 30*time.Second {
			t.Errorf("%s: %v after %s", name, err, time.Since(began))
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for name, config := range map[string]client.Config{
		"no URL": {}, "no scheme": {URL: "localhost:7420"}, "another scheme": {URL: "amqp://x"}, "no host": {URL: "http://"},
		"user": {URL: "http://u:secret@x"}, "query": {URL: "http://x?secret=1"},
		"token":    {URL: "http://x", Token: "se cret"},
		"two ways": {URL: "http://x", HTTP: http.DefaultClient, TLS: new(tls.Config)},
		"negative": {URL: "http://x", MaxBatch: -1},
	} {
		if _, err := client.New(config); err == nil || strings.Contains(err.Error(), "cret") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
