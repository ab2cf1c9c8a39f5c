package tlsfiles

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

func TestExpiry(t *testing.T) {
	for left, want := range map[time.Duration]string{-time.Hour: core.FindingProblem, 24 * time.Hour: core.FindingWarning, 30 * 24 * time.Hour: core.FindingOK} {
		f := Expiry("here", &x509.Certificate{NotAfter: time.Now().Add(left)})
		if f.Level != want || f.About != "here" || (f.Fix == "") != (want == core.FindingOK) {
			t.Errorf("%s left: %+v", left, f)
		}
	}
}
