package ports

import (
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// portToLease makes a run of this test binary exit with 0 if it can lease the port.
const portToLease = "PORT_TO_LEASE"

func TestMain(m *testing.M) {
	port, err := strconv.Atoi(os.Getenv(portToLease))
	if err != nil {
		os.Exit(m.Run())
	}
	if !lease(port) {
		os.Exit(1)
	}
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

func TestAFreePortCanBeListenedOnAgainAndAgain(t *testing.T) {
	port, err := Free()
	require.NoError(t, err)
	for range 2 {
		l, err := listen(port)
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
}

func TestNoPortIsGivenTwice(t *testing.T) {
	given := map[int]bool{}
	for range 500 {
		port, err := Free()
		require.NoError(t, err)
		require.False(t, given[port], port)
		given[port] = true
	}
}

func TestAPortBelongsToAProcessUntilItEnds(t *testing.T) {
	binary, err := os.Executable()
	require.NoError(t, err)
	leaseElsewhere := func(port int) error {
		command := exec.Command(binary)
		command.Env = append(os.Environ(), portToLease+"="+strconv.Itoa(port))
		return command.Run()
	}
	ours, err := Free()
	require.NoError(t, err)
	require.EqualError(t, leaseElsewhere(ours), "exit status 1")

	from, to := candidates()
	theirs := from
	for ; theirs <= to && leaseElsewhere(theirs) != nil; theirs++ {
	}
	require.LessOrEqual(t, theirs, to)
	require.True(t, lease(theirs), "the process that had it has ended")
}

func TestTheKernelGivesAFreePortToNobodyElse(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Skip("the kernel does not say which ports it gives away: ", err)
	}
	first, err := strconv.Atoi(strings.Fields(string(text))[0])
	require.NoError(t, err)
	if first < 20_000 {
		t.Skipf("the kernel gives away all ports from %d on", first)
	}
	for range 100 {
		port, err := Free()
		require.NoError(t, err)
		require.Less(t, port, first)
	}
}
