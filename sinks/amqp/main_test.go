package amqp

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/delaybridge/delaybridge/integration/servers"
	"github.com/delaybridge/delaybridge/sinks/plugin/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(plugintest.Main(servers.Main(m), asPlugin())) }
