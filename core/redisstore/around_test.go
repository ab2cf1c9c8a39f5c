package redisstore

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// around is a hook that runs commands in the way that a test wants. A pipeline of
// scripts goes by the sha of its first, a command on its own by its name.
type around func(name string, run func() error) error

func (a around) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a around) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return a(cmd.Name(), func() error { return next(ctx, cmd) })
	}
}

func (a around) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		sha, _ := cmds[0].Args()[1].(string)
		return a(sha, func() error { return next(ctx, cmds) })
	}
}
