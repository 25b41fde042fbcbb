package admin

import (
	"context"
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
	closed bool
}

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

func (c *crowd) accept(n int) {
	for range n {
		conn := &closing{}
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
