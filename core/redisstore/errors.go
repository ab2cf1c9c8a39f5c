package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/core"
)

var errReply = errors.New("unexpected reply of a script")

// The error replies after which nothing was changed, by their first word. OOM
// and MISCONF come before a script's first write, as every script that adds
// writes last.
var (
	fullReplies    = []string{"OOM", "MISCONF"}
	refusedReplies = []string{"NOSCRIPT", "LATE", "LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN",
		"MOVED", "ASK", "NOREPLICAS", "BUSY", "NOAUTH", "WRONGPASS", "NOPERM", "CROSSSLOT", "ERR max number of clients"}
)

// fault gives an error of the client library its class: nothing was changed
// (core.ErrUnavailable, core.ErrFull), or nobody knows (core.ErrUnknown).
func fault(verb string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w: %w", verb, faultClass(err), err)
}

func faultClass(err error) error {
	text := err.Error()
	if reply, ok := errors.AsType[redis.Error](err); ok {
		text = scriptCode(reply.Error())
	}
	switch {
	case hasPrefix(text, fullReplies):
		return core.ErrFull
	case hasPrefix(text, refusedReplies), notSent(err):
		return core.ErrUnavailable
	}
	return core.ErrUnknown
}

// scriptCode is the code inside of the error reply of a script that Redis 6.2
// refused a command, as "OOM", else the reply itself, which begins with its code.
// It counts only where the server puts it: what follows may be of a producer.
func scriptCode(reply string) string {
	var function, code string
	var line int
	n, _ := fmt.Sscanf(reply, "ERR Error running script (call to %s @user_script:%d: @user_script: %d: -%s", &function, &line, &line, &code)
	if n < 4 {
		return reply
	}
	return code
}

func hasPrefix(text string, prefixes []string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return false
}

// notSent reports whether the request never left: no connection could be had.
func notSent(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return true
	}
	return errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) || errors.Is(err, redis.ErrClosed)
}

// unlessDone is ctx's error as a fault if it has ended.
func unlessDone(ctx context.Context, verb string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w: %w", verb, core.ErrUnavailable, err)
	}
	return nil
}
