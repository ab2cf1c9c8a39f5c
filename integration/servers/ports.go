//go:build unix

package servers

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports are handed out from blocks below the range that the kernel uses for
// outgoing connections, so that a stopped server finds its port free when it is
// started again. A block is claimed among processes by listening on its first
// port, which also frees it when the process dies.
const (
	firstBlock = 20000
	blockSize  = 100
	blocks     = 120
)

// ports is per process, as what it holds is.
var ports portBlock

type portBlock struct {
	mu       sync.Mutex
	reserved []net.Listener // kept so that they stay open
	next     int
	end      int
}

// take returns the first of n successive free ports.
func (b *portBlock) take(n int) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range blocks {
		for b.next+n <= b.end {
			first := b.next
			if free(first, n) {
				b.next += n
				return first, nil
			}
			b.next++
		}
		if err := b.reserve(); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("no %d successive free ports", n)
}

// reserve moves on to a block that no other process has.
func (b *portBlock) reserve() error {
	offset := rand.IntN(blocks)
	for i := range blocks {
		base := firstBlock + (offset+i)%blocks*blockSize
		reserve, err := net.Listen("tcp", loopback(base))
		if err != nil {
			continue
		}
		b.reserved = append(b.reserved, reserve)
		b.next, b.end = base+1, base+blockSize
		return nil
	}
	return fmt.Errorf("all %d blocks of ports from %d on are taken", blocks, firstBlock)
}

func free(first, n int) bool {
	for port := first; port < first+n; port++ {
		l, err := net.Listen("tcp", loopback(port))
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}

// freePorts returns the first of n successive free ports, or ends the test.
func freePorts(t TB, n int) int {
	t.Helper()
	first, err := ports.take(n)
	if err != nil {
		t.Fatalf("find a port: %v", err)
	}
	return first
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}
