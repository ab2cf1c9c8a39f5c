package listener

import (
	"net"
	"net/netip"
)

// Loopback reports whether the address listen, host:port, can be reached only from this
// machine.
func Loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}
