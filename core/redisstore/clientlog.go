package redisstore

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// LogClient sends what the Redis client library logs by itself to log, at level
// debug: each fault also reaches us as an error. The library has one logger for
// the whole process, so a program calls this once, before Open.
func LogClient(log *slog.Logger) { redis.SetLogger(clientLog{log}) }

type clientLog struct{ log *slog.Logger }

// Printf is what the library calls.
func (c clientLog) Printf(ctx context.Context, format string, args ...any) {
	c.log.DebugContext(ctx, "redis client: "+fmt.Sprintf(format, args...))
}
