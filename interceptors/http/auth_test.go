package httplistener

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/internal/auth"
)

const (
	goodToken  = "correct-horse-battery-staple"
	otherToken = "another-token-of-good-length"
)

func bearer(token string) string { return "Authorization: Bearer " + token }

func TestTokenIsNeeded(t *testing.T) {
	f := newFixture(t, Config{Tokens: []string{goodToken, fmt.Sprintf("sha256:%X", sha256.Sum256([]byte(otherToken)))}})
	tests := map[string]struct {
		path    string
		headers []string
	}{
		"none":                   {"/v1/messages", nil},
		"empty":                  {"/v1/messages", []string{"Authorization: "}},
		"scheme alone":           {"/v1/messages", []string{"Authorization: Bearer"}},
		"scheme and space":       {"/v1/messages", []string{"Authorization: Bearer "}},
		"wrong scheme":           {"/v1/messages", []string{"Authorization: Basic " + goodToken}},
		"no scheme":              {"/v1/messages", []string{"Authorization: " + goodToken}},
		"wrong token":            {"/v1/messages", []string{bearer("wrong")}},
		"part of the token":      {"/v1/messages", []string{bearer(goodToken[:20])}},
		"more than the token":    {"/v1/messages", []string{bearer(goodToken + " x")}},
		"two headers, both good": {"/v1/messages", []string{bearer(goodToken), bearer(goodToken)}},
		"in the query":           {"/v1/messages?token=" + goodToken + "&access_token=" + goodToken, nil},
		"its hash":               {"/v1/messages", []string{bearer(fmt.Sprintf("%x", sha256.Sum256([]byte(goodToken))))}},
		"batch":                  {"/v1/messages/batch", nil},
		"publish":                {"/v1/publish/orders/t", []string{"Delaybridge-Delay: 1h"}},
		"redrive":                {"/v1/dead/a/redrive", nil},
		"what is not there":      {"/nothing", nil},
		"beyond an open path":    {"/livez/x", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a := f.do("POST", test.path, envelopeWith(`"id":"a"`), test.headers...)
			f.refused(a, 401, "unauthorized")
			if a.header.Get("WWW-Authenticate") == "" || strings.Contains(a.text, goodToken) {
				t.Errorf("got %v %s", a.header, a.text)
			}
		})
	}
	for _, token := range []string{bearer(goodToken), bearer(otherToken), "Authorization: bearer " + goodToken} {
		if a := f.do("POST", "/v1/messages", envelopeWith(`"id":"a"`), token); a.status > 201 {
			t.Errorf("%s: got %d %s", token, a.status, a.text)
		}
	}
	for _, path := range []string{"/livez", "/readyz", "/problems/unauthorized"} {
		if a := f.do("GET", path, ""); a.status != 200 {
			t.Errorf("%s: got %d", path, a.status)
		}
	}
	for _, path := range []string{"/v1/messages", "/v1/messages/a", "/v1/dead", "/v1/stats"} {
		if a := f.do("GET", path, ""); a.status != 401 && a.status != 429 {
			t.Errorf("%s: got %d", path, a.status)
		}
	}
}

func TestTokensAreExchanged(t *testing.T) {
	f := newFixture(t, Config{Tokens: []string{goodToken}})
	next, err := New(Config{Tokens: []string{otherToken}}, interceptor(f.store))
	if err != nil {
		t.Fatal(err)
	}
	if a := f.do("GET", "/v1/messages", "", bearer(goodToken)); a.status != 200 {
		t.Fatalf("the old token is gone before its time: %d", a.status)
	}
	f.listener.Adopt(next)
	if a := f.do("GET", "/v1/messages", "", bearer(goodToken)); a.status != 401 {
		t.Errorf("the revoked token: %d", a.status)
	}
	if a := f.do("GET", "/v1/messages", "", bearer(otherToken)); a.status != 200 {
		t.Errorf("the new token: %d", a.status)
	}
}

func TestFloodOfWrongTokens(t *testing.T) {
	f := newFixture(t, Config{Tokens: []string{goodToken}})
	seen := make(map[int]int)
	for n := range 300 {
		a := f.do("GET", "/v1/messages", "", bearer(fmt.Sprintf("guess-%d", n)))
		seen[a.status]++
		if a.status == 429 && (a.header.Get("Retry-After") == "" || a.json["code"] != "too_many_requests" || !a.close) {
			t.Fatalf("got %v %s", a.header, a.text)
		}
	}
	if seen[401] < auth.FloodBurst || seen[429] < 100 || seen[401]+seen[429] != 300 {
		t.Errorf("got %v", seen)
	}
	if a := f.do("GET", "/v1/messages", "", bearer(goodToken)); a.status != 200 {
		t.Errorf("the good token is locked out: %d", a.status)
	}
}

func TestHostMustBeLocalWithoutTokens(t *testing.T) {
	host := func(f *fixture, host string) answer {
		return f.raw("GET /v1/messages HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n")
	}
	f := newFixture(t, Config{})
	for _, name := range []string{"localhost", "LocalHost:7420", "127.0.0.1", "127.0.0.1:7420", "[::1]:7420", "[::1]", "192.0.2.7:80"} {
		if a := host(f, name); a.status != 200 {
			t.Errorf("%s: got %d %s", name, a.status, a.text)
		}
	}
	for _, name := range []string{"rebound.example", "rebound.example:7420", "localhost.example", "127.0.0.1.example", "1.example:7420"} {
		f.refused(host(f, name), 421, "misdirected")
	}
	for _, config := range []Config{{Insecure: true}, {Tokens: []string{goodToken}}} {
		if a := host(newFixture(t, config), "bridge.internal:7420"); a.status == 421 {
			t.Errorf("%+v: got %d", config, a.status)
		}
	}
}

func TestBrowsersOfOtherOrigins(t *testing.T) {
	f := newFixture(t, Config{})
	for _, headers := range [][]string{{"Origin: https://elsewhere.example"}, {"Sec-Fetch-Site: cross-site"}, {"Origin: null"}} {
		f.refused(f.do("POST", "/v1/publish/orders/t", "x", append(headers, "Delaybridge-Delay: 1h", "Content-Type: text/plain")...), 403, "cross_origin")
	}
	if a := f.do("POST", "/v1/publish/orders/t", "x", "Delaybridge-Delay: 1h", "Sec-Fetch-Site: same-origin"); a.status != 201 {
		t.Errorf("got %d %s", a.status, a.text)
	}
	f = newFixture(t, Config{})
	for _, path := range []string{"/v1/messages", "/v1/messages/a", "/v1/dead", "/v1/stats"} {
		for _, header := range []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Origin: https://elsewhere.example"} {
			f.refused(f.do("GET", path, "", header), 403, "cross_origin")
		}
		for _, header := range []string{"Sec-Fetch-Site: none", "Sec-Fetch-Site: same-origin"} {
			if a := f.do("GET", path, "", header); a.status == 403 {
				t.Errorf("%s with %s: got %s", path, header, a.text)
			}
		}
	}
	f = newFixture(t, Config{Tokens: []string{goodToken}})
	if a := f.do("GET", "/v1/messages", "", "Sec-Fetch-Site: cross-site", bearer(goodToken)); a.status != 200 {
		t.Errorf("with a token: got %d %s", a.status, a.text)
	}
}

func TestSecretsAndForgedLinesStayOutOfTheLog(t *testing.T) {
	var log bytes.Buffer
	store := &failing{panic: true}
	f := &fixture{T: t, store: &spy{Store: store}}
	f.serve(Config{Tokens: []string{goodToken}, Log: slog.New(slog.NewTextHandler(&log, nil))}, store)
	f.do("POST", "/v1/messages", envelopeWith(`"id":"a","body":"canary-body"`), bearer(goodToken))
	f.do("POST", "/v1/publish/orders/%0alevel=ERROR", "canary-body", bearer(goodToken), "Delaybridge-Delay: 1h")
	f.http.Close()
	if strings.Count(log.String(), "\n") != 1 || strings.Count(log.String(), "panic") < 1 {
		t.Errorf("want one line about one panic, got:\n%s", log.String())
	}
	if strings.Contains(log.String(), goodToken) || strings.Contains(log.String(), "canary") {
		t.Errorf("the log has what it must not:\n%s", log.String())
	}
}
