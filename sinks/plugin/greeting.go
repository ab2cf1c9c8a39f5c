package plugin

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	goplugin "github.com/hashicorp/go-plugin"

	"github.com/delaybridge/delaybridge/core"
)

// badGreeting is a fault of the plugin's first line: trying again won't help.
type badGreeting struct{ reason string }

func (e *badGreeting) Error() string { return e.reason }

func badGreetingf(format string, args ...any) error {
	return &badGreeting{fmt.Sprintf(format, args...)}
}

// errNoGreeting: the program ended, or closed its stdout, before it said where it listens.
var errNoGreeting = errors.New("the program ended, or closed its stdout, before it printed its address")

// checkHandshake checks the line by which a plugin says where it listens,
//
//	core version | protocol version | network | address | grpc | certificate
//
// so that what is wrong is said in our words, before the library acts on it.
func checkHandshake(line string, err error, mtls bool) error {
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return badGreetingf("the first line on stdout is longer than %d bytes: it must be the plugin's address", maxHandshake)
	case errors.Is(err, io.EOF) && line == "", errors.Is(err, os.ErrDeadlineExceeded):
		return errNoGreeting
	case err != nil && !errors.Is(err, io.EOF):
		return fmt.Errorf("read stdout: %w", err)
	}
	parts := strings.Split(strings.TrimSpace(line), "|")
	if len(parts) < 4 {
		return badGreetingf("the first line on stdout is not the plugin's address: %q", core.Shorten(strings.TrimSpace(line), 100))
	}
	if parts[0] != strconv.Itoa(goplugin.CoreProtocolVersion) {
		return badGreetingf("the plugin has version %q of the handshake, delaybridge has %d", core.Shorten(parts[0], 20), goplugin.CoreProtocolVersion)
	}
	if n, err := strconv.Atoi(parts[1]); err != nil || versions(nil)[n] == nil {
		return badGreetingf("the plugin has version %q of the protocol, delaybridge has %d: use a matching release of the plugin or of delaybridge", core.Shorten(parts[1], 20), protocolVersion)
	}
	if err := checkAddress(parts[2], parts[3]); err != nil {
		return badGreetingf("%v", err)
	}
	if len(parts) < 5 || parts[4] != string(goplugin.ProtocolGRPC) {
		return badGreetingf("the plugin does not serve grpc, the fifth part of its first line on stdout")
	}
	certificate := len(parts) > 5 && parts[5] != ""
	switch {
	case mtls && !certificate:
		return core.Invalidf("mtls", "is true (the default), but the plugin sent no certificate: set mtls: false for a plugin without mTLS")
	case !mtls && certificate:
		return core.Invalidf("mtls", "is false, but the plugin requires TLS: set mtls: true")
	}
	return nil
}
