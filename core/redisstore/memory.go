package redisstore

import (
	"context"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Memory is what all masters of a Redis tell about their memory, in bytes.
type Memory struct {
	Used int64
	// Dataset is the part of Used that holds data: of every prefix, and of whoever else
	// uses this Redis.
	Dataset int64
	// Limit is the sum of maxmemory, and Free what is left until the fullest master has
	// reached its own, times the number of masters, as messages spread evenly. Both are
	// zero unless every master has a maxmemory.
	Limit, Free int64
}

// Memory asks every master about its memory, once.
func (s *Store) Memory(ctx context.Context) (Memory, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.timeout)
	defer cancel()
	var mu sync.Mutex
	var all []masterMemory
	err := eachMaster(ctx, s.client, func(ctx context.Context, c redis.Cmdable) error {
		info, err := c.Info(ctx, "memory").Result()
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, parseMemory(parseInfo(info)))
		return nil
	})
	if err != nil {
		return Memory{}, fault("query the memory of Redis", err)
	}
	return together(all), nil
}

// masterMemory is that of one master. uncounted is the part of used that does not count
// towards limit, such as buffers of replicas.
type masterMemory struct{ used, dataset, limit, uncounted int64 }

func parseMemory(info map[string]string) masterMemory {
	bytes := func(name string) int64 {
		n, _ := strconv.ParseInt(info[name], 10, 64) // what is not told is zero
		return n
	}
	return masterMemory{bytes("used_memory"), bytes("used_memory_dataset"), bytes("maxmemory"), bytes("mem_not_counted_for_evict")}
}

func together(all []masterMemory) Memory {
	var sum Memory
	limited, least := true, int64(-1)
	for _, m := range all {
		sum.Used, sum.Dataset, sum.Limit = sum.Used+m.used, sum.Dataset+m.dataset, sum.Limit+m.limit
		limited = limited && m.limit > 0
		if free := max(0, m.limit-m.used+m.uncounted); least < 0 || free < least {
			least = free
		}
	}
	if !limited {
		sum.Limit = 0
		return sum
	}
	sum.Free = max(0, least) * int64(len(all))
	return sum
}
