package rocketmq

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// answers is how name servers answer, by address. Those without an answer can't be reached.
type answers map[string]Command

var errUnreachable = errors.New("unreachable")

func (a answers) ask(_ context.Context, address string, _ Command) (*Command, error) {
	if answer, ok := a[address]; ok {
		return &answer, nil
	}
	return nil, errUnreachable
}

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
			c := Cluster{NameServers: []string{"n"}}
			got, err := c.Masters(t.Context(), answers{"n": {Body: []byte(test.body)}}.ask)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRoute(t *testing.T) {
	body := `{"brokerDatas":[{"brokerName":"a","brokerAddrs":{1:"a:2",0:"a:1"}},{"brokerName":"b","brokerAddrs":{2:"b:3",1:"b:2"}},{"brokerName":"c","brokerAddrs":{}}],` +
		`"queueDatas":[{"brokerName":"a","readQueueNums":4,"writeQueueNums":2,"perm":6}]}`
	c := Cluster{NameServers: []string{"n"}}
	route, err := c.Route(t.Context(), "T", answers{"n": {Body: []byte(body)}}.ask)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a": "a:1", "b": "b:2"}, route.Addresses()); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]QueueData{{Broker: "a", Read: 4, Write: 2, Perm: PermRead | PermWrite}}, route.Queues); diff != "" {
		t.Errorf("queues (-want +got):\n%s", diff)
	}
}

// TestNameServersAskTheNext: one that is unreachable, or knows less than the others, does
// not count.
func TestNameServersAskTheNext(t *testing.T) {
	known, missing := Command{Body: []byte("{}")}, Command{Code: CodeNoTopic}
	c := Cluster{NameServers: []string{"first", "second"}}
	for name, test := range map[string]struct {
		answers                    answers
		good, missing, unreachable bool
	}{
		"the first is unreachable":   {answers{"second": known}, true, false, false},
		"the first does not know it": {answers{"first": missing, "second": known}, true, false, false},
		"none knows it":              {answers{"first": missing, "second": missing}, false, true, false},
		"the other does not know it": {answers{"second": missing}, false, true, true},
		"none can be reached":        {nil, false, false, true},
	} {
		_, err := c.Route(t.Context(), "T", test.answers.ask)
		if (err == nil) != test.good || HasCode(err, CodeNoTopic) != test.missing || errors.Is(err, errUnreachable) != test.unreachable {
			t.Errorf("%s: %v", name, err)
		}
	}
}
