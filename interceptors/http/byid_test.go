package httplistener

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/delaybridge/delaybridge/core"
)

func TestGetShowsWhatWasSent(t *testing.T) {
	f := newFixture(t, Config{})
	tests := map[string]struct{ envelope, want string }{
		"text": {envelopeWith(`"id":"a/b","key":"k<","headers":{"z":["1",null],"a":"é"},"body":"hi \u2028 <&>","priority":3,"options":{"retry.max_attempts":"3"}`),
			`{"id":"a/b","topic":"t","key":"k<","headers":[{"name":"z","value":"1"},{"name":"z","value":null},{"name":"a","value":"é"}],"body":"hi \u2028 <&>","body_size":10,"priority":3,"options":{"retry.max_attempts":"3"}}`},
		"bytes": {envelopeWith(`"id":"b","key_base64":"AP8=","headers":[{"name":"n","value_base64":"/w=="}],"body_base64":"/w=="`),
			`{"id":"b","topic":"t","key_base64":"AP8=","headers":[{"name":"n","value_base64":"/w=="}],"body_base64":"/w==","body_size":1}`},
		"null body":  {envelopeWith(`"id":"c","body":null`), `{"id":"c","topic":"t","body":null,"body_size":0}`},
		"empty body": {envelopeWith(`"id":"d","key":""`), `{"id":"d","topic":"t","key":"","body":"","body_size":0}`},
		"JSON body":  {envelopeWith(`"id":"e","body":{"a": 1}`), `{"id":"e","topic":"t","body":"{\"a\": 1}","body_size":8}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			id := f.mustStore(test.envelope)
			a := f.do("GET", "/v1/messages/"+url.PathEscape(id), "")
			if a.status != 200 {
				t.Fatalf("got %d %s", a.status, a.text)
			}
			var want map[string]any
			if err := json.Unmarshal([]byte(test.want), &want); err != nil {
				t.Fatal(err)
			}
			want["sink"], want["state"], want["attempt"], want["may_have_been_sent"] = "orders", "scheduled", 0.0, false
			want["deliver_at"], want["due"] = a.json["due"], a.json["due"]
			if diff := cmp.Diff(want, a.json); diff != "" {
				t.Error(diff)
			}
			if _, err := time.Parse(core.TimeFormat, a.json["due"].(string)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCancel(t *testing.T) {
	f := newFixture(t, Config{})
	f.mustStore(envelopeWith(`"id":"a/b","key":"k"`))
	a := f.do("DELETE", "/v1/messages/a%2Fb", "")
	if a.status != 200 || a.json["state"] != "cancelled" || a.json["may_have_been_sent"] != false {
		t.Fatalf("got %d %s", a.status, a.text)
	}
	for range 2 {
		again := f.do("DELETE", "/v1/messages/a%2Fb", "")
		if again.status != 409 || again.json["code"] != "too_late" || again.json["state"] != "cancelled" || again.json["changed"] != false {
			t.Errorf("got %d %s", again.status, again.text)
		}
	}
	if a := f.do("GET", "/v1/messages/a%2Fb", ""); a.status != 200 || a.json["state"] != "cancelled" || a.json["body"] != nil {
		t.Errorf("got %d %s", a.status, a.text)
	}
	if a := f.do("DELETE", "/v1/messages/none", ""); a.status != 404 || a.json["code"] != "not_found" || a.json["changed"] != false {
		t.Errorf("got %d %s", a.status, a.text)
	}
}

func TestReschedule(t *testing.T) {
	f := newFixture(t, Config{})
	f.mustStore(envelopeWith(`"id":"a"`))
	at := time.Now().Add(5 * time.Hour).UTC().Truncate(time.Millisecond)
	a := f.do("PATCH", "/v1/messages/a", `{"deliver_at":"`+at.Format(time.RFC3339Nano)+`"}`)
	if a.status != 200 || a.json["deliver_at"] != at.Format(core.TimeFormat) || a.json["state"] != "scheduled" {
		t.Errorf("got %d %s", a.status, a.text)
	}
	a = f.do("PATCH", "/v1/messages/a", `{"delay":"2d"}`)
	got, _ := time.Parse(core.TimeFormat, a.json["deliver_at"].(string))
	if left := time.Until(got); a.status != 200 || left < 47*time.Hour || left > 48*time.Hour+time.Second {
		t.Errorf("got %d %s", a.status, a.text)
	}
	for _, body := range []string{`{}`, `{"delay":"1h","deliver_at":"2031-02-03T00:00:00Z"}`, `{"delay":5}`, `{"topic":"u","delay":"1h"}`, `{"delay":"-1s"}`, `{"delay":"400d"}`} {
		a := f.do("PATCH", "/v1/messages/a", body)
		if a.status != 400 || a.json["code"] != "invalid" || a.json["changed"] != false {
			t.Errorf("%s: got %d %s", body, a.status, a.text)
		}
	}
	for _, body := range []string{``, `null`, `[]`, `{`} {
		if a := f.do("PATCH", "/v1/messages/a", body); a.status != 400 || a.json["code"] != "malformed" {
			t.Errorf("%s: got %d %s", body, a.status, a.text)
		}
	}
	if a := f.do("PATCH", "/v1/messages/none", `{"delay":"1h"}`); a.status != 404 {
		t.Errorf("got %d %s", a.status, a.text)
	}
	now := f.do("POST", "/v1/messages/a/deliver-now", "")
	if got, _ := time.Parse(core.TimeFormat, now.json["deliver_at"].(string)); now.status != 200 || time.Until(got) > time.Second {
		t.Errorf("got %d %s", now.status, now.text)
	}
}

func TestKeyAndSinkTellApart(t *testing.T) {
	f := newFixture(t, Config{}, "orders", "mails")
	f.mustStore(envelopeWith(`"id":"a","sink":"orders"`))
	f.mustStore(envelopeWith(`"id":"a","sink":"mails"`))
	a := f.do("GET", "/v1/messages/a", "")
	if a.status != 409 || a.json["code"] != "ambiguous" {
		t.Errorf("got %d %s", a.status, a.text)
	}
	if a := f.do("DELETE", "/v1/messages/a", ""); a.status != 409 || a.json["changed"] != false {
		t.Errorf("got %d %s", a.status, a.text)
	}
	if a := f.do("GET", "/v1/messages/a?sink=mails", ""); a.status != 200 || a.json["sink"] != "mails" {
		t.Errorf("got %d %s", a.status, a.text)
	}
	// Keys until two are in different buckets.
	for n := range 100 {
		f.mustStore(envelopeWith(fmt.Sprintf(`"id":"b","sink":"orders","key":"k+%d"`, n)))
		if f.do("GET", "/v1/messages/b", "").status == 409 {
			for _, ref := range []string{"key=k%2B0", "key_base64=aysw", "sink=orders&key=k%2B0"} {
				if a := f.do("GET", "/v1/messages/b?"+ref, ""); a.status != 200 || a.json["key"] != "k+0" {
					t.Errorf("%s: got %d %s", ref, a.status, a.text)
				}
			}
			return
		}
	}
	t.Error("100 keys are in one bucket")
}

func TestQueryIsStrict(t *testing.T) {
	f := newFixture(t, Config{})
	f.mustStore(envelopeWith(`"id":"a"`))
	f.store.parked = nil
	for _, query := range []string{"sink=none", "sink=", "sinks=orders", "sink=orders&sink=orders", "key=a&key_base64=AA==", "key_base64=A", "a;b", "key=%zz", "key=" + strings.Repeat("k", 1025)} {
		f.refused(f.do("DELETE", "/v1/messages/a?"+query, ""), 400, "invalid")
	}
	for _, query := range []string{"limit=-1", "limit=0", "limit=1e9", "limit=1000000000", "limit=", "limit=99999999999999999999", "limit=501",
		"sink=none", "state=gone", "state=delivered", "state=dead&state=scheduled", "due_after=yesterday", "due_before=1", "page=2", "limit=1&limit=2", "topic=a&topic=b"} {
		f.refused(f.do("GET", "/v1/messages?"+query, ""), 400, "invalid")
	}
	for _, cursor := range []string{"x", "AAAA", "%00", strings.Repeat("A", 5000)} {
		f.refused(f.do("GET", "/v1/messages?cursor="+cursor, ""), 400, "bad_cursor")
	}
	f.refused(f.do("GET", "/v1/dead?state=scheduled", ""), 400, "invalid")
	f.refused(f.do("GET", "/v1/stats?sink=orders", ""), 400, "invalid")
}

func TestList(t *testing.T) {
	f := newFixture(t, Config{}, "orders", "mails")
	start := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	for n := range 7 {
		f.mustStore(fmt.Sprintf(`{"id":"m%d","sink":"%s","topic":"t%d","body":"12345","deliver_at":"%s"}`,
			n, []string{"orders", "mails"}[n/5], n%2, start.Add(time.Duration(n)*time.Minute).Format(time.RFC3339)))
	}
	tests := map[string]string{
		"":                       "m0 m1 m2 m3 m4 m5 m6",
		"limit=3":                "m0 m1 m2 | m3 m4 m5 | m6",
		"sink=mails":             "m5 m6",
		"sink=mails&sink=orders": "m0 m1 m2 m3 m4 m5 m6",
		"topic=t1":               "m1 m3 m5",
		"state=scheduled&state=retrying&limit=500": "m0 m1 m2 m3 m4 m5 m6",
		"state=dead": "",
		"due_after=" + url.QueryEscape(start.Add(time.Minute).Format(time.RFC3339)) + "&due_before=" + url.QueryEscape(start.Add(3*time.Minute).Format(time.RFC3339)): "m1 m2",
	}
	for query, want := range tests {
		if got := f.walk("/v1/messages", query); got != want {
			t.Errorf("%s: got %s, want %s", query, got, want)
		}
	}
	first := f.do("GET", "/v1/messages?limit=1&topic=t1", "").json
	message := first["messages"].([]any)[0].(map[string]any)
	if _, body := message["body"]; body || message["body_size"] != 5.0 {
		t.Errorf("got %v", message)
	}
	foreign := f.do("GET", "/v1/messages?limit=1&topic=t0&cursor="+first["next_cursor"].(string), "")
	if foreign.status != 400 || foreign.json["code"] != "bad_cursor" {
		t.Errorf("a foreign cursor: %d %s", foreign.status, foreign.text)
	}
	for _, query := range f.store.pages {
		if query.Limit < 1 || query.Limit > core.MaxPage {
			t.Errorf("the store was asked for %d", query.Limit)
		}
	}
}

// walk returns the ids of a list, with " | " between pages.
func (f *fixture) walk(path, query string) string {
	f.Helper()
	var pages []string
	for cursor := ""; ; {
		a := f.do("GET", path+"?"+strings.Trim(query+"&cursor="+url.QueryEscape(cursor), "&"), "")
		if a.status != 200 {
			f.Fatalf("%s: got %d %s", query, a.status, a.text)
		}
		var ids []string
		for _, m := range a.json["messages"].([]any) {
			ids = append(ids, m.(map[string]any)["id"].(string))
		}
		pages = append(pages, strings.Join(ids, " "))
		next, more := a.json["next_cursor"].(string)
		if !more {
			return strings.Join(pages, " | ")
		}
		cursor = next
	}
}

// kill makes dead letters of all that is due.
func (f *fixture) kill(n int) {
	f.Helper()
	ctx, cancel := context.WithCancel(f.Context())
	defer cancel()
	killed := 0
	err := f.store.Serve(ctx, "orders", func(ctx context.Context, b core.Bucket) error {
		for ctx.Err() == nil {
			batch, err := b.Take(ctx, core.MaxTake)
			if err != nil {
				return err
			}
			var outcomes []core.Outcome
			for _, m := range batch.Messages {
				outcomes = append(outcomes, core.Outcome{ID: m.ID, State: core.Dead, Attempts: 1, Reason: "permanent", Error: "no\nsuch topic"})
			}
			if err := b.Settle(context.WithoutCancel(ctx), outcomes...); err != nil {
				return err
			}
			f.store.mu.Lock()
			if killed += len(outcomes); killed == n {
				cancel()
			}
			f.store.mu.Unlock()
			if len(outcomes) == 0 {
				_ = b.Wait(ctx, batch.Next)
			}
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		f.Fatal(err)
	}
}

func TestDeadLetters(t *testing.T) {
	f := newFixture(t, Config{})
	f.mustStore(`{"id":"a","topic":"t","delay":"0s","body":"kept"}`)
	f.mustStore(`{"id":"b","topic":"t","delay":"0s"}`)
	f.mustStore(`{"id":"c","topic":"t","delay":"1h"}`)
	f.kill(2)
	a := f.do("GET", "/v1/dead", "")
	if letters, ok := a.json["messages"].([]any); !ok || len(letters) != 2 {
		t.Fatalf("got %d %s", a.status, a.text)
	}
	letter := f.do("GET", "/v1/messages/a", "").json
	if letter["state"] != "dead" || letter["reason"] != "permanent" || letter["error"] != "no\nsuch topic" || letter["body"] != "kept" || letter["may_have_been_sent"] != true {
		t.Errorf("got %v", letter)
	}
	for _, call := range []string{"POST /v1/dead/c/redrive", "DELETE /v1/dead/c", "DELETE /v1/messages/a", "POST /v1/messages/a/deliver-now"} {
		method, path, _ := strings.Cut(call, " ")
		if a := f.do(method, path, ""); a.status != 409 || a.json["code"] != "too_late" || a.json["state"] == nil {
			t.Errorf("%s: got %d %s", call, a.status, a.text)
		}
	}
	if a := f.do("POST", "/v1/dead/a/redrive", ""); a.status != 200 || a.json["state"] != "scheduled" {
		t.Errorf("got %d %s", a.status, a.text)
	}
	if a := f.do("DELETE", "/v1/dead/b", ""); a.status != 200 || a.json["id"] != "b" || a.json["state"] != "discarded" {
		t.Errorf("got %d %s", a.status, a.text)
	}
	if got := f.walk("/v1/dead", "limit=10"); got != "" {
		t.Errorf("left: %s", got)
	}
	if a := f.do("POST", "/v1/dead/none/redrive", ""); a.status != 404 {
		t.Errorf("got %d %s", a.status, a.text)
	}
}

func TestStats(t *testing.T) {
	f := newFixture(t, Config{}, "orders", "mails")
	f.mustStore(envelopeWith(`"id":"a","sink":"mails"`))
	f.do("POST", "/v1/messages", envelopeWith(`"id":"a","sink":"mails"`))
	f.do("POST", "/v1/messages", envelopeWith(`"id":"*","sink":"mails"`))
	a := f.do("GET", "/v1/stats", "")
	sinks := a.json["sinks"].([]any)
	if a.status != 200 || len(sinks) != 2 {
		t.Fatalf("got %d %s", a.status, a.text)
	}
	mails := sinks[1].(map[string]any)
	totals := mails["since_start"].(map[string]any)
	if mails["sink"] != "mails" || mails["scheduled"] != 1.0 || mails["next_due"] == nil ||
		totals["accepted"] != 1.0 || totals["repeated"] != 1.0 || totals["refused"] != 1.0 {
		t.Errorf("got %s", a.text)
	}
}

func TestStoreErrorsById(t *testing.T) {
	tests := map[string]struct {
		err     error
		state   core.State
		status  int
		code    string
		changed any
	}{
		"unavailable": {core.ErrUnavailable, "", 503, "unavailable", false},
		"unknown":     {core.ErrUnknown, "", 503, "outcome_unknown", "unknown"},
		"too late":    {core.ErrTooLate, core.Delivering, 409, "too_late", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFailing(t, &failing{err: test.err, state: test.state})
			a := f.do("DELETE", "/v1/messages/a", "")
			if a.status != test.status || a.json["code"] != test.code || a.json["changed"] != test.changed {
				t.Errorf("got %d %s", a.status, a.text)
			}
			if test.state != "" && a.json["state"] != string(test.state) {
				t.Errorf("got %s", a.text)
			}
			if a.status == 503 && a.header.Get("Retry-After") == "" {
				t.Errorf("no Retry-After: %v", a.header)
			}
		})
	}
	f := newFailing(t, &failing{})
	if a := f.do("GET", "/v1/messages", ""); a.status != 501 || a.json["code"] != "not_supported" {
		t.Errorf("got %d %s", a.status, a.text)
	}
}
