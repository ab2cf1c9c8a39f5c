package integration

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// room is how much more writable memory an instance may take than it has when it is
// ready. GOMEMLIMIT would only make it slower, and address space (RLIMIT_AS) is
// reserved by the C library for every thread, used or not.
const room = 256 << 20

// confined is an instance that the system ends if it takes more memory than that,
// and the address of its gRPC listener; with settings for both listeners.
func confined(t *testing.T, listeners string) (i *instance, grpcAddr string) {
	t.Helper()
	redis := servers.Redis(t, servers.RedisOptions{})
	i = serve(t, fmt.Sprintf(`store: {redis: {url: "%[1]s"}}
http: {listen: "127.0.0.1:0", %[2]s}
grpc: {listen: "127.0.0.1:0", %[2]s}
sinks: {orders: {type: console, config: {format: json}}}
`, redis.URL(), listeners), output(t))
	var pages, none uint64
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", i.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	// size resident shared text lib data: proc_pid_statm(5)
	if _, err := fmt.Sscan(string(statm), &none, &none, &none, &none, &none, &pages); err != nil {
		t.Fatal(err)
	}
	most := pages*uint64(os.Getpagesize()) + room
	if err := unix.Prlimit(i.Cmd.Process.Pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: most, Max: most}, nil); err != nil {
		t.Fatal(err)
	}
	return i, regexp.MustCompile(`grpc=([0-9.:]+)`).FindStringSubmatch(i.Logs.String())[1]
}

// works checks that the instance still does what it is for.
func (i *instance) works() {
	i.t.Helper()
	poll.Until(i.t, answersIn, "a message is accepted", func() bool { return i.post("still-there", time.Hour) })
	i.stop()
}

// rawCodec sends bytes as they are, and reads none.
type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error)   { return v.([]byte), nil }
func (rawCodec) Unmarshal(_ []byte, _ any) error { return nil }
func (rawCodec) Name() string                    { return "proto" }

func dialRaw(t *testing.T, addr string) *grpc.ClientConn {
	t.Helper()
	var codec encoding.Codec = rawCodec{}
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(codec), grpc.UseCompressor(gzip.Name)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// TestRequestsOfManyParts: what takes two bytes of a request takes no more memory
// than a request may.
func TestRequestsOfManyParts(t *testing.T) {
	t.Parallel()
	i, addr := confined(t, "max_connections: 300")
	conn := dialRaw(t, addr)
	const most = 4<<20 - 64
	field := func(tag byte, text string) string {
		return string(protowire.AppendString([]byte{tag}, text))
	}
	for name, call := range map[string]struct {
		method, request string
		code            codes.Code
	}{
		"sinks":    {"List", strings.Repeat(field(0x0a, "orders"), 460_000), codes.Internal},
		"few":      {"List", strings.Repeat(field(0x0a, "orders"), 8_000), codes.InvalidArgument},
		"messages": {"Publish", strings.Repeat("\x0a\x00", most/2), codes.InvalidArgument},
		"headers":  {"Publish", field(0x0a, strings.Repeat("\x2a\x00", most/2)), codes.InvalidArgument},
	} {
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), answersIn)
				defer cancel()
				err := conn.Invoke(ctx, "/delaybridge.v1.BridgeService/"+call.method, []byte(call.request), nil)
				if status.Code(err) != call.code {
					t.Errorf("%s: got %v, want %s", name, err, call.code)
				}
			})
		}
		group.Wait()
	}
	var group sync.WaitGroup
	for range 100 {
		group.Go(func() {
			answer, err := http.Get(i.url + "/v1/messages?" + strings.Repeat("sink=orders&", 3_900) + "limit=1")
			if err != nil {
				t.Error(err)
				return
			}
			if answer.Body.Close(); answer.StatusCode != http.StatusBadRequest {
				t.Errorf("got %s", answer.Status)
			}
		})
	}
	group.Wait()
	i.works()
}

// TestRequestsThatDoNotEnd: nor do requests, however many, that are begun and not
// ended; and health is told meanwhile.
func TestRequestsThatDoNotEnd(t *testing.T) {
	t.Parallel()
	i, addr := confined(t, "max_unanswered: 16MiB, max_connections: 300")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const size = 4<<20 - 1000
	var group sync.WaitGroup
	begin := func(transport *http.Transport, url, kind, head string) {
		body, to := io.Pipe()
		r, err := http.NewRequestWithContext(ctx, "POST", url, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", kind)
		group.Go(func() {
			defer to.Close()
			if _, err := io.WriteString(to, head); err == nil {
				_, err = io.CopyN(to, spaces{}, size)
				if err == nil {
					<-ctx.Done()
				}
			}
		})
		group.Go(func() {
			if answer, err := transport.RoundTrip(r); err == nil {
				answer.Body.Close()
			}
			body.CloseWithError(io.ErrClosedPipe)
		})
	}
	for range 100 {
		plain := &http.Transport{}
		defer plain.CloseIdleConnections()
		begin(plain, i.url+"/v1/messages/batch", "application/x-ndjson", "")
	}
	for range 20 {
		h2 := &http.Transport{Protocols: new(http.Protocols)}
		h2.Protocols.SetUnencryptedHTTP2(true)
		defer h2.CloseIdleConnections()
		for range 10 {
			begin(h2, "http://"+addr+"/delaybridge.v1.BridgeService/PublishStream", "application/grpc", "\x00\x00\x3f\xff\xff")
		}
	}
	var ready struct{ Ready bool }
	for range 20 {
		poll.Until(t, answersIn, "health is told", func() bool { return i.get("/readyz", &ready) == nil && ready.Ready })
	}
	cancel()
	group.Wait()
	i.works()
}

type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for n := range p {
		p[n] = ' '
	}
	return len(p), nil
}
