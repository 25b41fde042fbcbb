package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// pageKeys is how many keys one exchange reads: APISIX's objects are some kilobytes each.
	pageKeys = 500
	// listedKeys is how many keys without values one exchange reads.
	listedKeys = 10_000
	// snapshotAttempts is how often a snapshot is begun again because etcd was compacted in
	// the middle of it.
	snapshotAttempts = 3
)

// KV is a stored key.
type KV struct {
	// Key is the key without the client's prefix, such as /services/shop.
	Key string
	// Value is what is stored under it.
	Value []byte
	// CreateRevision and ModRevision are etcd's revisions at which the key came into being
	// and was last written. A key that was deleted and written again has a new CreateRevision.
	CreateRevision, ModRevision int64
}

// Snapshot returns everything stored under the client's prefix and path at one revision,
// ordered by key, and that revision. It is read linearizably: every write that was
// acknowledged before the call is in it. APISIX's directory markers, whose keys end in a
// slash, are left out.
func (c *Client) Snapshot(ctx context.Context, path string) (kvs []KV, revision int64, err error) {
	return c.whole(ctx, path, clientv3.WithLimit(pageKeys))
}

// Keys is Snapshot without the values, which are nil.
func (c *Client) Keys(ctx context.Context, path string) (kvs []KV, revision int64, err error) {
	return c.whole(ctx, path, clientv3.WithLimit(listedKeys), clientv3.WithKeysOnly())
}

func (c *Client) whole(ctx context.Context, path string, options ...clientv3.OpOption) (kvs []KV, revision int64, err error) {
	for range snapshotAttempts {
		kvs = nil
		revision, err = c.each(ctx, path, func(kv *mvccpb.KeyValue) (more bool) {
			if !marker(string(kv.Key)) {
				kvs = append(kvs, c.Decode(kv))
			}
			return true
		}, options...)
		if !errors.Is(err, rpctypes.ErrCompacted) {
			break
		}
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read %s%s from etcd: %w", c.prefix, path, c.Explain(err))
	}
	return kvs, revision, nil
}

// each calls see with what is stored under a path at one revision, ordered by key, until it
// wants no more, and returns the revision. options bound the pages.
func (c *Client) each(ctx context.Context, path string, see func(*mvccpb.KeyValue) (more bool), options ...clientv3.OpOption) (int64, error) {
	first := c.prefix + path
	end := clientv3.GetPrefixRangeEnd(first)
	revision := int64(0) // the first page decides
	for {
		page, err := c.page(ctx, first, append([]clientv3.OpOption{clientv3.WithRange(end), clientv3.WithRev(revision)}, options...))
		if err != nil {
			return 0, err
		}
		if revision == 0 {
			revision = page.Header.Revision
		}
		for _, kv := range page.Kvs {
			if !see(kv) {
				return revision, nil
			}
		}
		if !page.More || len(page.Kvs) == 0 {
			return revision, nil
		}
		first = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
	}
}

func (c *Client) page(ctx context.Context, key string, options []clientv3.OpOption) (*clientv3.GetResponse, error) {
	ctx, cancel := c.WithTimeout(ctx)
	defer cancel()
	return c.Get(ctx, key, options...)
}

// marker tells whether a key is one that APISIX writes in a directory's place.
func marker(key string) bool { return strings.HasSuffix(key, "/") }

// Decode returns a key as it is in one of etcd's own answers.
func (c *Client) Decode(kv *mvccpb.KeyValue) KV {
	return KV{
		Key: strings.TrimPrefix(string(kv.Key), c.prefix), Value: kv.Value,
		CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision,
	}
}

// Blank tells whether APISIX has no configuration at all under the prefix: there is nothing,
// or only what APISIX writes by itself when it starts or reports, which follows every loss of
// data as soon as a gateway is restarted.
func (c *Client) Blank(ctx context.Context) (bool, error) {
	blank := true
	_, err := c.each(ctx, "/", func(kv *mvccpb.KeyValue) (more bool) {
		blank = automatic(c.Decode(kv).Key)
		return blank
	}, clientv3.WithLimit(pageKeys), clientv3.WithKeysOnly())
	if err != nil {
		return false, fmt.Errorf("read the keys of %s from etcd: %w", c.prefix, c.Explain(err))
	}
	return blank, nil
}

// automatic tells whether APISIX writes a key without being asked to: its directory markers,
// the list of its plugins, the reports of its nodes and the counter behind its generated ids.
func automatic(key string) bool {
	return marker(key) || key == "/plugins" || key == "/gen_id" || strings.HasPrefix(key, "/data_plane/")
}
