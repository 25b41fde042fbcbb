package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"graphql-limit-count/ci/ports"
)

const (
	// sentinelDownAfter is after how many milliseconds of silence a sentinel calls a
	// server down.
	sentinelDownAfter = 500
	// sentinelFailoverTimeout (milliseconds) is how long it waits before it tries again.
	sentinelFailoverTimeout = 2000
	// sentinelReady is what a sentinel writes once it watches its master.
	sentinelReady = "+monitor"
	// watchedMaster is the name under which the sentinels know the master.
	watchedMaster = "mymaster"
)

// sentinelPeriods makes a sentinel look around every few hundred milliseconds instead of
// every ten seconds.
var sentinelPeriods = []any{"SENTINEL", "DEBUG", "INFO-PERIOD", "200", "PING-PERIOD", "100",
	"ASK-PERIOD", "100", "PUBLISH-PERIOD", "200"}

// SentinelConfig says what is watched by how many, and who may connect.
type SentinelConfig struct {
	// Sentinels is how many sentinels watch. Default (0): 3. A majority of them must be
	// running for a failover.
	Sentinels int
	// Username and Password are those of an ACL user of the servers, which the sentinels
	// and the replica use too; the default user is then off. Default: no authentication.
	Username, Password string
	// SentinelUsername and SentinelPassword are those of an ACL user of the sentinels; the
	// default user is then off. Default: no authentication. With a password only, it is
	// the default user's (requirepass).
	SentinelUsername, SentinelPassword string
}

// SentinelGroup is a Redis server with a replica, and the sentinels that watch both. Which
// of the two servers is the master changes with every failover.
type SentinelGroup struct {
	// MasterName is what the sentinels call the master.
	MasterName string
	// Servers are the two servers; the first starts as the master.
	Servers []*Redis
	// Sentinels are the sentinels.
	Sentinels []*Redis

	cfg SentinelConfig
}

// StartSentinels starts a group and waits until the replica is in step and the sentinels
// know it and each other. Close it when done.
func StartSentinels(ctx context.Context, cfg SentinelConfig) (*SentinelGroup, error) {
	if cfg.Sentinels == 0 {
		cfg.Sentinels = 3
	}
	g := &SentinelGroup{MasterName: watchedMaster, cfg: cfg}
	if err := g.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting a sentinel group: %w", err), g.Close())
	}
	return g, nil
}

// RunSentinels is StartSentinels for a test or benchmark: it fails tb when the group cannot
// be started, and stops it when tb ends.
func RunSentinels(tb testing.TB, cfg SentinelConfig) *SentinelGroup {
	tb.Helper()
	g, err := StartSentinels(context.Background(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := g.Close(); err != nil {
			tb.Error(err)
		}
	})
	return g
}

func (g *SentinelGroup) start(ctx context.Context) error {
	directives := []string{"--repl-diskless-sync-delay", "0"}
	if g.cfg.Password != "" {
		directives = append(directives, "--user", "default", "off",
			"--user", g.cfg.Username, "on", ">"+g.cfg.Password, "~*", "&*", "+@all",
			"--masteruser", g.cfg.Username, "--masterauth", g.cfg.Password)
	}
	master, err := StartRedis(ctx, directives...)
	if err != nil {
		return err
	}
	g.Servers = append(g.Servers, master)
	replica, err := StartRedis(ctx, append(directives, "--replicaof", master.Host+" "+strconv.Itoa(master.Port))...)
	if err != nil {
		return err
	}
	g.Servers = append(g.Servers, replica)
	for range g.cfg.Sentinels {
		sentinel, err := g.startSentinel(ctx, master)
		if err != nil {
			return err
		}
		g.Sentinels = append(g.Sentinels, sentinel)
	}
	return g.AwaitReady(ctx)
}

func (g *SentinelGroup) startSentinel(ctx context.Context, master *Redis) (*Redis, error) {
	dir, err := os.MkdirTemp("", "sentinel-")
	if err != nil {
		return nil, fmt.Errorf("starting a sentinel: %w", err)
	}
	port, err := ports.Free()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	config := filepath.Join(dir, "sentinel.conf")
	if err := os.WriteFile(config, []byte(g.sentinelConfig(master, port)), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("starting a sentinel: %w", err), os.RemoveAll(dir))
	}
	r := &Redis{Host: loopback, Port: port, process: process{
		program: "redis-server", args: []string{config, "--sentinel"}, dir: dir, ready: sentinelReady,
	}}
	if err := r.process.start(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	client := g.sentinelClient(r)
	defer client.Close()
	hurry := redis.NewStatusCmd(ctx, sentinelPeriods...)
	if err := client.Process(ctx, hurry); err != nil {
		return nil, errors.Join(fmt.Errorf("hurrying a sentinel: %w", err), r.Close())
	}
	return r, nil
}

// sentinelConfig is a sentinel's configuration file, which it rewrites as it learns.
func (g *SentinelGroup) sentinelConfig(master *Redis, port int) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("bind %s", loopback)
	line("port %d", port)
	line("sentinel monitor %s %s %d %d", g.MasterName, master.Host, master.Port, g.cfg.Sentinels/2+1)
	line("sentinel down-after-milliseconds %s %d", g.MasterName, sentinelDownAfter)
	line("sentinel failover-timeout %s %d", g.MasterName, sentinelFailoverTimeout)
	if g.cfg.Password != "" {
		line("sentinel auth-user %s %s", g.MasterName, g.cfg.Username)
		line("sentinel auth-pass %s %s", g.MasterName, g.cfg.Password)
	}
	switch {
	case g.cfg.SentinelPassword == "":
		line("protected-mode no")
	case g.cfg.SentinelUsername == "":
		line("requirepass %s", g.cfg.SentinelPassword)
	default:
		line("user default off")
		line("user %s on >%s ~* &* +@all", g.cfg.SentinelUsername, g.cfg.SentinelPassword)
		line("sentinel sentinel-user %s", g.cfg.SentinelUsername)
	}
	if g.cfg.SentinelPassword != "" {
		line("sentinel sentinel-pass %s", g.cfg.SentinelPassword)
	}
	return b.String()
}

// AwaitReady waits until the replica is in step with the master, and every sentinel knows
// it and the other sentinels, as a failover needs.
func (g *SentinelGroup) AwaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, formTimeout)
	defer cancel()
	for _, sentinel := range g.Sentinels {
		client := g.sentinelClient(sentinel)
		defer client.Close()
		if err := until(ctx, func() error { return g.sentinelReady(ctx, client) }); err != nil {
			return fmt.Errorf("waiting for sentinel %s: %w", sentinel.Addr(), err)
		}
	}
	return nil
}

func (g *SentinelGroup) sentinelReady(ctx context.Context, client *redis.SentinelClient) error {
	replicas, err := client.Replicas(ctx, g.MasterName).Result()
	if err != nil {
		return err
	}
	if len(replicas) != 1 || replicas[0]["flags"] != "slave" || replicas[0]["master-link-status"] != "ok" {
		return fmt.Errorf("its replicas are %v", replicas)
	}
	state, err := client.Master(ctx, g.MasterName).Result()
	if err != nil {
		return err
	}
	if state["flags"] != "master" || state["num-other-sentinels"] != strconv.Itoa(len(g.Sentinels)-1) {
		return fmt.Errorf("its master is %v", state)
	}
	return nil
}

func (g *SentinelGroup) sentinelClient(sentinel *Redis) *redis.SentinelClient {
	return redis.NewSentinelClient(&redis.Options{
		Addr: sentinel.Addr(), Username: g.cfg.SentinelUsername, Password: g.cfg.SentinelPassword,
		Protocol: 2, DisableIdentity: true, MaxRetries: -1,
	})
}

// Client returns a client of one server, for tests to look at it. Close it when done.
func (g *SentinelGroup) Client(server *Redis) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: server.Addr(), Username: g.cfg.Username, Password: g.cfg.Password,
		Protocol: 2, DisableIdentity: true, MaxRetries: -1,
	})
}

// Master returns the server that the first running sentinel calls the master.
func (g *SentinelGroup) Master(ctx context.Context) (*Redis, error) {
	var errs []error
	for _, sentinel := range g.Sentinels {
		client := g.sentinelClient(sentinel)
		addr, err := client.GetMasterAddrByName(ctx, g.MasterName).Result()
		_ = client.Close()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, server := range g.Servers {
			if len(addr) == 2 && addr[1] == strconv.Itoa(server.Port) {
				return server, nil
			}
		}
		errs = append(errs, fmt.Errorf("sentinel %s names the master %v", sentinel.Addr(), addr))
	}
	return nil, fmt.Errorf("asking for the master: %w", errors.Join(errs...))
}

// AwaitPromoted waits until the sentinels call another server than was the master, and
// that server takes writes. It returns that server.
func (g *SentinelGroup) AwaitPromoted(ctx context.Context, was *Redis) (promoted *Redis, err error) {
	ctx, cancel := context.WithTimeout(ctx, formTimeout)
	defer cancel()
	err = until(ctx, func() (err error) {
		if promoted, err = g.Master(ctx); err != nil {
			return err
		}
		if promoted == was {
			return fmt.Errorf("%s is still the master", was.Addr())
		}
		client := g.Client(promoted)
		defer client.Close()
		role, err := client.Do(ctx, "ROLE").Slice()
		if err == nil && (len(role) == 0 || role[0] != "master") {
			err = fmt.Errorf("%s has the role %v", promoted.Addr(), role)
		}
		return err
	})
	return promoted, err
}

// SentinelAddrs are the sentinels' host:port.
func (g *SentinelGroup) SentinelAddrs() []string {
	addrs := make([]string, len(g.Sentinels))
	for i, sentinel := range g.Sentinels {
		addrs[i] = sentinel.Addr()
	}
	return addrs
}

// Close ends all servers and sentinels and removes their directories.
func (g *SentinelGroup) Close() error {
	return errors.Join(closeAll(g.Sentinels), closeAll(g.Servers))
}
