package rocketmqsource

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/delaybridge/delaybridge/integration/servers"
)

// No goroutine of this package stays. What is excepted is of the sink that the
// round trip uses: its client library has one from the start of the process, and
// some that look for their end every ten seconds.
func TestMain(m *testing.M) {
	const start = "github.com/apache/rocketmq-client-go/v2/internal.(*rmqClient).Start."
	leaks := []goleak.Option{goleak.IgnoreAnyFunction("github.com/patrickmn/go-cache.(*janitor).Run")}
	for _, name := range []string{"func1.1", "func1.2", "func1.3", "func1.4", "func1.5"} {
		leaks = append(leaks, goleak.IgnoreAnyFunction(start+name))
	}
	goleak.VerifyTestMain(servers.Main(m), leaks...)
}
