package rocketmq

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// diagnoseTimeout bounds each question of a diagnosis.
const diagnoseTimeout = 2 * time.Second

// Diagnose asks each name server for the brokers, each broker whether it answers, and the
// name servers for topics, which have no namespace yet; see core.Diagnoser. It checks the
// login if the broker does so with heartbeats, and no rights.
func (c *Cluster) Diagnose(ctx context.Context, topics []string) []core.Finding {
	ask := func(ctx context.Context, address string, request Command) (*Command, error) {
		ctx, cancel := context.WithTimeout(ctx, diagnoseTimeout)
		defer cancel()
		return c.AskOnce(ctx, address, request)
	}
	var mu sync.Mutex
	live, masters := Cluster{Namespace: c.Namespace}, make(map[string]string)
	found := core.Findings(len(c.NameServers), func(i int) []core.Finding {
		one := *c
		one.NameServers = c.NameServers[i : i+1]
		some, err := one.Masters(ctx, ask)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			live.NameServers = append(live.NameServers, one.NameServers...)
		}
		if err == nil && len(some) == 0 {
			err = errors.New("no broker is registered")
		}
		maps.Copy(masters, some)
		return finding("name server "+one.NameServers[0], err, fmt.Sprintf("knows %d brokers", len(some)), "start it, or its brokers, or correct name_servers")
	})
	names := slices.Sorted(maps.Keys(masters))
	found = append(found, core.Findings(len(names), func(i int) []core.Finding {
		address := masters[names[i]]
		r, err := ask(ctx, address, Heartbeat())
		if err == nil && r.Code == CodeNoPermission {
			err = r.Err()
		}
		return finding("broker "+names[i]+" at "+address, err, "answers", "start it, or correct access_key and secret_key, or the address that it registers (brokerIP1)")
	})...)
	if len(live.NameServers) == 0 {
		return found
	}
	return append(found, core.Findings(len(topics), func(i int) []core.Finding {
		route, err := live.Route(ctx, c.OnWire(topics[i]), ask)
		text := ""
		if err == nil {
			text = fmt.Sprintf("on %d brokers", len(route.Queues))
		}
		return finding("topic "+topics[i], err, text, "create it (mqadmin updateTopic), or correct its name")
	})...)
}

func finding(about string, err error, text, fix string) []core.Finding {
	if err != nil {
		return []core.Finding{{Level: core.FindingProblem, About: about, Text: err.Error(), Fix: fix}}
	}
	return []core.Finding{{Level: core.FindingOK, About: about, Text: text}}
}

// Heartbeat returns a request of a client that consumes and produces nothing, which any
// broker answers, be it with a refusal.
func Heartbeat() Command {
	return Command{Code: RequestHeartbeat, Body: []byte(`{"clientID":"delaybridge-health","consumerDataSet":[],"producerDataSet":[]}`)}
}
