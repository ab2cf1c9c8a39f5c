package metrics

import "sync"

// cache keeps what make makes for a key, so that the labels of a metric are looked up
// once. Keys are few: names from the configuration, and words of a fixed set.
type cache[K comparable, V any] struct {
	make func(K) V
	mu   sync.RWMutex
	all  map[K]V
}

func (c *cache[K, V]) get(key K) V {
	if v, ok := c.find(key); ok {
		return v
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = make(map[K]V)
	}
	if _, ok := c.all[key]; !ok {
		c.all[key] = c.make(key)
	}
	return c.all[key]
}

// clear has everything made again.
func (c *cache[K, V]) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.all)
}

func (c *cache[K, V]) find(key K) (V, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	v, ok := c.all[key]
	return v, ok
}
