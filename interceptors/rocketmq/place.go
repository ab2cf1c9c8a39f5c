package rocketmqsource

import (
	"cmp"
	"slices"

	"github.com/delaybridge/delaybridge/internal/brokers/rocketmq"
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

const maxQueues = 1 << 16 // of a topic on one broker

// queuesOf returns the queues of a topic that have the permission, in the order in
// which all members of a group have them.
func queuesOf(r *rocketmq.Route, topic string, permission int) (found []place) {
	for _, data := range r.Queues {
		count := data.Read
		if permission == rocketmq.PermWrite {
			count = data.Write
		}
		if data.Perm&permission == 0 {
			continue
		}
		for number := range min(count, maxQueues) {
			found = append(found, place{topic: topic, broker: data.Broker, number: number})
		}
	}
	slices.SortFunc(found, comparePlaces)
	return found
}
