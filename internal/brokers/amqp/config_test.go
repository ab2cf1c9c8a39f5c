package amqp

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

func TestLoadFillsInDefaults(t *testing.T) {
	c, err := (&ConnectionConfig{URLs: []string{"amqp://u:p%40ss@one/", "amqps://two:5672/v%2Fhost"}}).Load()
	if err != nil {
		t.Fatal(err)
	}
	if c.DialTimeout != 3*time.Second || c.writeTimeout != 3*time.Second || c.heartbeat != 10*time.Second {
		t.Errorf("defaults: %+v", c)
	}
	one, two := c.nodes[0], c.nodes[1]
	if one.addr != "one:5672" || one.uri.Vhost != "/" || one.tls != nil || one.uri.Password != "p@ss" {
		t.Errorf("first node: %+v", one)
	}
	if two.addr != "two:5672" || two.uri.Vhost != "v/host" || two.tls == nil || two.tls.ServerName != "two" || two.uri.Username != "guest" {
		t.Errorf("second node: %+v", two)
	}
}

func TestLoadTakesWhatIsWritten(t *testing.T) {
	c, err := (&ConnectionConfig{URLs: []string{"amqp://one"}, DialTimeout: "5s", WriteTimeout: "6s", Heartbeat: "1m"}).Load()
	if err != nil {
		t.Fatal(err)
	}
	if c.DialTimeout != 5*time.Second || c.writeTimeout != 6*time.Second || c.heartbeat != time.Minute {
		t.Errorf("settings: %+v", c)
	}
}

func TestCheckShort(t *testing.T) {
	for _, test := range []struct {
		text         string
		good, tooBig bool
	}{
		{"", true, false},
		{strings.Repeat("x", 255), true, false},
		{strings.Repeat("x", 256), false, true},
		{"a\x00", false, false},
		{"a\xff", false, false},
	} {
		err := CheckShort("field", test.text)
		invalid, ok := errors.AsType[*core.InvalidError](err)
		if (err == nil) != test.good || ok && (invalid.TooLarge != test.tooBig || invalid.Field != "field") {
			t.Errorf("%.5q of %d bytes: %v", test.text, len(test.text), err)
		}
	}
}
