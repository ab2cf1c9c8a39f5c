package rocketmq

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/delaybridge/delaybridge/internal/brokers/rocketmq"
)

// What goes past the client library is signed, too: routes, the list of brokers, and
// signs of life.
func TestRequestsAreSigned(t *testing.T) {
	var mu sync.Mutex
	asked := map[int]map[string]string{}
	var address string
	s := serve(t, "127.0.0.1:0", func(conn net.Conn, request rocketmq.Command) bool {
		mu.Lock()
		defer mu.Unlock()
		asked[request.Code] = request.Fields
		reply(conn, request, rocketmq.CodeOK, "", []byte(`{"brokerAddrTable":{"b":{"brokerAddrs":{0:"`+address+`"}}}}`))
		return true
	})
	mu.Lock()
	address = s.address()
	mu.Unlock()
	sink := openSink(t, json.RawMessage(fmt.Sprintf(`{"name_servers":[%q],"access_key":"user","secret_key":"secret","security_token":"t"}`, s.address())))
	defer sink.Close()
	if _, err := sink.settings.cluster.Route(t.Context(), "T", sink.askNameServer); err != nil {
		t.Error(err)
	}
	if err := sink.Health(t.Context()); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for code, text := range map[int]string{rocketmq.RequestRoute: "usertT", rocketmq.RequestBrokers: "usert",
		rocketmq.RequestHeartbeat: `usert{"clientID":"delaybridge-health","consumerDataSet":[],"producerDataSet":[]}`} {
		mac := hmac.New(sha1.New, []byte("secret"))
		mac.Write([]byte(text))
		if got, want := asked[code]["Signature"], base64.StdEncoding.EncodeToString(mac.Sum(nil)); got != want || asked[code]["AccessKey"] != "user" {
			t.Errorf("request %d has %q, want the signature %s", code, asked[code], want)
		}
	}
}
