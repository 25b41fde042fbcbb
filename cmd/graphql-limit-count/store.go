package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"graphql-limit-count/admin"
	"graphql-limit-count/internal/etcd"
)

// The values of --store.
const (
	storeSQLite = "sqlite"
	storeEtcd   = "etcd"
	storeFile   = "file"
)

// etcdMarker is the file in the data folder that remembers that etcd held decorations.
const etcdMarker = "etcd-decorations.json"

// storeFlags say where decorations are kept, and where the etcd of APISIX is.
type storeFlags struct {
	kind        string
	decorations string // file of storeFile

	endpoints                 []string
	prefix                    string
	user, password            string
	caFile, certFile, keyFile string
	serverName                string
	tlsVerify                 bool
}

func (s *storeFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&s.kind, "store", storeSQLite, "where decorations are kept: "+storeSQLite+" in DATA-DIR, for one host; "+
		storeEtcd+" that APISIX uses, for a fleet; or "+storeFile+" (--decorations), for APISIX without etcd")
	flags.StringVar(&s.decorations, "decorations", "", "YAML file of --store="+storeFile+", read again when it changes")
	flags.StringSliceVar(&s.endpoints, "etcd-endpoints", nil, "etcd of APISIX: URLs such as http://127.0.0.1:2379, separated by commas. "+
		"Services, routes and upstreams are then read there, whatever the store")
	flags.StringVar(&s.prefix, "etcd-prefix", etcd.DefaultPrefix, "where APISIX keeps its configuration in etcd")
	flags.StringVar(&s.user, "etcd-user", "", "user of etcd; empty for none")
	flags.StringVar(&s.password, "etcd-password", "", "password of that user")
	flags.StringVar(&s.caFile, "etcd-ca-file", "", "PEM file of the authorities of etcd's certificate; empty for the system's")
	flags.StringVar(&s.certFile, "etcd-cert-file", "", "PEM file of the certificate shown to etcd; empty for none")
	flags.StringVar(&s.keyFile, "etcd-key-file", "", "PEM file of that certificate's key")
	flags.StringVar(&s.serverName, "etcd-server-name", "", "name that etcd's certificate must carry; empty for the endpoint's host")
	flags.BoolVar(&s.tlsVerify, "etcd-tls-verify", true, "verify etcd's certificate")
}

// check refuses settings that contradict each other, before anything is opened.
func (s *storeFlags) check() error {
	switch s.kind {
	case storeSQLite:
	case storeEtcd:
		if len(s.endpoints) == 0 {
			return fmt.Errorf("--store=%s needs --etcd-endpoints", storeEtcd)
		}
	case storeFile:
		if s.decorations == "" {
			return fmt.Errorf("--store=%s needs --decorations", storeFile)
		}
	default:
		return fmt.Errorf("--store %q is neither %s, %s nor %s", s.kind, storeSQLite, storeEtcd, storeFile)
	}
	if s.decorations != "" && s.kind != storeFile {
		return fmt.Errorf("--decorations is for --store=%s only", storeFile)
	}
	if len(s.endpoints) == 0 {
		if s.user != "" || s.caFile != "" || s.certFile != "" {
			return errors.New("--etcd-user, --etcd-ca-file and --etcd-cert-file need --etcd-endpoints")
		}
		return nil
	}
	return s.etcd(zap.NewNop()).Validate()
}

func (s *storeFlags) etcd(log *zap.Logger) etcd.Config {
	config := etcd.Config{
		Endpoints: s.endpoints, Prefix: s.prefix,
		Username: s.user, Password: s.password,
		CAFile: s.caFile, CertFile: s.certFile, KeyFile: s.keyFile, ServerName: s.serverName,
		Logger: log,
	}
	// Verification is a matter of https endpoints only; there, not verifying is a setting.
	config.InsecureSkipVerify = !s.tlsVerify && strings.HasPrefix(s.endpoints[0], "https://")
	return config
}

// openEtcd returns the client of APISIX's etcd, nil where none is named.
func (n *node) openEtcd(f *runFlags) (*etcd.Client, error) {
	if len(f.store.endpoints) == 0 {
		return nil, nil
	}
	client, err := etcd.Open(f.store.etcd(n.log))
	if err != nil {
		return nil, err
	}
	n.onClose(func() { _ = client.Close() }) // nothing is pending: every write was answered
	return client, nil
}

// openStore opens the store of the decorations.
func (n *node) openStore(ctx context.Context, f *runFlags, client *etcd.Client) (admin.Store, error) {
	switch f.store.kind {
	case storeEtcd:
		store := admin.NewEtcd(admin.EtcdConfig{Client: client, Logger: n.log, Marker: filepath.Join(f.dataDir, etcdMarker)})
		if err := store.Recall(ctx); err != nil {
			return nil, fmt.Errorf("open the decorations in etcd: %w", err)
		}
		return store, nil
	case storeFile:
		store, err := admin.OpenFile(ctx, f.store.decorations, admin.FileConfig{Logger: n.log})
		if err != nil {
			return nil, fmt.Errorf("open --decorations: %w", err)
		}
		return store, nil
	}
	store, err := admin.OpenSQLite(ctx, f.storePath(), admin.SQLiteConfig{Logger: n.log})
	if err != nil {
		return nil, fmt.Errorf("open the decorations in --data-dir %s: %w", f.dataDir, err)
	}
	n.onClose(func() { _ = store.Close() }) // every write was synced when it returned
	return store, nil
}
