package admin

import (
	queue "container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// maxStrangers is how many connections may be open that have shown no key: idle ones, those
// whose request is not complete, and those whose refusal is held back.
const maxStrangers = 256

// connections bounds how many connections are open without a key. A new one is always taken,
// and one is closed for it: of the client that has most of them, the one that has waited
// longest. So who opens many, or sends slowly, closes his own, and who has a key gets in, is
// known by it a moment later, and stays.
type connections struct {
	mu        sync.Mutex
	open      map[net.Conn]*connection
	strangers *queue.List // of *connection, longest waiting first
	// waiting counts the strangers of each client that has any.
	waiting map[netip.Prefix]int
}

// connection is one that is open.
type connection struct {
	of     *connections
	conn   net.Conn
	client netip.Prefix
	// place is its place among the strangers, nil while a request with a key is served.
	place *queue.Element
}

func newConnections() *connections {
	return &connections{open: map[net.Conn]*connection{}, strangers: queue.New(), waiting: map[netip.Prefix]int{}}
}

type (
	connectionKey struct{}
	stoppingKey   struct{}
)

// accepted is http.Server.ConnContext: it takes in a new connection.
func (c *connections) accepted(ctx context.Context, conn net.Conn) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	made := &connection{of: c, conn: conn, client: clientOf(conn.RemoteAddr().String())}
	c.open[conn] = made
	c.await(made)
	return context.WithValue(ctx, connectionKey{}, made)
}

// await puts a connection at the end of the strangers and closes one when they are too many.
// The caller has locked c.
func (c *connections) await(conn *connection) {
	if conn.place != nil {
		c.strangers.MoveToBack(conn.place)
		return
	}
	conn.place = c.strangers.PushBack(conn)
	c.waiting[conn.client]++
	if c.strangers.Len() > maxStrangers {
		c.drop(c.superfluous())
	}
}

// superfluous is the stranger to close: the first of the client that has most, and of
// several such clients the first of all. It looks at maxStrangers+1 at most. The caller has
// locked c, and there is a stranger.
func (c *connections) superfluous() *connection {
	most := 0
	for _, count := range c.waiting {
		most = max(most, count)
	}
	place := c.strangers.Front()
	for c.waiting[place.Value.(*connection).client] < most {
		place = place.Next()
	}
	return place.Value.(*connection)
}

// leave takes a connection out of the strangers if it is one. The caller has locked c.
func (c *connections) leave(conn *connection) {
	if conn.place == nil {
		return
	}
	c.strangers.Remove(conn.place)
	conn.place = nil
	if c.waiting[conn.client]--; c.waiting[conn.client] == 0 {
		delete(c.waiting, conn.client)
	}
}

// drop closes a connection. The caller has locked c.
func (c *connections) drop(conn *connection) {
	c.forget(conn)
	under := conn.conn
	if encrypted, ok := under.(*tls.Conn); ok {
		under = encrypted.NetConn() // closing the other one waits for the client
	}
	_ = under.Close() // what could be done about an error is done
}

// forget takes a connection out. The caller has locked c.
func (c *connections) forget(conn *connection) {
	delete(c.open, conn.conn)
	c.leave(conn)
}

// changed is http.Server.ConnState.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	if state != http.StateClosed && state != http.StateHijacked {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.open[conn]; known != nil {
		c.forget(known)
	}
}

// handler makes a connection a stranger's again when a request of it has been served.
func (c *connections) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			conn, ok := r.Context().Value(connectionKey{}).(*connection)
			if !ok {
				return
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.open[conn.conn] == conn {
				c.await(conn)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// keepConnection keeps the connection of a request, whose key is right, from being closed
// for others until it is served.
func keepConnection(ctx context.Context) {
	conn, ok := ctx.Value(connectionKey{}).(*connection)
	if !ok {
		return // another server's
	}
	conn.of.mu.Lock()
	defer conn.of.mu.Unlock()
	conn.of.leave(conn)
}

// stopping is closed when the server of a request stops; nil means never.
func stopping(ctx context.Context) <-chan struct{} {
	stop, _ := ctx.Value(stoppingKey{}).(<-chan struct{})
	return stop
}
