package redisstore

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// LogClient redirects the log of the Redis client library to log, at level debug; its
// faults are also returned as errors. The library has one logger for the whole process:
// call LogClient once, before Open.
func LogClient(log *slog.Logger) { redis.SetLogger(clientLog{log}) }

type clientLog struct{ log *slog.Logger }

// Printf is what the library calls.
func (c clientLog) Printf(ctx context.Context, format string, args ...any) {
	c.log.DebugContext(ctx, "redis client: "+fmt.Sprintf(format, args...))
}

// warn logs what did not work. One Redis that is unreachable concerns every bucket
// of every sink: of each text the log has a few lines a second from all of them.
func (v *sinkServer) warn(text, where string, more ...any) {
	if v.summary.First(v.config.Log, text, "", where) {
		v.log.Warn(text, more...)
	}
}

// warnOf is warn for trouble with one bucket.
func (v *sinkServer) warnOf(bucket int, text string, err error) {
	v.warn(text, fmt.Sprintf("%s:%02d", v.sink, bucket), "bucket", bucket, "err", err)
}
