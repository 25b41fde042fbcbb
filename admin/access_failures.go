package admin

import (
	queue "container/list"
	"net/netip"
	"sync"
	"time"
)

const (
	// freeFailures is how many wrong keys a client may send before its refusals are slow:
	// people mistype.
	freeFailures = 3
	// firstDelay is how long the first slow refusal takes; it doubles with each, up to
	// maxDelay.
	firstDelay = 250 * time.Millisecond
	maxDelay   = 2 * time.Second
	// forgetAfter is how long after its last wrong key a client is as any other.
	forgetAfter = time.Minute
	// maxClients is how many clients are remembered; those whose last wrong key is longest
	// ago are forgotten first.
	maxClients = 1024
	// networkBits is how much of an IPv6 address tells clients apart: one of them has the
	// rest to itself.
	networkBits = 64
)

// failures remembers which clients have sent wrong keys.
type failures struct {
	now func() time.Time

	mu      sync.Mutex
	clients map[netip.Prefix]*queue.Element // of *guesser
	order   *queue.List                     // longest ago first
}

// guesser is a client that has sent wrong keys.
type guesser struct {
	client netip.Prefix
	count  int
	last   time.Time
}

func newFailures(now func() time.Time) *failures {
	return &failures{now: now, clients: map[netip.Prefix]*queue.Element{}, order: queue.New()}
}

// note remembers a wrong key and returns for how long its refusal is held back.
func (f *failures) note(client netip.Prefix) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	element := f.clients[client]
	if element == nil {
		if f.order.Len() >= maxClients {
			delete(f.clients, f.order.Remove(f.order.Front()).(*guesser).client)
		}
		element = f.order.PushBack(&guesser{client: client})
		f.clients[client] = element
	}
	f.order.MoveToBack(element)
	of := element.Value.(*guesser)
	if now.Sub(of.last) >= forgetAfter {
		of.count = 0
	}
	of.count++
	of.last = now
	return delayOf(of.count)
}

// delayOf is the delay of a client's n-th wrong key.
func delayOf(n int) time.Duration {
	delay := firstDelay
	if n <= freeFailures {
		return 0
	}
	for range n - freeFailures - 1 {
		if delay *= 2; delay >= maxDelay {
			return maxDelay
		}
	}
	return delay
}

// clientOf is the client of a remote address: an IPv4 address, or an IPv6 network. What is
// no address is one client.
func clientOf(remote string) netip.Prefix {
	port, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	address := port.Addr().Unmap().WithZone("")
	bits := address.BitLen()
	if address.Is6() {
		bits = networkBits
	}
	client, err := address.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return client
}
