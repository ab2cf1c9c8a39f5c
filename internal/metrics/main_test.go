package metrics

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/delaybridge/delaybridge/integration/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(servers.Main(m)) }
