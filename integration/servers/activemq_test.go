//go:build unix

package servers_test

import (
	"strings"
	"testing"

	"github.com/go-stomp/stomp/v3"

	"github.com/delaybridge/delaybridge/integration/servers"
)

func TestActiveMQ(t *testing.T) {
	t.Parallel()
	server := servers.ActiveMQ(t, servers.ActiveMQOptions{TLS: true, Users: []servers.ActiveMQUser{
		{Name: "all", Password: "a<b", Uses: []string{">"}, Makes: []string{">"}},
		{Name: "few", Password: "secret", Uses: []string{"some.>", "fixed"}, Makes: []string{"some.>"}},
	}})
	send := func(user, password, queue string) error {
		conn, err := stomp.Dial("tcp", server.Addr(), stomp.ConnOpt.Login(user, password))
		if err != nil {
			return err
		}
		defer conn.Disconnect()
		return conn.Send(queue, "", []byte("body"), stomp.SendOpt.Receipt, stomp.SendOpt.Header("persistent", "true"))
	}
	for _, test := range []struct{ user, password, queue, refusal string }{
		{"all", "a<b", "/queue/kept", ""},
		{"few", "secret", "/queue/some.one", ""},
		{"few", "wrong", "/queue/some.one", "password is invalid"},
		{"few", "secret", "/queue/kept", "not authorized to write"},
		{"few", "secret", "/queue/fixed", "not authorized to create"},
	} {
		err := send(test.user, test.password, test.queue)
		if (err == nil) != (test.refusal == "") || err != nil && !strings.Contains(err.Error(), test.refusal) {
			t.Errorf("%s to %s: %v, want %q", test.user, test.queue, err, test.refusal)
		}
	}
	server.Kill()
	server.Start()
	conn, err := stomp.Dial("tcp", server.Addr(), stomp.ConnOpt.Login("all", "a<b"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Disconnect()
	kept, err := conn.Subscribe("/queue/kept", stomp.AckAuto)
	if err != nil {
		t.Fatal(err)
	}
	if m := <-kept.C; m.Err != nil || string(m.Body) != "body" {
		t.Errorf("after kill and start: %q, %v", m.Body, m.Err)
	}
}
