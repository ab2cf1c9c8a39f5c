package rocketmq

import (
	"errors"
	"testing"

	"github.com/delaybridge/delaybridge/core"
)

func TestLoadTakesAddresses(t *testing.T) {
	for _, address := range []string{"10.0.0.1:9876", "[::1]:9876", "localhost:1", "a.b-c.example:65535"} {
		if _, err := (&ConnectionConfig{NameServers: []string{address}}).Load(); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestNamespace(t *testing.T) {
	c, err := (&ConnectionConfig{NameServers: []string{"a:1"}, Namespace: "ns"}).Load()
	if err != nil {
		t.Fatal(err)
	}
	if got := c.OnWire("orders"); got != "ns%orders" || c.Group != "delaybridge" {
		t.Errorf("topic %s, group %s", got, c.Group)
	}
	for topic, good := range map[string]bool{"orders": true, "": false, "a.b": false, "other%orders": false} {
		err := c.CheckTopic("topic", topic)
		if _, ok := errors.AsType[*core.InvalidError](err); ok == good {
			t.Errorf("%q: %v", topic, err)
		}
	}
}
