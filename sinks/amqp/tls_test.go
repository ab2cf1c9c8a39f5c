package amqp

import (
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
)

func TestTLS(t *testing.T) {
	r := sharedRabbit(t)
	until := time.Now().Add(time.Hour)
	ca, brokerKey := servers.Certificate(t, until)
	cert, key := servers.Certificate(t, until)
	strangerCert, strangerKey := servers.Certificate(t, until)
	url := "amqps://guest:guest@" + servers.TLSFront(t, r.Addr(), ca, brokerKey, cert) + "/"
	queue := r.queue(t, nil)
	settings := func(ca, cert, key, name string) map[string]any {
		return map[string]any{"tls": map[string]any{"ca": ca, "cert": cert, "key": key, "server_name": name}}
	}
	tests := []struct {
		name   string
		config map[string]any
		url    string
		want   core.Class // negative: success
	}{
		{"all in order", settings(ca, cert, key, "broker.test"), url, -1},
		{"unknown authority", settings(strangerCert, cert, key, "broker.test"), url, core.Blocked},
		{"another name", settings(ca, cert, key, "other.test"), url, core.Blocked},
		{"a stranger's certificate", settings(ca, strangerCert, strangerKey, "broker.test"), url, core.Blocked},
		{"broker without TLS", settings(ca, cert, key, "broker.test"), "amqps://" + r.Addr() + "/", core.Blocked},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := openTest(t, tt.config, tt.url)
			closeAtEnd(t, s)
			results, _ := deliver(t, s, 10*time.Second, message(queue, "secret"))
			checkClass(t, results[0], tt.want)
		})
	}
}
