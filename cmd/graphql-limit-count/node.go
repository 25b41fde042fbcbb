package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
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
	"graphql-limit-count/internal/etcd"
	"graphql-limit-count/internal/extplugin"
	"graphql-limit-count/introspect"
	"graphql-limit-count/limiter"
	"graphql-limit-count/plugins"
)

// schemaDir holds introspected schemas, in the data folder.
const schemaDir = "schemas"

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
	client, err := n.openEtcd(f)
	if err != nil {
		return err
	}
	known, err := n.openKnowledge(ctx, f, client)
	if err != nil {
		return err
	}
	endpoint, schemas, err := n.openModels(ctx, f, client, known)
	if err != nil {
		return err
	}
	clients := &limiter.Clients{SettleFailed: n.oncePerSecond("settling counters with Redis failed")}
	// Waiting for a Redis that hangs comes after saving the local counters: APISIX
	// kills a second after SIGTERM.
	n.onClose(clients.Wait)
	local, err := n.openCounters(ctx, f)
	if err != nil {
		return err
	}
	secrets, err := openSecrets(f.keyring, n.log)
	if err != nil {
		return err
	}
	n.plugin = plugins.New(plugins.Options{
		Models: endpoint.Models, Schemas: schemas, Local: local, Redis: clients,
		Owners: known.owners, Secrets: secrets,
		MaxBodySize: f.graphqlMaxSize, PlanCacheBytes: f.planCacheBytes, PlanCacheEntries: f.planCacheEntries,
		Logger: n.log, Registerer: n.metrics,
	})
	return n.openAdmin(ctx, f, endpoint)
}

// openModels opens the store and the sources of schemas, loads what they hold and follows
// them. It returns what the admin endpoint serves of it.
func (n *node) openModels(ctx context.Context, f *runFlags, client *etcd.Client, known knowledge) (admin.Config, *introspect.Source, error) {
	store, err := n.openStore(ctx, f, client)
	if err != nil {
		return admin.Config{}, nil, err
	}
	schemas := introspect.New(introspect.Config{
		Upstreams: known.upstreams, TLSVerify: f.introspectionTLSVerify,
		Dir: filepath.Join(f.dataDir, schemaDir), Logger: n.log,
	})
	n.onClose(schemas.Close)
	models, uploads := admin.NewModels(store, n.log), admin.NewSchemas(store, schemas, n.log)
	if err := errors.Join(models.Load(ctx), uploads.Load(ctx)); err != nil {
		return admin.Config{}, nil, err
	}
	n.background("following the decorations", func() error { return admin.Follow(ctx, store, models, uploads) })
	endpoint := admin.Config{Store: store, Models: models, Uploads: uploads, SchemaSource: schemas}
	if known.directory != nil {
		endpoint.Reclaimer = admin.NewReclaimer(admin.ReclaimerConfig{
			Store: store, Models: models, Uploads: uploads, Schemas: schemas,
			Directory: known.directory, Changed: known.changed, Logger: n.log,
		})
		n.background("following APISIX's services", func() error { return endpoint.Reclaimer.Run(ctx) })
	}
	return endpoint, schemas, nil
}

// openAdmin starts the admin endpoint. The request path does not wait for its
// address: while APISIX reloads, the old runner still has it.
func (n *node) openAdmin(ctx context.Context, f *runFlags, config admin.Config) error {
	if f.adminListen == adminOff {
		return nil
	}
	opened, err := f.access.open(ctx, f.adminListen, f.dataDir, admin.KeysConfig{
		Admin: f.adminKey, Viewer: f.adminViewerKey, Logger: n.log,
	})
	if err != nil {
		return err
	}
	opened.configure(&config)
	config.PluginSchema, config.Logger, config.Registerer = plugins.ConfigSchema(), n.log, n.metrics
	config.Metrics = promhttp.HandlerFor(n.metrics, promhttp.HandlerOpts{})
	handler, err := admin.NewHandler(config)
	if err != nil {
		return err
	}
	n.background("serving the admin endpoint", func() error {
		listener, err := opened.listener(ctx, n.log)
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
