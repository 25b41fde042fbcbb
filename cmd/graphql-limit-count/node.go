package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/apisix-go-plugin-runner/pkg/plugin"
	"github.com/apache/apisix-go-plugin-runner/pkg/runner"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"graphql-limit-count/admin"
	"graphql-limit-count/internal/apisix"
	"graphql-limit-count/internal/extplugin"
	"graphql-limit-count/introspect"
	"graphql-limit-count/limiter"
	"graphql-limit-count/plugins"
)

// node is everything of one process besides the protocol server.
type node struct {
	plugin  *plugins.Plugin
	metrics *prometheus.Registry
	log     *zap.Logger

	cancel  context.CancelFunc // ends what runs in the background
	running sync.WaitGroup
	closers []func() // in the order in which they were opened
}

// newNode opens the store, loads the cost models and starts what follows them. The
// caller closes it. ctx ends the background work.
func (f *runFlags) newNode(ctx context.Context, log *zap.Logger) (*node, error) {
	n := &node{metrics: prometheus.NewRegistry(), log: log}
	n.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	ctx, n.cancel = context.WithCancel(ctx)
	if err := n.open(ctx, f); err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

func (n *node) open(ctx context.Context, f *runFlags) error {
	if err := f.checkDataDir(); err != nil {
		return err
	}
	directory, err := n.openDirectory(f)
	if err != nil {
		return err
	}
	store, err := admin.OpenSQLite(ctx, f.storePath(), admin.SQLiteConfig{Logger: n.log})
	if err != nil {
		return fmt.Errorf("open the decorations in --data-dir %s: %w", f.dataDir, err)
	}
	n.onClose(func() { _ = store.Close() }) // every write was synced when it returned
	models := admin.NewModels(store, n.log)
	if err := models.Load(ctx); err != nil {
		return err
	}
	n.background("following the decorations", func() error { return admin.Follow(ctx, store, models) })

	source := introspect.Config{TLSVerify: f.introspectionTLSVerify, Logger: n.log}
	var reclaimer *admin.Reclaimer
	if directory != nil {
		source.Upstreams = apisix.NewCache(directory, apisix.CacheConfig{})
		reclaimer = admin.NewReclaimer(admin.ReclaimerConfig{
			Store: store, Models: models, Directory: directory, Logger: n.log,
		})
		n.background("following APISIX's services", func() error { return reclaimer.Run(ctx) })
	}
	schemas := introspect.New(source)
	n.onClose(schemas.Close)
	clients := &limiter.Clients{SettleFailed: n.oncePerSecond("settling counters with Redis failed")}
	// Waiting for a Redis that hangs comes after saving the local counters: APISIX
	// kills a second after SIGTERM.
	n.onClose(clients.Wait)
	local, err := n.openCounters(ctx, f)
	if err != nil {
		return err
	}
	n.plugin = plugins.New(plugins.Options{
		Models: models, Schemas: schemas, Local: local, Redis: clients,
		MaxBodySize: f.graphqlMaxSize, PlanCacheBytes: f.planCacheBytes, Logger: n.log, Registerer: n.metrics,
	})
	return n.openAdmin(ctx, f, admin.Config{Store: store, Models: models, Reclaimer: reclaimer})
}

// openDirectory returns the client of APISIX's Admin API, nil where there is none.
func (n *node) openDirectory(f *runFlags) (*apisix.Client, error) {
	if f.apisixAdminURL == "" {
		n.log.Warn("APISIX's Admin API is not known (--apisix-admin-url): decorations are taken for any " +
			"service, and only routes with an introspection_endpoint can be weighted")
		return nil, nil
	}
	config := apisix.Config{URL: f.apisixAdminURL, Key: f.apisixAdminKey}
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("--apisix-admin-url and --apisix-admin-key: %w", err)
	}
	client := apisix.NewClient(config)
	n.onClose(client.Close)
	return client, nil
}

// openAdmin starts the admin endpoint. The request path does not wait for its
// address: while APISIX reloads, the old runner still has it.
func (n *node) openAdmin(ctx context.Context, f *runFlags, config admin.Config) error {
	if f.adminListen == adminOff {
		return nil
	}
	key, err := f.adminKeyOrGenerated(n.log)
	if err != nil {
		return err
	}
	config.AdminKey, config.ViewerKey = key, f.adminViewerKey
	config.PluginSchema, config.Logger = plugins.ConfigSchema(), n.log
	config.Metrics = promhttp.HandlerFor(n.metrics, promhttp.HandlerOpts{})
	handler, err := admin.NewHandler(config)
	if err != nil {
		return err
	}
	n.background("serving the admin endpoint", func() error {
		listener, err := admin.Listen(ctx, f.adminListen, n.log)
		if err != nil {
			return err
		}
		return admin.NewServer(handler, n.log).Serve(ctx, listener)
	})
	return nil
}

// newServer returns the protocol server of this project with the plugin.
func (n *node) newServer(config extplugin.Config) *extplugin.Server {
	config.Plugins = []plugin.Plugin{n.plugin}
	server := extplugin.NewServer(config)
	n.metrics.MustRegister(server.Collector())
	return server
}

// serveStock serves with the stock server, which reads its settings from the
// environment and ends by itself on SIGTERM and SIGINT.
func (f *runFlags) serveStock(n *node, level zapcore.Level) error {
	if err := setStockEnvironment(f); err != nil {
		return err
	}
	if err := plugin.RegisterPlugin(n.plugin); err != nil {
		return fmt.Errorf("register the plugin: %w", err)
	}
	runner.Run(runner.RunnerConfig{LogLevel: level})
	return nil
}

// oncePerSecond returns what logs an error, at most once a second.
func (n *node) oncePerSecond(what string) func(error) {
	var next atomic.Int64
	return func(err error) {
		now, due := time.Now(), next.Load()
		if now.UnixNano() >= due && next.CompareAndSwap(due, now.Add(time.Second).UnixNano()) {
			n.log.Error(what, zap.Error(err))
		}
	}
}

func (n *node) onClose(closer func()) { n.closers = append(n.closers, closer) }

// background runs something until it ends by itself or by its context, and logs
// why it failed.
func (n *node) background(what string, run func() error) {
	n.running.Add(1)
	go func() {
		defer n.running.Done()
		if err := run(); err != nil && !errors.Is(err, context.Canceled) {
			n.log.Error(what+" failed", zap.Error(err))
		}
	}()
}

// close ends what runs in the background, then closes what it used, last opened first.
func (n *node) close() {
	n.cancel()
	n.running.Wait()
	for i := len(n.closers) - 1; i >= 0; i-- {
		n.closers[i]()
	}
}
