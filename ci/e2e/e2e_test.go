// Package e2e_test is the end-to-end suite: the real binary as a process of its own, a
// gateway in front of it and a GraphQL upstream behind. Everything that a client or an
// operator would do goes over HTTP, to the gateway and to the two admin endpoints, so
// the suite runs unchanged against two gateways:
//
//   - the development gateway of this repository, which it starts itself. That is the
//     default, and what `make test` does.
//   - a real APISIX, named by the environment (`make e2e`).
//
// The environment of a real APISIX (a set-up for Docker is in ci/apisix):
//
//	APISIX_GATEWAY_URL    where clients connect, such as http://127.0.0.1:9080
//	APISIX_ADMIN_URL      its Admin API, such as http://127.0.0.1:9180
//	APISIX_ADMIN_KEY      the key of that
//	APISIX_RUNNER_SOCKET  the socket that ext-plugin.path_for_test names, where the
//	                      suite starts the runner
//	E2E_UPSTREAM_HOST     the address of this machine for APISIX, 127.0.0.1 unless set
//
// The first, second and fourth may be lists with commas. Two gateways, each with a socket
// of its own, let the tests with two runners run.
//
// Whatever it configures has ids that begin with "e2e-" and is deleted after the test.
package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/suite"
	"go.uber.org/goleak"
)

// The values of the runner's --server.
const (
	ownServer   = "extplugin"
	stockServer = "go-runner"
)

// buildTimeout bounds the building of the binary, with an empty build cache.
const buildTimeout = 5 * time.Minute

// scratch is the folder of the whole run.
var scratch string

func TestMain(m *testing.M) {
	var err error
	// Short: the sockets in it must not be longer than 107 bytes.
	if scratch, err = os.MkdirTemp("", "e2e-"); err != nil {
		fmt.Fprintln(os.Stderr, "make a folder for the suite:", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		_ = os.RemoveAll(scratch) // a leftover in the system's temporary folder
		os.Exit(status)
	}))
}

func TestEndToEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts processes")
	}
	t.Run(ownServer, func(t *testing.T) { suite.Run(t, &endToEnd{server: ownServer}) })
	t.Run(stockServer, func(t *testing.T) { suite.Run(t, &endToEnd{server: stockServer}) })
}

// binary is the path of the real binary, built once, with the race detector when the
// suite has it.
var binary = sync.OnceValues(func() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	path := filepath.Join(scratch, "graphql-limit-count")
	arguments := []string{"build", "-o", path}
	if raceDetector {
		arguments = append(arguments, "-race")
	}
	build := exec.CommandContext(ctx, "go", append(arguments, "graphql-limit-count/cmd/graphql-limit-count")...)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the runner: %w: %s", err, out)
	}
	return path, nil
})
