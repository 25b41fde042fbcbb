package servers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"graphql-limit-count/ci/ports"
)

const (
	// clusterMasters is how many nodes of a cluster own slots; each has one replica.
	clusterMasters = 3
	// clusterSlots is the number of hash slots of every Redis cluster.
	clusterSlots = 16384
	// clusterNodeTimeout is after how many milliseconds of silence a node counts as
	// failed: short, so that tests need not wait, and longer than a busy machine's hiccup.
	clusterNodeTimeout = "1000"
	// formTimeout bounds how long servers may take to find each other.
	formTimeout = 60 * time.Second
	// formInterval is the time between two looks at whether they have.
	formInterval = 20 * time.Millisecond
)

// Cluster is a Redis cluster of three masters and three replicas. Nodes[i+3] starts as the
// replica of Nodes[i]; who is what may change when a test stops nodes.
type Cluster struct {
	Nodes []*Redis

	tls bool
	// password is the default user's, if the directives gave it one.
	password string
}

// StartCluster starts a cluster and waits until all its slots are served and its replicas
// are in step. Directives are added to every node's command line; with a "--requirepass"
// goes a "--masterauth". Close it when done.
func StartCluster(ctx context.Context, directives ...string) (*Cluster, error) {
	return startCluster(ctx, nil, directives)
}

// StartClusterTLS is StartCluster for one whose nodes only take TLS connections, from
// clients and from each other, with the certificate given; they ask clients for none.
func StartClusterTLS(ctx context.Context, cert Certificate, directives ...string) (*Cluster, error) {
	return startCluster(ctx, &cert, directives)
}

// RunCluster is StartCluster for a test or benchmark: it fails tb when the cluster cannot
// be started, and stops it when tb ends.
func RunCluster(tb testing.TB, directives ...string) *Cluster {
	tb.Helper()
	c, err := StartCluster(context.Background(), directives...)
	return c.untilEnd(tb, err)
}

// RunClusterTLS is StartClusterTLS for a test, as RunCluster is StartCluster.
func RunClusterTLS(tb testing.TB, cert Certificate, directives ...string) *Cluster {
	tb.Helper()
	c, err := StartClusterTLS(context.Background(), cert, directives...)
	return c.untilEnd(tb, err)
}

func (c *Cluster) untilEnd(tb testing.TB, err error) *Cluster {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
	return c
}

func startCluster(ctx context.Context, cert *Certificate, directives []string) (*Cluster, error) {
	c := &Cluster{Nodes: make([]*Redis, 2*clusterMasters), tls: cert != nil}
	if i := slices.Index(directives, "--requirepass"); i >= 0 && i+1 < len(directives) {
		c.password = directives[i+1]
	}
	var starting errgroup.Group
	for i := range c.Nodes {
		starting.Go(func() (err error) {
			c.Nodes[i], err = startNode(ctx, cert, directives)
			return err
		})
	}
	err := starting.Wait()
	if err == nil {
		err = c.form(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting a redis cluster: %w", err), c.Close())
	}
	return c, nil
}

func startNode(ctx context.Context, cert *Certificate, directives []string) (*Redis, error) {
	bus, err := ports.Free()
	if err != nil {
		return nil, err
	}
	all := append([]string{"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus),
		"--cluster-node-timeout", clusterNodeTimeout, "--cluster-replica-validity-factor", "0",
		// A replica is listed once it has received something, if only a ping.
		"--repl-ping-replica-period", "1", "--repl-diskless-sync-delay", "0"}, directives...)
	if cert == nil {
		return StartRedis(ctx, all...)
	}
	return StartRedisTLS(ctx, *cert, append(all, "--tls-cluster", "yes", "--tls-replication", "yes")...)
}

// form makes the nodes a cluster: slots are given out, nodes introduced, replicas attached.
func (c *Cluster) form(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, formTimeout)
	defer cancel()
	clients := make([]*redis.Client, len(c.Nodes))
	for i, node := range c.Nodes {
		clients[i] = c.Client(node)
		defer clients[i].Close()
		if err := clients[i].Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			return fmt.Errorf("numbering node %s: %w", node.Addr(), err)
		}
	}
	for i, client := range clients[:clusterMasters] {
		from, to := i*clusterSlots/clusterMasters, (i+1)*clusterSlots/clusterMasters-1
		if err := client.ClusterAddSlotsRange(ctx, from, to).Err(); err != nil {
			return fmt.Errorf("giving slots to node %s: %w", c.Nodes[i].Addr(), err)
		}
	}
	if err := c.introduce(ctx, clients); err != nil {
		return err
	}
	for i, replica := range clients[clusterMasters:] {
		master, err := clients[i].ClusterMyID(ctx).Result()
		if err != nil {
			return fmt.Errorf("asking node %s for its name: %w", c.Nodes[i].Addr(), err)
		}
		if err := until(ctx, func() error { return replica.ClusterReplicate(ctx, master).Err() }); err != nil {
			return fmt.Errorf("making node %s a replica: %w", c.Nodes[clusterMasters+i].Addr(), err)
		}
	}
	return c.AwaitReady(ctx)
}

// introduce makes every node known to every other: gossip alone would take seconds.
func (c *Cluster) introduce(ctx context.Context, clients []*redis.Client) error {
	for i, node := range c.Nodes {
		// The bus port is named because it need not be the default one.
		bus, err := clients[i].ConfigGet(ctx, "cluster-port").Result()
		if err != nil {
			return fmt.Errorf("asking node %s for its bus port: %w", node.Addr(), err)
		}
		for _, other := range append(clients[:i:i], clients[i+1:]...) {
			if err := other.Do(ctx, "CLUSTER", "MEET", node.Host, node.Port, bus["cluster-port"]).Err(); err != nil {
				return fmt.Errorf("introducing node %s: %w", node.Addr(), err)
			}
		}
	}
	return nil
}

// Client returns a client of one node, for tests to look at it and to change it. It sends
// what it is told to that node, and does not follow redirections. Close it when done.
func (c *Cluster) Client(node *Redis) *redis.Client {
	options := &redis.Options{Addr: node.Addr(), Password: c.password, Protocol: 2, DisableIdentity: true, MaxRetries: -1}
	if c.tls {
		options.TLSConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // a test's own server
	}
	return redis.NewClient(options)
}

// AwaitReady waits until every running node says that all slots are served, lists a
// replica for each, and every replica is in step.
func (c *Cluster) AwaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, formTimeout)
	defer cancel()
	for _, node := range c.Nodes {
		client := c.Client(node)
		defer client.Close()
		if err := until(ctx, func() error { return nodeReady(ctx, client) }); err != nil {
			return fmt.Errorf("waiting for node %s: %w", node.Addr(), err)
		}
	}
	return nil
}

func nodeReady(ctx context.Context, client *redis.Client) error {
	info, err := client.ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}
	if !strings.Contains(info, "cluster_state:ok") {
		return errors.New("its cluster is not ok")
	}
	//lint:ignore SA1019 every release answers it, CLUSTER SHARDS only those from 7.0 on
	slots, err := client.ClusterSlots(ctx).Result()
	if err != nil {
		return err
	}
	for _, s := range slots {
		if len(s.Nodes) < 2 {
			return fmt.Errorf("slot %d has no replica", s.Start)
		}
	}
	if info, err = client.Info(ctx, "replication").Result(); err != nil {
		return err
	}
	if strings.Contains(info, "master_link_status:down") {
		return errors.New("it is not in step with its master")
	}
	return nil
}

// Owner returns the node that serves a key's slot according to another node, asker, and
// the slot.
func (c *Cluster) Owner(ctx context.Context, asker *Redis, key string) (owner *Redis, slot int, err error) {
	client := c.Client(asker)
	defer client.Close()
	n, err := client.ClusterKeySlot(ctx, key).Result()
	if err != nil {
		return nil, 0, fmt.Errorf("asking node %s for a slot: %w", asker.Addr(), err)
	}
	//lint:ignore SA1019 every release answers it, CLUSTER SHARDS only those from 7.0 on
	slots, err := client.ClusterSlots(ctx).Result()
	if err != nil {
		return nil, 0, fmt.Errorf("asking node %s for its slots: %w", asker.Addr(), err)
	}
	for _, s := range slots {
		if int(n) < s.Start || int(n) > s.End || len(s.Nodes) == 0 {
			continue
		}
		for _, node := range c.Nodes {
			if node.Addr() == s.Nodes[0].Addr {
				return node, int(n), nil
			}
		}
	}
	return nil, int(n), fmt.Errorf("node %s knows no owner of slot %d", asker.Addr(), n)
}

// AwaitOwner waits until asker says that another node than was serves a key's slot, and
// returns that node.
func (c *Cluster) AwaitOwner(ctx context.Context, asker, was *Redis, key string) (owner *Redis, err error) {
	ctx, cancel := context.WithTimeout(ctx, formTimeout)
	defer cancel()
	err = until(ctx, func() (err error) {
		if owner, _, err = c.Owner(ctx, asker, key); err == nil && owner == was {
			err = fmt.Errorf("node %s still serves the slot", was.Addr())
		}
		return err
	})
	return owner, err
}

// Addrs are the nodes' host:port.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.Nodes))
	for i, node := range c.Nodes {
		addrs[i] = node.Addr()
	}
	return addrs
}

// Close ends all nodes and removes their directories.
func (c *Cluster) Close() error { return closeAll(c.Nodes) }

func closeAll(servers []*Redis) error {
	var errs []error
	for _, r := range servers {
		if r != nil {
			errs = append(errs, r.Close())
		}
	}
	return errors.Join(errs...)
}

// until repeats a check until it succeeds or ctx ends, and returns its last error.
func until(ctx context.Context, check func() error) error {
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(formInterval):
		}
	}
}
