package httplistener

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestTooLarge(t *testing.T) {
	const most = 256 << 10
	exact := `{"topic":"t","delay":"1h","body":"` + strings.Repeat("x", most) + `"}`
	t.Run("a body of the limit is taken", func(t *testing.T) {
		f := newFixture(t, Config{})
		f.mustStore(exact)
		f.mustStore(`{"topic":"t","delay":"1h","body_base64":"` + strings.Repeat("AAAA", most/3) + `"}`)
		if a := f.do("POST", "/v1/publish/orders/t", strings.Repeat("x", most), "Delaybridge-Delay: 1h"); a.status != 201 {
			t.Errorf("got %d %s", a.status, a.text)
		}
	})
	t.Run("one byte more", func(t *testing.T) {
		f := newFixture(t, Config{})
		a := f.do("POST", "/v1/messages", strings.Replace(exact, "xxx", "xxxx", 1))
		f.refused(a, 413, "too_large")
		if a.json["field"] != "body" || a.json["stored"] != false {
			t.Errorf("got %s", a.text)
		}
		a = f.do("POST", "/v1/publish/orders/t", strings.Repeat("x", most+1), "Delaybridge-Delay: 1h")
		f.refused(a, 413, "too_large")
		if a.json["field"] != "body" || !a.close {
			t.Errorf("got %s %v", a.text, a.header)
		}
	})
	t.Run("what is over the limit is not read", func(t *testing.T) {
		f := newFixture(t, Config{})
		for _, path := range []string{"/v1/messages", "/v1/publish/orders/t", "/v1/messages/batch"} {
			endless := &endless{}
			r, err := http.NewRequest("POST", f.http.URL+path, endless) // chunked
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Delaybridge-Delay", "1h")
			r.Header.Set("Content-Type", "application/json")
			f.refused(f.send(r), 413, "too_large")
		}
	})
	t.Run("a declared length is enough", func(t *testing.T) {
		f := newFixture(t, Config{})
		a := f.raw("POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n{")
		f.refused(a, 413, "too_large")
	})
	t.Run("headers of a publish", func(t *testing.T) {
		f := newFixture(t, Config{})
		big := "Delaybridge-Header-A: " + strings.Repeat("x", 8<<10)
		f.refused(f.do("POST", "/v1/publish/orders/t", "x", "Delaybridge-Delay: 1h", big), 431, "headers_too_large")
		var many []string
		for n := range 65 {
			many = append(many, fmt.Sprintf("Delaybridge-Header-%d: x", n))
		}
		f.refused(f.do("POST", "/v1/publish/orders/t", "x", append(many, "Delaybridge-Delay: 1h")...), 431, "headers_too_large")
		if a := f.do("POST", "/v1/publish/orders/t", "x", "Delaybridge-Delay: 1h", "Other: "+strings.Repeat("x", 100<<10)); a.status != 431 {
			t.Errorf("got %d", a.status)
		}
	})
}

// endless is a body that does not end.
type endless struct{}

func (*endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestCompressedBodies(t *testing.T) {
	var once, twice bytes.Buffer
	zip(t, &once, bytes.Repeat([]byte{0}, 1<<20))
	zip(t, &twice, once.Bytes())
	f := newFixture(t, Config{})
	for _, path := range []string{"/v1/messages", "/v1/messages/batch", "/v1/publish/orders/t"} {
		for _, coding := range []string{"gzip", "br", "deflate", "gzip, gzip", "x-unknown"} {
			a := f.do("POST", path, twice.String(), "Content-Encoding: "+coding, "Delaybridge-Delay: 1h")
			f.refused(a, 415, "unsupported_media_type")
		}
	}
	if a := f.do("POST", "/v1/messages", envelopeWith(`"id":"a"`), "Content-Encoding: identity"); a.status != 201 {
		t.Errorf("got %d %s", a.status, a.text)
	}
}

func zip(t *testing.T, to io.Writer, data []byte) {
	t.Helper()
	w := gzip.NewWriter(to)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestMediaTypes(t *testing.T) {
	f := newFixture(t, Config{})
	for _, given := range []string{"text/plain", "application/x-www-form-urlencoded", "application/xml", "application/json; charset=latin1", "json", ";", "application/x-ndjson"} {
		f.refused(f.do("POST", "/v1/messages", envelopeWith(`"id":"a"`), "Content-Type: "+given), 415, "unsupported_media_type")
	}
	f.refused(f.do("POST", "/v1/messages/batch", envelopeWith(`"id":"a"`), "Content-Type: text/plain"), 415, "unsupported_media_type")
	for _, given := range []string{"application/json", "Application/JSON; Charset=\"UTF-8\"", ""} {
		if a := f.do("POST", "/v1/messages", envelopeWith(`"id":"a"`), "Content-Type: "+given); a.status > 201 {
			t.Errorf("%q: got %d %s", given, a.status, a.text)
		}
	}
}

func TestNamesInThePath(t *testing.T) {
	f := newFixture(t, Config{})
	for _, sink := range []string{"a%2Fb", "..%2f..%2fadmin", "%00", "%0d%0a", "a:b", "-x", "%F0%9F%98%80", "%E2%80%AE", "%D0%B0", "%2e%2e", "%20", strings.Repeat("a", 65), "%ff"} {
		a := f.do("POST", "/v1/publish/"+sink+"/t", "x", "Delaybridge-Delay: 1h")
		f.refused(a, 400, "invalid")
		if a.json["field"] != "sink" {
			t.Errorf("%s: got %s", sink, a.text)
		}
	}
	for _, topic := range []string{"%00", "%0d%0a", "a%20b", "%F0%9F%98%80", strings.Repeat("t", 256)} {
		f.refused(f.do("POST", "/v1/publish/orders/"+topic, "x", "Delaybridge-Delay: 1h"), 400, "invalid")
	}
	for _, id := range []string{"%2e%2e", "%2E", "*", "%3F", "a%0ab", "%00", strings.Repeat("a", 129), "%7Borders%7D"} {
		for _, call := range []string{"GET /v1/messages/" + id, "DELETE /v1/messages/" + id, "POST /v1/messages/" + id + "/deliver-now", "POST /v1/dead/" + id + "/redrive", "DELETE /v1/dead/" + id} {
			method, path, _ := strings.Cut(call, " ")
			f.refused(f.do(method, path, ""), 400, "invalid")
		}
	}
	for _, path := range []string{"/v1//messages", "/v1/messages//a", "/v1/messages/../dead", "/v1/messages/./a", "/v1/messages/", "/v1/messages/a/"} {
		a := f.raw("DELETE " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		f.refused(a, 404, "no_such_route")
	}
}

func TestMethods(t *testing.T) {
	f := newFixture(t, Config{})
	tests := []struct{ method, path, allow string }{
		{"GET", "/v1/publish/orders/t", "POST"},
		{"PUT", "/v1/messages", "GET, HEAD, POST"},
		{"DELETE", "/v1/messages", "GET, HEAD, POST"},
		{"POST", "/v1/messages/a", "GET, HEAD, PATCH, DELETE"},
		{"PUT", "/v1/messages/batch", "GET, HEAD, PATCH, DELETE, POST"},
		{"GET", "/v1/messages/a/deliver-now", "POST"},
		{"POST", "/v1/dead", "GET, HEAD"},
		{"GET", "/v1/dead/a/redrive", "POST"},
		{"PATCH", "/v1/dead/a", "DELETE"},
		{"POST", "/v1/stats", "GET, HEAD"},
		{"POST", "/livez", "GET, HEAD"},
		{"POST", "/readyz", "GET, HEAD"},
		{"POST", "/problems/conflict", "GET, HEAD"},
		{"TRACE", "/v1/messages", "GET, HEAD, POST, PATCH, DELETE"},
		{"PROPFIND", "/v1/messages", "GET, HEAD, POST, PATCH, DELETE"},
	}
	for _, test := range tests {
		a := f.do(test.method, test.path, "")
		f.refused(a, 405, "method_not_allowed")
		if got := a.header.Get("Allow"); got != test.allow {
			t.Errorf("%s %s: Allow: %s", test.method, test.path, got)
		}
	}
	f.refused(f.raw("CONNECT localhost:443 HTTP/1.1\r\nHost: localhost:443\r\n\r\n"), 405, "method_not_allowed")
	f.refused(f.raw("CONNECT /v1/messages HTTP/1.1\r\nHost: localhost:443\r\n\r\n"), 405, "method_not_allowed")
	if a := f.do("OPTIONS", "/v1/messages/a", ""); a.status != 204 || a.header.Get("Allow") != "GET, HEAD, PATCH, DELETE" {
		t.Errorf("OPTIONS: %d %v", a.status, a.header)
	}
	for _, path := range []string{"/v1/messages", "/livez", "/readyz", "/v1/stats", "/problems/conflict"} {
		if a := f.do("HEAD", path, ""); a.status != 200 || a.text != "" || a.header.Get("Content-Length") == "0" {
			t.Errorf("HEAD %s: %d %q", path, a.status, a.text)
		}
	}
	f.refused(f.do("GET", "/nothing", ""), 404, "no_such_route")
}

func TestRequestsThatAreNotHTTP(t *testing.T) {
	f := newFixture(t, Config{})
	const head = "POST /v1/publish/orders/t HTTP/1.1\r\nHost: localhost\r\nDelaybridge-Delay: 1h\r\n"
	tests := map[string]string{
		"NUL in a header":       head + "Delaybridge-Header-A: x\x00y\r\nContent-Length: 1\r\n\r\nx",
		"CR in a header":        head + "Delaybridge-Header-A: x\ry\r\nContent-Length: 1\r\n\r\nx",
		"space before colon":    head + "Content-Length : 1\r\n\r\nx",
		"two lengths":           head + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
		"signed length":         head + "Content-Length: +1\r\n\r\nx",
		"bad length, TE":        head + "Content-Length: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"two hosts":             head + "Host: other\r\n\r\n",
		"chunk of bad size":     head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
		"chunk of signed size":  head + "Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
		"body that ends early":  head + "Content-Length: 5\r\n\r\nab",
		"chunks that end early": head + "Transfer-Encoding: chunked\r\n\r\n5\r\nab",
	}
	for name, request := range tests {
		t.Run(name, func(t *testing.T) {
			conn := f.dial()
			if _, err := io.WriteString(conn, request); err != nil {
				t.Fatal(err)
			}
			conn.(interface{ CloseWrite() error }).CloseWrite()
			text, err := io.ReadAll(conn)
			if err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 400 ") {
				t.Errorf("got %q, %v", text, err)
			}
		})
	}
	for _, coding := range []string{"gzip, chunked", "chunked\r\nTransfer-Encoding: chunked", "identity", "xchunked"} {
		if a := f.raw(head + "Transfer-Encoding: " + coding + "\r\n\r\n0\r\n\r\n"); a.status != 501 && a.status != 400 {
			t.Errorf("%q: got %d", coding, a.status)
		}
	}
	if len(f.store.parked) != 0 {
		t.Errorf("%d messages stored", len(f.store.parked))
	}
}

// net/http unfolds a header that goes on in a second line, as RFC 9112 allows;
// there is no line break left in what it gives.
func TestFoldedHeader(t *testing.T) {
	f := newFixture(t, Config{})
	a := f.raw("POST /v1/publish/orders/t HTTP/1.1\r\nHost: localhost\r\nDelaybridge-Delay: 1h\r\n" +
		"Delaybridge-Header-A: x\r\n Delaybridge-Id: y\r\nContent-Length: 1\r\n\r\nx")
	if a.status != 201 || a.json["id"] == "y" || string(f.store.parked[0].Headers[0].Value) != "x Delaybridge-Id: y" {
		t.Errorf("got %d %s", a.status, a.text)
	}
}

// net/http drops the Content-Length of a request that is chunked as well, so
// that it can't be refused. It is read as chunked, and what may be smuggled
// behind it is not read at all.
func TestLengthAndChunked(t *testing.T) {
	f := newFixture(t, Config{})
	conn := f.dial()
	const smuggled = "POST /v1/publish/orders/smuggled HTTP/1.1\r\nHost: localhost\r\nDelaybridge-Delay: 1h\r\nContent-Length: 0\r\n\r\n"
	_, err := io.WriteString(conn, "POST /v1/publish/orders/t HTTP/1.1\r\nHost: localhost\r\nDelaybridge-Delay: 1h\r\nTransfer-Encoding: chunked\r\n"+
		fmt.Sprintf("Content-Length: %d\r\n\r\n1\r\nx\r\n0\r\n\r\n%s", len("1\r\nx\r\n0\r\n\r\n")+len(smuggled), smuggled))
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(conn) // may end with a reset
	if !strings.HasPrefix(string(text), "HTTP/1.1 201 ") || strings.Count(string(text), "HTTP/1.1") != 1 {
		t.Errorf("got %q", text)
	}
	if len(f.store.parked) != 1 || string(f.store.parked[0].Body) != "x" || f.store.parked[0].Topic != "t" {
		t.Errorf("parked %v", f.store.parked)
	}
}

func TestPanicIsAnswered(t *testing.T) {
	f := newFailing(t, &failing{panic: true})
	a := f.do("POST", "/v1/messages", envelopeWith(`"id":"a"`))
	if a.status != 500 || a.json["code"] != "internal" || a.json["stored"] != "unknown" || strings.Contains(a.text, "told to") {
		t.Errorf("got %d %s", a.status, a.text)
	}
	if a := f.do("GET", "/livez", ""); a.status != 200 {
		t.Errorf("afterwards: %d", a.status)
	}
}
