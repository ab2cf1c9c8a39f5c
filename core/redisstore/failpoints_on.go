//go:build failpoints

package redisstore

import (
	"fmt"
	"os"
	"strings"
)

const (
	// envClock names a key of Redis with the milliseconds by which the scripts' clock
	// is ahead of Redis's. A real server's clock can't be made to jump; this one can.
	envClock = "DELAYBRIDGE_CLOCK_KEY"
	// envTestFormat, if not empty, has the store know the test format: the next version's.
	envTestFormat = "DELAYBRIDGE_TEST_FORMAT"
)

const readClock = `redis.call('TIME')`

// shiftClock has a script read the shifted clock, if there is one.
func shiftClock(source string) string {
	key := os.Getenv(envClock)
	if key == "" {
		return source
	}
	return strings.ReplaceAll(source, readClock, fmt.Sprintf(`(function()
  local t = %s
  local us = t[1] * 1000000 + t[2] + 1000 * (redis.call('GET', %q) or 0)
  return {math.floor(us / 1000000), us %% 1000000}
end)()`, readClock, key))
}

func newestFormat() int {
	if os.Getenv(envTestFormat) != "" {
		return testFormat
	}
	return recordFormat
}
