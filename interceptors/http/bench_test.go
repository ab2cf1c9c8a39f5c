package httplistener

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// instant is a store that says yes.
type instant struct{ core.Store }

func (instant) Park(_ context.Context, messages ...*core.Message) []core.Receipt {
	receipts := make([]core.Receipt, len(messages))
	for n, m := range messages {
		receipts[n] = core.Receipt{ID: "000102030405060708090a0", Sink: m.Sink, State: core.Scheduled, DeliverAt: time.Unix(2e9, 0), Durability: "memory"}
	}
	return receipts
}

const benchEnvelope = `{"topic":"orders","key":"customer-4711","headers":{"content-type":"application/json"},"delay":"15m","body":{"order":4711,"total":"12.50","items":[{"sku":"a-1","n":2},{"sku":"b-7","n":1}]}}`

// answerless throws answers away; keeps the header map of the request before.
type answerless struct {
	header http.Header
	status int
}

func (a *answerless) Header() http.Header         { return a.header }
func (a *answerless) WriteHeader(status int)      { a.status = status }
func (a *answerless) Write(p []byte) (int, error) { return len(p), nil }

func benchHandler(b *testing.B, method, path, body string, want int, headers ...string) {
	listener, err := New(Config{}, interceptor(instant{}, "orders"))
	if err != nil {
		b.Fatal(err)
	}
	r, err := http.NewRequest(method, "http://localhost"+path, nil)
	if err != nil {
		b.Fatal(err)
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	r.ContentLength = int64(len(body))
	handler, w, reader := listener.Handler(), &answerless{header: make(http.Header)}, strings.NewReader(body)
	r.Body = io.NopCloser(reader)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		reader.Reset(body)
		clear(w.header)
		handler.ServeHTTP(w, r)
		if w.status != want {
			b.Fatalf("got %d", w.status)
		}
	}
}

// BenchmarkPost is one message, without the connection.
func BenchmarkPost(b *testing.B) {
	benchHandler(b, "POST", "/v1/messages", benchEnvelope, 201, "Content-Type: application/json")
}

func BenchmarkPublish(b *testing.B) {
	benchHandler(b, "POST", "/v1/publish/orders/orders", `{"order":4711}`, 201, "Delaybridge-Delay: 15m", "Delaybridge-Key: customer-4711", "Content-Type: application/json")
}

// BenchmarkBatch is 100 messages.
func BenchmarkBatch(b *testing.B) {
	benchHandler(b, "POST", "/v1/messages/batch", strings.Repeat(benchEnvelope+"\n", 100), 200, "Content-Type: application/x-ndjson")
}

// BenchmarkConnection is one message over loopback, with the client's share.
func BenchmarkConnection(b *testing.B) {
	for _, parallel := range []int{1, 16} {
		b.Run(fmt.Sprint(parallel), func(b *testing.B) {
			listener, err := New(Config{Listen: "127.0.0.1:0"}, interceptor(instant{}, "orders"))
			if err != nil {
				b.Fatal(err)
			}
			addr, err := listener.Listen()
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- listener.Run(ctx) }()
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
			b.SetParallelism(parallel)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					response, err := client.Post("http://"+addr.String()+"/v1/messages", "application/json", strings.NewReader(benchEnvelope))
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, response.Body)
					response.Body.Close()
				}
			})
			client.CloseIdleConnections()
			cancel()
			<-ended
		})
	}
}
