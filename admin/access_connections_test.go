package admin

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStrangersCannotCrowdOutWhoHasAKey: connections that send nothing, half a request, or
// wrong keys are bounded together, and a key gets in among them.
func TestStrangersCannotCrowdOutWhoHasAKey(t *testing.T) {
	g := startGuarded(t, nil, nil)
	waiting := g.heldBack(nil)
	for range freeFailures {
		g.exchange(withKey("wrong"))
	}
	for i := range maxStrangers + 30 {
		conn := g.dial()
		defer conn.Close()
		text := []string{"", "GET / HTTP/1.1\r\nHost: ", withKey("wrong")}[i%3]
		_, err := io.WriteString(conn, text)
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return waiting.Load() >= maxStrangers/3 }, patience, testPoll)
	for range 5 {
		require.Equal(t, 200, g.exchange(withKey(testAdminKey)).status)
	}
	g.server.open.mu.Lock()
	require.LessOrEqual(t, g.server.open.strangers.Len(), maxStrangers)
	g.server.open.mu.Unlock()
	kept := g.dial()
	defer kept.Close()
	require.Equal(t, 200, g.on(kept, withKey(testViewerKey)).status)
	require.Equal(t, 200, g.on(kept, withKey(testViewerKey)).status, "connections are used again")
}

// closing is a connection that tells whether it was closed.
type closing struct {
	net.Conn
	remote net.TCPAddr
	closed bool
}

func (c *closing) RemoteAddr() net.Addr { return &c.remote }

func (c *closing) Close() error {
	c.closed = true
	return nil
}

// crowd are connections that were accepted one after the other.
type crowd struct {
	of    *connections
	conns []*closing
	ctxs  []context.Context
}

func (c *crowd) accept(n int) { c.acceptFrom(n, "192.0.2.1") }

// acceptFrom accepts connections of one address.
func (c *crowd) acceptFrom(n int, address string) {
	for range n {
		conn := &closing{remote: net.TCPAddr{IP: net.ParseIP(address), Port: 1024 + len(c.conns)}}
		c.conns = append(c.conns, conn)
		c.ctxs = append(c.ctxs, c.of.accepted(context.Background(), conn))
	}
}

// serve serves a request of a connection.
func (c *crowd) serve(i int, during func(ctx context.Context)) {
	handler := c.of.handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { during(r.Context()) }))
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil).WithContext(c.ctxs[i]))
}

// closed are the indexes of the connections that were closed for others.
func (c *crowd) closed() []int {
	var indexes []int
	for i, conn := range c.conns {
		if conn.closed {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

func TestTheStrangerThatWaitedLongestIsClosedForANewOne(t *testing.T) {
	c := &crowd{of: newConnections()}
	c.accept(maxStrangers)
	require.Empty(t, c.closed())
	c.serve(0, func(context.Context) {})
	c.accept(2)
	require.Equal(t, []int{1, 2}, c.closed(), "one that was served since is younger")
	c.of.changed(c.conns[3], http.StateActive)
	c.of.changed(c.conns[3], http.StateClosed)
	c.of.changed(c.conns[3], http.StateClosed)
	c.accept(1)
	require.Equal(t, []int{1, 2}, c.closed(), "one that closed by itself leaves room")
	c.of.changed(c.conns[1], http.StateClosed) // the server notices
	c.accept(1)
	require.Equal(t, []int{1, 2, 4}, c.closed())
	require.Len(t, c.of.open, maxStrangers)
	require.Equal(t, maxStrangers, c.of.strangers.Len())
}

// TestAFloodDoesNotCloseTheConnectionOfAnother: an operator's client pauses between connecting
// and its request, for as long as a flooder needs for some thousands of connections.
func TestAFloodDoesNotCloseTheConnectionOfAnother(t *testing.T) {
	for _, flooder := range []func(i int) string{
		func(int) string { return "198.51.100.7" },
		func(i int) string { return fmt.Sprintf("2001:db8::%x", i+1) }, // one network of 64 bits
		func(i int) string { return fmt.Sprintf("198.51.100.%d", i%100) },
	} {
		c := &crowd{of: newConnections()}
		c.acceptFrom(1, "192.0.2.1")
		for i := range 5000 {
			c.acceptFrom(1, flooder(i))
		}
		require.False(t, c.conns[0].closed)
		require.Equal(t, maxStrangers, c.of.strangers.Len())
		c.serve(0, func(ctx context.Context) { keepConnection(ctx) })
		require.False(t, c.conns[0].closed)
		require.Len(t, c.closed(), 5001-maxStrangers)
	}
}

// TestAmongClientsWithAsManyTheFirstIsClosed: what no count tells apart goes by age.
func TestAmongClientsWithAsManyTheFirstIsClosed(t *testing.T) {
	c := &crowd{of: newConnections()}
	for i := range maxStrangers + 2 {
		c.acceptFrom(1, fmt.Sprintf("10.0.%d.%d", i>>8, i&255))
	}
	require.Equal(t, []int{0, 1}, c.closed())
	c.acceptFrom(1, "10.0.0.200") // its second
	require.Equal(t, []int{0, 1, 200}, c.closed())
	for i, conn := range c.conns {
		if !conn.closed {
			c.of.changed(c.conns[i], http.StateClosed)
		}
	}
	require.Empty(t, c.of.waiting)
	require.Empty(t, c.of.open)
}

func BenchmarkAcceptingAFlood(b *testing.B) {
	c := newConnections()
	for i := 0; b.Loop(); i++ {
		c.accepted(b.Context(), &closing{remote: net.TCPAddr{IP: net.IPv4(10, 0, byte(i>>8), byte(i)), Port: 1}})
	}
}

func TestARequestWithAKeyKeepsItsConnectionUntilItIsServed(t *testing.T) {
	c := &crowd{of: newConnections()}
	c.accept(2)
	c.serve(0, func(ctx context.Context) {
		keepConnection(ctx)
		keepConnection(ctx)
		c.accept(2 * maxStrangers)
		require.False(t, c.conns[0].closed)
		require.True(t, c.conns[1].closed)
		require.Len(t, c.of.open, maxStrangers+1)
	})
	require.False(t, c.conns[0].closed, "the youngest of the strangers now")
	require.Len(t, c.of.open, maxStrangers)
	c.accept(maxStrangers - 1)
	require.False(t, c.conns[0].closed)
	c.accept(1)
	require.True(t, c.conns[0].closed)
	c.serve(0, func(ctx context.Context) { keepConnection(ctx) })
	require.Len(t, c.of.open, maxStrangers, "a request whose connection is closed takes no room")
	keepConnection(context.Background())
}
