package standstill

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := Watch()
		time.Sleep(time.Second)
		if stood := stop(); stood != 0 {
			t.Errorf("stood still for %s in virtual time, where nobody waits for a turn", stood)
		}
		if again := stop(); again != 0 {
			t.Errorf("then for %s", again)
		}
	})
}
