package auth

import (
	"net/netip"
	"sync"
	"time"
)

// A remote address may fail to authenticate FloodBurst times at once, and then
// FloodPerSecond times a second, before its failed attempts are refused as too many.
const (
	FloodBurst     = 20
	FloodPerSecond = 2
	floodRemotes   = 4096 // that are remembered
)

// Flood counts failed authentications by remote address. It does not limit requests
// with a valid token, because the remote may be a proxy of many producers. The zero
// value is ready to use.
type Flood struct {
	mu      sync.Mutex
	remotes map[netip.Prefix]allowance
}

// allowance is how many failures a remote had left at a time.
type allowance struct {
	left float64
	at   time.Time
}

func (a allowance) now(now time.Time) float64 {
	return min(FloodBurst, a.left+now.Sub(a.at).Seconds()*FloodPerSecond)
}

// Spend counts a failure of the remote address and reports whether it is within the
// limit. It is safe for concurrent use.
func (f *Flood) Spend(remote string, now time.Time) bool {
	network := networkOf(remote)
	f.mu.Lock()
	defer f.mu.Unlock()
	a, known := f.remotes[network]
	if !known {
		f.makeRoom(now)
		a = allowance{FloodBurst, now}
	}
	left := a.now(now)
	if left < 1 {
		return false
	}
	f.remotes[network] = allowance{left - 1, now}
	return true
}

// makeRoom keeps the memory bounded: first those go that have nothing against
// them any more, then any, and so many that this is rare.
func (f *Flood) makeRoom(now time.Time) {
	if f.remotes == nil {
		f.remotes = make(map[netip.Prefix]allowance)
	}
	if len(f.remotes) < floodRemotes {
		return
	}
	for network, a := range f.remotes {
		if a.now(now) >= FloodBurst {
			delete(f.remotes, network)
		}
	}
	for network := range f.remotes {
		if len(f.remotes) <= floodRemotes/2 {
			break
		}
		delete(f.remotes, network)
	}
}

// networkOf is what counts as one remote: an IPv4 address, or the /64 that one
// customer has in IPv6.
func networkOf(remote string) netip.Prefix {
	addrPort, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	addr := addrPort.Addr().Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	network, _ := addr.Prefix(bits) // fits the address
	return network
}
