// Package ports finds loopback ports for servers that tests and development tools start,
// stop and start again: a port stays free for its server while that is down.
package ports

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
)

const (
	// loopback is the address that the ports are of.
	loopback = "127.0.0.1"
	// lowest is the first port considered: below it are those that well-known services use.
	lowest = 10_000
	// highest is the last TCP port.
	highest = 65_535
	// fewest is how many ports below the kernel's own make choosing among them worth while.
	fewest = 1_000
	// attempts is how many ports are tried before there counts as none free.
	attempts = 1_000
	// kernelRange holds the first and the last port that Linux gives to outgoing connections
	// and to listeners on port 0.
	kernelRange = "/proc/sys/net/ipv4/ip_local_port_range"
)

// leases keeps what holds this process's ports from being closed before the process ends.
var leases struct {
	mu   sync.Mutex
	held []net.Listener
}

// Free returns a TCP port of 127.0.0.1 that nothing listens on. No other call gets it, in
// this process or another, until this process has ended, and the kernel does not give it to
// anybody else either: a server that is stopped finds it free again. (Only where the kernel
// keeps nearly all ports for outgoing connections may one of those take it.)
func Free() (int, error) {
	from, to := candidates()
	for range attempts {
		port := from + rand.IntN(to-from+1)
		if lease(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("finding a free port: none of %d tried between %d and %d", attempts, from, to)
}

// candidates are the first and the last port to choose from: those below the kernel's own,
// or all where it leaves too few.
func candidates() (from, to int) {
	text, err := os.ReadFile(kernelRange)
	if err != nil {
		return lowest, highest
	}
	var first int
	if _, err := fmt.Sscan(string(text), &first); err != nil || first < lowest+fewest {
		return lowest, highest
	}
	return lowest, first - 1
}

// lease takes a port for this process, unless another holds it or something listens there.
func lease(port int) bool {
	// A name in Linux's abstract namespace belongs to one process and goes with it, and is
	// seen by whoever shares its ports.
	held, err := net.Listen("unix", "@graphql-limit-count/port/"+strconv.Itoa(port))
	if err != nil {
		return false
	}
	probe, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
	if err == nil {
		err = probe.Close()
	}
	if err != nil {
		_ = held.Close() // nothing was sent over it
		return false
	}
	leases.mu.Lock()
	defer leases.mu.Unlock()
	leases.held = append(leases.held, held)
	return true
}
