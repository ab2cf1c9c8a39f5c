package integration

import (
	"context"
	"fmt"
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

	"github.com/delaybridge/delaybridge/integration/servers"
)

// room is how much more address space an instance may take than it has when it is
// ready. GOMEMLIMIT would only make it slower.
const room = 256 << 20

// confined is an instance that the system ends if it takes more memory than that,
// and the address of its gRPC listener.
func confined(t *testing.T, more string) (i *instance, grpcAddr string) {
	t.Helper()
	redis := servers.Redis(t, servers.RedisOptions{})
	i = serve(t, fmt.Sprintf(`store: {redis: {url: "%s"}}
http: {listen: "127.0.0.1:0"}
grpc: {listen: "127.0.0.1:0"}
sinks: {orders: {type: console, config: {format: json}}}
%s`, redis.URL(), more), output(t))
	var pages uint64
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", i.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(statm), &pages); err != nil {
		t.Fatal(err)
	}
	most := pages*uint64(os.Getpagesize()) + room
	if err := unix.Prlimit(i.cmd.Process.Pid, unix.RLIMIT_AS, &unix.Rlimit{Cur: most, Max: most}, nil); err != nil {
		t.Fatal(err)
	}
	return i, regexp.MustCompile(`grpc=([0-9.:]+)`).FindStringSubmatch(i.logs.String())[1]
}

// works checks that the instance still does what it is for.
func (i *instance) works() {
	i.t.Helper()
	eventually(i.t, answersIn, "a message is accepted", func() bool { return i.post("still-there", time.Hour) })
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
	i, addr := confined(t, "")
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
