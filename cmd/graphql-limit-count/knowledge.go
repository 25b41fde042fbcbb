package main

import (
	"context"
	"fmt"

	"graphql-limit-count/admin"
	"graphql-limit-count/internal/apisix"
	"graphql-limit-count/internal/etcd"
	"graphql-limit-count/introspect"
	"graphql-limit-count/plugins"
)

// knowledge is what APISIX can be asked for. Its members are nil where it cannot.
type knowledge struct {
	directory admin.ServiceDirectory
	upstreams introspect.UpstreamResolver
	owners    plugins.OwnerSource
	changed   <-chan struct{} // services were created or deleted
}

// openKnowledge returns what is known of APISIX: from its etcd where that is named, because
// it tells changes by itself, else from its Admin API.
func (n *node) openKnowledge(ctx context.Context, f *runFlags, client *etcd.Client) (knowledge, error) {
	if client != nil {
		mirror := apisix.NewMirror(apisix.MirrorConfig{Etcd: client, Logger: n.log})
		n.background("following APISIX's etcd", func() error { return mirror.Run(ctx) })
		return knowledge{
			directory: apisix.NewEtcd(client), upstreams: mirror, owners: mirror, changed: mirror.ServicesChanged(),
		}, nil
	}
	if f.apisixAdminURL == "" {
		n.log.Warn("APISIX cannot be asked (neither --etcd-endpoints nor --apisix-admin-url): decorations are " +
			"taken for any service, and only routes with an introspection_endpoint can be weighted")
		return knowledge{}, nil
	}
	config := apisix.Config{URL: f.apisixAdminURL, Key: f.apisixAdminKey}
	if err := config.Validate(); err != nil {
		return knowledge{}, fmt.Errorf("--apisix-admin-url and --apisix-admin-key: %w", err)
	}
	api := apisix.NewClient(config)
	n.onClose(api.Close)
	owners := apisix.NewOwners(apisix.OwnersConfig{Client: api, Logger: n.log})
	n.onClose(owners.Close)
	return knowledge{directory: api, upstreams: apisix.NewCache(api, apisix.CacheConfig{}), owners: owners}, nil
}
