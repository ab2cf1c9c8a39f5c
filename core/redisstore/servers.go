package redisstore

import (
	"context"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"
)

// nodeOf returns the client of the one server that holds key. Waiting counts
// the writes of its own connection only, so both must go to one server in one
// pipeline.
func nodeOf(ctx context.Context, client redis.UniversalClient, key string) (redis.UniversalClient, error) {
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		return client, nil
	}
	return cluster.MasterForKey(ctx, key)
}

// byServer runs do for the calls of each server at the same time, with their
// positions in calls, and returns when all have returned. The client library
// would send them in one pipeline, too, but then a server that does not answer
// spoils what the others have answered.
func (s *Store) byServer(ctx context.Context, client redis.UniversalClient, calls []call, do func(at []int, part []call)) {
	var nodes []redis.UniversalClient
	var places [][]int
	for at, c := range calls {
		node, err := nodeOf(ctx, client, c.key())
		if err != nil {
			c.SetErr(err)
			continue
		}
		n := slices.Index(nodes, node)
		if n < 0 {
			n = len(nodes)
			nodes, places = append(nodes, node), append(places, nil)
		}
		places[n] = append(places[n], at)
	}
	var running sync.WaitGroup
	for _, at := range places {
		part := make([]call, len(at))
		for n, place := range at {
			part[n] = calls[place]
		}
		if len(places) == 1 {
			do(at, part)
			return
		}
		running.Go(func() { do(at, part) })
	}
	running.Wait()
}

// runByServer is run with a pipeline of its own for each server.
func (s *Store) runByServer(ctx context.Context, client redis.UniversalClient, calls ...call) {
	s.byServer(ctx, client, calls, func(_ []int, part []call) { s.run(ctx, client, part...) })
}
