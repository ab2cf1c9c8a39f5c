//go:build unix

package amqpdelay_test

import (
	"os"
	"testing"

	"github.com/delaybridge/delaybridge/integration/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m).Run()) }
