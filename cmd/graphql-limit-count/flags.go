package main

import (
	"time"

	"github.com/spf13/cobra"

	"graphql-limit-count/admin"
	"graphql-limit-count/internal/extplugin"
	"graphql-limit-count/limiter"
	"graphql-limit-count/plugins"
)

// The values of --server.
const (
	serverOwn   = "extplugin"
	serverStock = "go-runner"
)

// adminOff is the value of --admin-listen that turns the endpoint off.
const adminOff = "off"

// runFlags are the settings of run.
type runFlags struct {
	listen                         string
	confExpire                     int
	server                         string
	socketMode                     string
	maxConns                       int
	dataDir                        string
	store                          storeFlags
	keyring                        string
	adminListen                    string
	adminKey, adminViewerKey       string
	access                         accessFlags
	apisixAdminURL, apisixAdminKey string
	introspectionTLSVerify         bool
	graphqlMaxSize                 int64
	planCacheBytes                 int64
	planCacheEntries               int
	localKeysMax                   int
	logLevel                       string
}

func newRun() *cobra.Command {
	f := runFlags{}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Serve the plugin to APISIX, and the admin endpoint",
		Long: "run is the plugin runner: APISIX starts it (ext-plugin.cmd in config.yaml), or connects\n" +
			"to one started by hand (ext-plugin.path_for_test). It also serves the admin endpoint of\n" +
			"the cost decorations. SIGTERM ends it, after the requests in flight.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return f.run() },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "", "unix socket to listen on, unix:/path; required, APISIX sets it")
	flags.IntVar(&f.confExpire, "conf-expire", int(extplugin.DefaultConfTTL/time.Second), "seconds for which APISIX keeps a configuration's token; APISIX sets it")
	flags.StringVar(&f.server, "server", serverOwn, "protocol server: "+serverOwn+", or "+serverStock+" for the stock one of apisix-go-plugin-runner, with its faults")
	flags.StringVar(&f.socketMode, "socket-mode", "0766", "mode of the socket, octal: APISIX's workers must be able to write")
	flags.IntVar(&f.maxConns, "max-conns", extplugin.DefaultMaxConns, "connections from APISIX at most")
	flags.StringVar(&f.dataDir, "data-dir", "/var/lib/graphql-limit-count", "folder for the decorations, the counters and a generated admin key")
	f.store.add(flags)
	addKeyringFlag(flags, &f.keyring)
	flags.StringVar(&f.adminListen, "admin-listen", admin.DefaultAddress, "address of the admin endpoint, "+adminOff+" for none")
	flags.StringVar(&f.adminKey, "admin-key", "", "key of the admin endpoint; without one, here or in a file, it is generated into DATA-DIR/admin.key")
	flags.StringVar(&f.adminViewerKey, "admin-viewer-key", "", "key of the admin endpoint that may only read; empty for none")
	f.access.add(flags)
	flags.StringVar(&f.apisixAdminURL, "apisix-admin-url", "", "URL of APISIX's Admin API, such as http://127.0.0.1:9180; empty if it cannot be asked")
	flags.StringVar(&f.apisixAdminKey, "apisix-admin-key", "", "key of APISIX's Admin API; a viewer key is enough")
	flags.BoolVar(&f.introspectionTLSVerify, "introspection-tls-verify", false, "verify certificates of https upstreams when introspecting")
	flags.Int64Var(&f.graphqlMaxSize, "graphql-max-size", plugins.DefaultMaxBodySize, "limit of a request's body in bytes where a configuration sets none")
	flags.Int64Var(&f.planCacheBytes, "plan-cache-bytes", plugins.DefaultPlanCacheBytes, "memory of the compiled plans of queries at most")
	flags.IntVar(&f.planCacheEntries, "plan-cache-entries", plugins.DefaultPlanCacheEntries, "compiled plans and texts of queries that have one, at most")
	flags.IntVar(&f.localKeysMax, "local-keys-max", limiter.DefaultMaxKeys, "counters of policy local at most")
	flags.StringVar(&f.logLevel, "log-level", "warn", "debug, info, warn or error")
	withEnvironment(flags)
	return cmd
}
