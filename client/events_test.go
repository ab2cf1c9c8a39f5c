package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/delaybridge/delaybridge/client"
)

// answering is a server that answers each request with the same, and then hangs or ends.
type answering struct {
	text  string
	hangs bool
	asked *http.Request
}

func (a *answering) RoundTrip(r *http.Request) (*http.Response, error) {
	a.asked = r
	body := io.Reader(strings.NewReader(a.text))
	if a.hangs {
		body = io.MultiReader(body, hanging{r.Context()})
	}
	recorder := httptest.NewRecorder()
	recorder.Header().Set("Content-Type", "text/event-stream")
	answer := recorder.Result()
	answer.Body = io.NopCloser(body)
	return answer, nil
}

type hanging struct{ context.Context }

func (h hanging) Read([]byte) (int, error) { <-h.Done(); return 0, h.Err() }

func TestEvents(t *testing.T) {
	whole := `{"event":"dead","time":"2030-01-31T09:00:00.123Z","instance":"i","sink":"s","topic":"t","id":"a","key_base64":"/w==","deliver_at":"2030-01-31T09:00:00Z",` +
		`"due":"2030-01-31T09:00:01Z","attempt":2,"reason":"r","error":"e","input":"http","trace_id":"4b","changes":["c"],"body":"b","more":1}`
	at := time.Date(2030, 1, 31, 9, 0, 0, 0, time.UTC)
	want := client.Event{Event: "dead", Time: at.Add(123 * time.Millisecond), Instance: "i", Sink: "s", Topic: "t", ID: "a", Key: []byte{0xff}, DeliverAt: at,
		Due: at.Add(time.Second), Attempt: 2, Reason: "r", Error: "e", Input: "http", TraceID: "4b", Changes: []string{"c"}, Body: []byte("b")}
	begin := ": hello\n\nevent: dead\ndata: " + whole + "\n\n: nothing new\n\n"
	for end, said := range map[string]string{
		"event: end\ndata: {\"reason\":\"slow\",\"dropped\":7}\n\n": "7 events were dropped",
		"event: end\ndata: {\"reason\":\"stopping\"}\n\n":           "the bridge is stopping",
		"event: dead\ndata: {\n\n":                                  "unexpected end of JSON",
		"":                                                          "unexpected EOF",
	} {
		server := &answering{text: begin + end}
		answered := ""
		c, err := client.New(client.Config{URL: "http://bridge", HTTP: &http.Client{Transport: server}, Answered: func(text []byte) { answered += string(text) }})
		if err != nil {
			t.Fatal(err)
		}
		var got []client.Event
		for e, err := range c.Events(t.Context(), client.EventQuery{Sinks: []string{"a", "b"}, Events: []string{"dead"}, Topic: "t*", ID: "x", Key: []byte{0xff}, Bodies: true}) {
			if err == nil {
				got = append(got, e)
			} else if _, ok := errors.AsType[*client.Error](err); !ok || !strings.Contains(err.Error(), said) {
				t.Errorf("%q: %v", end, err)
			}
		}
		if diff := cmp.Diff([]client.Event{want}, got); diff != "" || answered != whole {
			t.Errorf("%q: %s", end, diff)
		}
		if query := server.asked.URL.RawQuery; query != "bodies=true&event=dead&id=x&key_base64=%2Fw%3D%3D&sink=a&sink=b&topic=t%2A" {
			t.Errorf("asked for %s", query)
		}
	}
}

// TestEventsOfASilentBridge end, though no connection was lost; so do those of a caller
// who gives up.
func TestEventsOfASilentBridge(t *testing.T) {
	for _, test := range []struct {
		patience time.Duration
		want     string
	}{{time.Hour, "nothing was heard for too long"}, {time.Second, "context deadline exceeded"}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), test.patience)
			defer cancel()
			c, err := client.New(client.Config{URL: "http://bridge", HTTP: &http.Client{Transport: &answering{text: ": hello\n\n", hangs: true}}})
			if err != nil {
				t.Fatal(err)
			}
			said := ""
			for _, err := range c.Events(ctx, client.EventQuery{}) {
				said += fmt.Sprint(err)
			}
			if !strings.Contains(said, test.want) {
				t.Errorf("%q, want %q", said, test.want)
			}
		})
	}
}

// TestEventsRefused: what a bridge without a stream answers is its error.
func TestEventsRefused(t *testing.T) {
	_, c := fixture(t)
	for _, err := range c.Events(t.Context(), client.EventQuery{}) {
		if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != "not_supported" {
			t.Error(err)
		}
	}
}
