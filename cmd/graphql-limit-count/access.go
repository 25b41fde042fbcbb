package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"graphql-limit-count/admin"
)

// accessFlags are the settings of who reaches the admin endpoint, and how.
type accessFlags struct {
	keyFile, viewerKeyFile string
	hosts                  []string
	tlsCert, tlsKey        string
}

func (a *accessFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&a.keyFile, "admin-key-file", "", "file whose first line is the key of the admin endpoint, instead of --admin-key; read again when it changes")
	flags.StringVar(&a.viewerKeyFile, "admin-viewer-key-file", "", "file whose first line is the key that may only read, instead of --admin-viewer-key; read again when it changes")
	flags.StringSliceVar(&a.hosts, "admin-hosts", nil, "names by which the admin endpoint is called, besides IP addresses, localhost and the host of --admin-listen; separated by commas")
	flags.StringVar(&a.tlsCert, "admin-tls-cert", "", "certificate of the admin endpoint with its chain, PEM; read again when it changes; empty for plain HTTP")
	flags.StringVar(&a.tlsKey, "admin-tls-key", "", "private key of --admin-tls-cert, PEM")
}

// check refuses settings that do not go together.
func (a *accessFlags) check() error {
	if (a.tlsCert == "") != (a.tlsKey == "") {
		return errors.New("--admin-tls-cert and --admin-tls-key are given together or not at all")
	}
	return nil
}

// access is who reaches the admin endpoint, and how, made ready.
type access struct {
	listen      string
	hosts       []string
	keys        *admin.Keys
	certificate *admin.Certificate // nil: plain HTTP
}

// open reads keys and certificate, and refuses keys that are too short for the address to
// listen on. keys are those of the other flags; without an admin key, one is generated in
// the data folder.
func (a *accessFlags) open(ctx context.Context, listen, dataDir string, keys admin.KeysConfig) (*access, error) {
	keys.AdminFile, keys.ViewerFile = a.keyFile, a.viewerKeyFile
	if keys.Admin == "" && keys.AdminFile == "" {
		var err error
		if keys.AdminFile, err = generatedKeyFile(dataDir, keys.Logger); err != nil {
			return nil, err
		}
	}
	opened := &access{listen: listen, hosts: append([]string{listen}, a.hosts...)}
	var err error
	if opened.keys, err = admin.OpenKeys(keys); err != nil {
		return nil, fmt.Errorf("--admin-key, --admin-viewer-key and their files: %w", err)
	}
	if a.tlsCert != "" {
		if opened.certificate, err = admin.OpenCertificate(a.tlsCert, a.tlsKey, keys.Logger); err != nil {
			return nil, fmt.Errorf("--admin-tls-cert and --admin-tls-key: %w", err)
		}
	}
	// A name that cannot be resolved now keeps the endpoint away, not the requests.
	var unresolved *net.DNSError
	if _, _, err := opened.keys.ListenAddress(ctx, listen); err != nil && !errors.As(err, &unresolved) {
		return nil, fmt.Errorf("--admin-listen: %w", err)
	}
	return opened, nil
}

// configure puts the keys and names into the endpoint's configuration.
func (a *access) configure(endpoint *admin.Config) {
	endpoint.Keys, endpoint.Hosts = a.keys, a.hosts
}

// listener listens, as admin.Listen does, with TLS where there is a certificate.
func (a *access) listener(ctx context.Context, log *zap.Logger) (net.Listener, error) {
	address, exposed, err := a.keys.ListenAddress(ctx, a.listen)
	if err != nil {
		return nil, err
	}
	if exposed && a.certificate == nil {
		log.Warn("the admin endpoint is reached from other hosts in plain HTTP, its keys can be read on the way (--admin-tls-cert)",
			zap.String("address", address))
	}
	listener, err := admin.Listen(ctx, address, log)
	if err != nil || a.certificate == nil {
		return listener, err
	}
	return a.certificate.Listener(listener), nil
}

// generatedKeyFile is the file in the data folder with the admin key that was generated the
// first time: an endpoint without a key would let anyone on the host switch limits off.
func generatedKeyFile(dataDir string, log *zap.Logger) (string, error) {
	path := filepath.Join(dataDir, adminKeyFile)
	_, err := os.Stat(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	if err := writeKey(path); err != nil {
		return "", err
	}
	log.Warn("generated the key of the admin endpoint", zap.String("file", path))
	return path, nil
}
