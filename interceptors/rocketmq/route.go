package rocketmqsource

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
)

// place is one queue of a topic.
type place struct {
	topic  string // as the settings have it, without the namespace
	broker string // by name
	number int
}

func comparePlaces(a, b place) int {
	return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.broker, b.broker), cmp.Compare(a.number, b.number))
}

// route is what the name servers say of a topic.
type route struct {
	BrokerDatas []struct {
		BrokerName  string            `json:"brokerName"`
		BrokerAddrs map[string]string `json:"brokerAddrs"` // by ID, 0 is the master's
	} `json:"brokerDatas"`
	QueueDatas []struct {
		BrokerName     string `json:"brokerName"`
		ReadQueueNums  int    `json:"readQueueNums"`
		WriteQueueNums int    `json:"writeQueueNums"`
		Perm           int    `json:"perm"`
	} `json:"queueDatas"`
}

const (
	mayRead   = 4
	mayWrite  = 2
	maxQueues = 1 << 16 // of a topic on one broker
)

// bareKey finds the IDs of brokers, which come without the quotes that JSON
// asks for.
var bareKey = regexp.MustCompile(`([{,]\s*)(\d+)\s*:`)

// route asks the name servers, one after the other, and notes where the brokers
// are.
func (c *cluster) route(ctx context.Context, topic string) (*route, error) {
	q := request{code: requestRoute, fields: map[string]string{"topic": c.settings.onWire(topic)}}
	var failed error
	for _, address := range c.settings.nameServers {
		r, err := c.ask(ctx, address, q, 0)
		if err == nil && r.Code != codeOK {
			err = r.refused()
		}
		if err == nil {
			return c.decodeRoute(r.body)
		}
		if failed != nil {
			err = fmt.Errorf("%w; %w", failed, err)
		}
		failed = err
	}
	return nil, fmt.Errorf("look up topic %s: %w", topic, failed)
}

func (c *cluster) decodeRoute(body []byte) (*route, error) {
	var found route
	if err := json.Unmarshal(bareKey.ReplaceAll(body, []byte(`$1"$2":`)), &found); err != nil {
		return nil, fmt.Errorf("decode a route: %w", err)
	}
	c.brokersMu.Lock()
	defer c.brokersMu.Unlock()
	for _, broker := range found.BrokerDatas {
		if address := firstAddress(broker.BrokerAddrs); address != "" {
			c.brokers[broker.BrokerName] = address
		}
	}
	return &found, nil
}

// firstAddress is the master's, or while it is unreachable that of the first slave.
func firstAddress(addresses map[string]string) (address string) {
	lowest := -1
	for text, candidate := range addresses {
		if id, err := strconv.Atoi(text); err == nil && (lowest < 0 || id < lowest) {
			lowest, address = id, candidate
		}
	}
	return address
}

// queues returns those that have the permission, in the order in which all
// members of a group have them.
func (r *route) queues(topic string, permission int) (found []place) {
	for _, data := range r.QueueDatas {
		count := data.ReadQueueNums
		if permission == mayWrite {
			count = data.WriteQueueNums
		}
		if data.Perm&permission == 0 {
			continue
		}
		for number := range min(count, maxQueues) {
			found = append(found, place{topic: topic, broker: data.BrokerName, number: number})
		}
	}
	slices.SortFunc(found, comparePlaces)
	return found
}
