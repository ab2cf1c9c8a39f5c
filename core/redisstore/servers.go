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

// part is the calls of one server, with their positions among all.
type part struct {
	node  redis.UniversalClient // nil: it could not be found out, and the calls have an error
	at    []int
	calls []call
}

// byServer runs do for the calls of each server at the same time, and returns when
// all have returned. The client library would send them in one pipeline, too, but
// then a server that does not answer spoils what the others have answered.
func byServer(ctx context.Context, client redis.UniversalClient, calls []call, do func(*part)) {
	var parts []*part
	for at, c := range calls {
		node, err := nodeOf(ctx, client, c.key())
		if err != nil {
			c.SetErr(err)
			node = nil
		}
		n := slices.IndexFunc(parts, func(p *part) bool { return p.node == node })
		if n < 0 {
			n, parts = len(parts), append(parts, &part{node: node})
		}
		parts[n].at, parts[n].calls = append(parts[n].at, at), append(parts[n].calls, c)
	}
	if len(parts) == 1 {
		do(parts[0])
		return
	}
	var running sync.WaitGroup
	for _, p := range parts {
		running.Go(func() { do(p) })
	}
	running.Wait()
}
