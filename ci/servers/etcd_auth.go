package servers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// RequirePassword turns etcd's authentication on: from then on only user, with password, may
// read and write, and only keys that begin with prefix. The server must not use TLS.
func (e *Etcd) RequirePassword(ctx context.Context, user, password, prefix string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{e.Endpoint()}, Logger: zap.NewNop()})
	if err != nil {
		return fmt.Errorf("securing etcd: %w", err)
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	const administrator, role = "root", "prefix" // etcd asks for a root with the role root
	for _, step := range []func() error{
		func() error { _, err := client.RoleAdd(ctx, administrator); return err },
		func() error { _, err := client.UserAdd(ctx, administrator, rand.Text()); return err },
		func() error { _, err := client.UserGrantRole(ctx, administrator, administrator); return err },
		func() error { _, err := client.RoleAdd(ctx, role); return err },
		func() error {
			_, err := client.RoleGrantPermission(ctx, role, prefix, clientv3.GetPrefixRangeEnd(prefix),
				clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := client.UserAdd(ctx, user, password); return err },
		func() error { _, err := client.UserGrantRole(ctx, user, role); return err },
		func() error { _, err := client.AuthEnable(ctx); return err },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("securing etcd: %w", err)
		}
	}
	return nil
}
