package rocketmq

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
)

// AskFunc asks one server, within a time that it knows.
type AskFunc func(ctx context.Context, address string, request Command) (*Command, error)

// Route is what the name servers say of a topic.
type Route struct {
	Brokers []struct {
		Name      string            `json:"brokerName"`
		Addresses map[string]string `json:"brokerAddrs"` // by ID, 0 is the master's
	} `json:"brokerDatas"`
	Queues []QueueData `json:"queueDatas"`
}

// QueueData is what a broker has of a topic.
type QueueData struct {
	Broker string `json:"brokerName"`
	Read   int    `json:"readQueueNums"`
	Write  int    `json:"writeQueueNums"`
	Perm   int    `json:"perm"`
}

// What QueueData.Perm allows.
const (
	PermRead  = 4
	PermWrite = 2
)

// Route asks the name servers for the queues of a topic, by its name on the wire. If
// one of them does not know it, and none does, HasCode finds CodeNoTopic in the error.
func (c *Cluster) Route(ctx context.Context, topic string, ask AskFunc) (*Route, error) {
	var found Route
	request := Command{Code: RequestRoute, Fields: map[string]string{"topic": topic}}
	if err := c.askNameServers(ctx, request, ask, &found); err != nil {
		return nil, fmt.Errorf("look up topic %s: %w", topic, err)
	}
	return &found, nil
}

// Addresses are those of the brokers, by name: the master's, or while it is
// unreachable that of the first slave.
func (r *Route) Addresses() map[string]string {
	found := make(map[string]string, len(r.Brokers))
	for _, broker := range r.Brokers {
		lowest := -1
		for text, address := range broker.Addresses {
			if id, err := strconv.Atoi(text); err == nil && address != "" && (lowest < 0 || id < lowest) {
				lowest, found[broker.Name] = id, address
			}
		}
	}
	return found
}

const masterID = "0"

// Masters returns the addresses, by name, of the brokers that can be written to.
func (c *Cluster) Masters(ctx context.Context, ask AskFunc) (map[string]string, error) {
	var table struct {
		Brokers map[string]struct {
			Addresses map[string]string `json:"brokerAddrs"`
		} `json:"brokerAddrTable"`
	}
	if err := c.askNameServers(ctx, Command{Code: RequestBrokers}, ask, &table); err != nil {
		return nil, fmt.Errorf("list the brokers: %w", err)
	}
	found := map[string]string{}
	for name, broker := range table.Brokers {
		if address := broker.Addresses[masterID]; address != "" {
			found[name] = address
		}
	}
	return found, nil
}

// bareKey finds the IDs of brokers, which come without the quotes that JSON
// asks for.
var bareKey = regexp.MustCompile(`([{,]\s*)(\d+)\s*:`)

// askNameServers asks one after the other, until one gives what is asked for.
func (c *Cluster) askNameServers(ctx context.Context, request Command, ask AskFunc, into any) error {
	var failed error
	for _, address := range c.NameServers {
		r, err := ask(ctx, address, request)
		if err == nil {
			err = r.Err()
		}
		if err == nil {
			return json.Unmarshal(bareKey.ReplaceAll(r.Body, []byte(`$1"$2":`)), into)
		}
		if failed != nil {
			err = fmt.Errorf("%w; %w", failed, err)
		}
		failed = err
	}
	return failed
}
