package rocketmq

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Brokers' IDs have no quotes in the real answer.
func TestMastersReadsWhatIsNotQuiteJSON(t *testing.T) {
	tests := map[string]struct {
		body string
		want map[string]string
	}{
		"bare":      {`{"brokerAddrTable":{"b-1":{"brokerAddrs":{0:"h:1",1:"h:2"},"brokerName":"b-1","cluster":"c"}},"clusterAddrTable":{"c":["b-1"]}}`, map[string]string{"b-1": "h:1"}},
		"quoted":    {`{"brokerAddrTable":{"b":{"brokerAddrs":{"0":"h:10911"},"enableActingMaster":false}}}`, map[string]string{"b": "h:10911"}},
		"no master": {`{"brokerAddrTable":{"b":{"brokerAddrs":{2:"h:1"}}}}`, map[string]string{}},
		"none":      {`{"brokerAddrTable":{},"clusterAddrTable":{}}`, map[string]string{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := serve(t, "127.0.0.1:0", func(conn net.Conn, request command) bool {
				reply(conn, request, codeSuccess, "", []byte(test.body))
				return true
			})
			got, err := nameServers{addresses: []string{s.address()}}.masters(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Frames that are broken, or larger than a reply may be, are errors and cost no memory.
func TestReadCommandRefuses(t *testing.T) {
	tests := map[string]string{
		"nothing":           "",
		"cut in the length": "\x00\x00",
		"too short":         "\x00\x00\x00\x03\x00\x00\x00\x00",
		"too large":         "\x7f\xff\xff\xff\x00\x00\x00\x02{}",
		"header too long":   "\x00\x00\x00\x06\x00\x00\x00\x03{}x",
		"another encoding":  "\x00\x00\x00\x06\x01\x00\x00\x02{}",
		"no JSON":           "\x00\x00\x00\x06\x00\x00\x00\x02{x",
		"cut in the body":   "\x00\x00\x00\x08\x00\x00\x00\x02{}x",
	}
	for name, frame := range tests {
		if c, err := readCommand(strings.NewReader(frame)); err == nil {
			t.Errorf("%s: read %+v", name, c)
		}
	}
}

func TestNameServersAskTheNext(t *testing.T) {
	c := newCluster(t, "a")
	gone := serve(t, "127.0.0.1:0", nil)
	gone.stop()
	known, err := nameServers{addresses: []string{gone.address(), c.names.address()}}.hasRoute(t.Context(), "T")
	if err != nil || !known {
		t.Errorf("got %v, %v", known, err)
	}
	_, err = nameServers{addresses: []string{gone.address()}}.hasRoute(t.Context(), "T")
	if _, ok := errors.AsType[*net.OpError](err); !ok {
		t.Errorf("got %v", err)
	}
}

// What goes past the client library is signed, too: routes, the list of brokers, and
// signs of life.
func TestRequestsAreSigned(t *testing.T) {
	var mu sync.Mutex
	asked := map[int]map[string]string{}
	var address string
	s := serve(t, "127.0.0.1:0", func(conn net.Conn, request command) bool {
		mu.Lock()
		defer mu.Unlock()
		asked[request.Code] = request.ExtFields
		reply(conn, request, codeSuccess, "", []byte(`{"brokerAddrTable":{"b":{"brokerAddrs":{0:"`+address+`"}}}}`))
		return true
	})
	mu.Lock()
	address = s.address()
	mu.Unlock()
	sink := newSink(Config{NameServers: []string{s.address()}, AccessKey: "user", SecretKey: "secret", SecurityToken: "t"}.withDefaults())
	defer sink.Close()
	if _, err := sink.nameServers.hasRoute(t.Context(), "T"); err != nil {
		t.Error(err)
	}
	if err := sink.Health(t.Context()); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for code, text := range map[int]string{requestRoute: "usertT", requestCluster: "usert",
		requestHeartbeat: `usert{"clientID":"delaybridge-health","consumerDataSet":[],"producerDataSet":[]}`} {
		mac := hmac.New(sha1.New, []byte("secret"))
		mac.Write([]byte(text))
		if got, want := asked[code]["Signature"], base64.StdEncoding.EncodeToString(mac.Sum(nil)); got != want || asked[code]["AccessKey"] != "user" {
			t.Errorf("request %d has %q, want the signature %s", code, asked[code], want)
		}
	}
}

func TestClientLogGoesToSlog(t *testing.T) {
	var out bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	defer slog.SetDefault(before)
	log := clientLog{}
	log.Info("noise", nil)
	log.Warning("noise", nil)
	log.Error("trouble", map[string]any{"z": errors.New("one\ntwo"), "a": 1})
	log.Fatal("the end", nil) // is not
	got := out.String()
	if strings.Contains(got, "noise") || strings.Count(got, "\n") != 2 || !strings.Contains(got, `a=1 z="one\ntwo"`) {
		t.Errorf("logged:\n%s", got)
	}
}
