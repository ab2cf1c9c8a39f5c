package rocketmq

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

// quietClient sets what the client library has one of for the whole process:
// its logger and what it does when one of its goroutines panics. It is done
// once, before the first producer, as the library reads both without a lock.
var quietClient = sync.OnceFunc(func() {
	rlog.SetLogger(clientLog{})
	primitive.PanicHandler = func(p any) {
		slog.Error("rocketmq client panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	}
})

// clientLog passes on what the client library logs to slog's default logger.
// What matters comes back to us as an error as well, so nothing but the
// library's errors is above level debug.
type clientLog struct{}

func (clientLog) Debug(msg string, fields map[string]any)   { logClient(slog.LevelDebug, msg, fields) }
func (clientLog) Info(msg string, fields map[string]any)    { logClient(slog.LevelDebug, msg, fields) }
func (clientLog) Warning(msg string, fields map[string]any) { logClient(slog.LevelDebug, msg, fields) }
func (clientLog) Error(msg string, fields map[string]any)   { logClient(slog.LevelWarn, msg, fields) }

// Fatal does not end the process, as the library's own logger would.
func (clientLog) Fatal(msg string, fields map[string]any) { logClient(slog.LevelError, msg, fields) }

func (clientLog) Level(string)            {}
func (clientLog) OutputPath(string) error { return nil }

func logClient(level slog.Level, msg string, fields map[string]any) {
	logger := slog.Default()
	if !logger.Enabled(context.Background(), level) {
		return
	}
	attributes := make([]slog.Attr, 0, len(fields))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		attributes = append(attributes, slog.String(name, fmt.Sprint(fields[name])))
	}
	logger.LogAttrs(context.Background(), level, "rocketmq client: "+msg, attributes...)
}
