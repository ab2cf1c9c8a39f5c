package rocketmq

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"time"
)

// nameServers are the addresses of the name servers of one cluster.
type nameServers struct {
	addresses []string
	login     login
}

// nameServerTimeout is how long one of several name servers may take.
const nameServerTimeout = time.Second

// ask returns the reply of the first name server that gives one.
func (n nameServers) ask(ctx context.Context, request command) (command, error) {
	var failed error
	for _, address := range n.addresses {
		one, cancel := context.WithTimeout(ctx, nameServerTimeout)
		reply, err := ask(one, address, n.login.sign(request))
		cancel()
		if err == nil {
			return reply, nil
		}
		failed = both(failed, err)
	}
	return command{}, fmt.Errorf("no name server answers: %w", failed)
}

// both joins errors in one line.
func both(first, second error) error {
	if first == nil {
		return second
	}
	return fmt.Errorf("%w; %w", first, second)
}

// hasRoute tells whether the cluster knows topic.
func (n nameServers) hasRoute(ctx context.Context, topic string) (bool, error) {
	reply, err := n.ask(ctx, command{Code: requestRoute, ExtFields: map[string]string{"topic": topic}})
	switch {
	case err != nil:
		return false, err
	case reply.Code == codeSuccess:
		return true, nil
	case reply.Code == codeNoSuchName:
		return false, nil
	}
	return false, fmt.Errorf("name server refused the route: CODE: %d, DESC: %s", reply.Code, reply.Remark)
}

// bareKey finds the IDs of brokers in the answer to requestCluster, which has
// them without the quotes that JSON asks for.
var bareKey = regexp.MustCompile(`([{,]\s*)(\d+)\s*:`)

const masterID = "0"

// masters returns the addresses, by name, of the brokers that can be written to.
func (n nameServers) masters(ctx context.Context) (map[string]string, error) {
	reply, err := n.ask(ctx, command{Code: requestCluster})
	if err != nil {
		return nil, err
	}
	if reply.Code != codeSuccess {
		return nil, fmt.Errorf("name server refused the list of brokers: CODE: %d, DESC: %s", reply.Code, reply.Remark)
	}
	var cluster struct {
		BrokerAddrTable map[string]struct {
			BrokerAddrs map[string]string `json:"brokerAddrs"`
		} `json:"brokerAddrTable"`
	}
	if err := json.Unmarshal(bareKey.ReplaceAll(reply.body, []byte(`$1"$2":`)), &cluster); err != nil {
		return nil, fmt.Errorf("decode the list of brokers: %w", err)
	}
	found := map[string]string{}
	for name, broker := range cluster.BrokerAddrTable {
		if address := broker.BrokerAddrs[masterID]; address != "" {
			found[name] = address
		}
	}
	return found, nil
}
