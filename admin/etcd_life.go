package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"graphql-limit-count/internal/etcd"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// lifeAt returns the life of a service whose key, if any, was read at a revision. newest is
// the revision at which the newest thing that may belong to it was written; 0: there is none.
func (s *Etcd) lifeAt(ctx context.Context, serviceID string, key []etcd.KV, revision, newest int64) (life, error) {
	switch {
	case newest == 0 && len(key) == 0:
		return life{}, nil
	case newest == 0:
		return lifeOf(key[0]), nil
	case len(key) > 0:
		s.mu.Lock()
		s.alive[serviceID] = max(s.alive[serviceID], revision)
		s.mu.Unlock()
		return lifeOf(key[0]), nil
	}
	s.mu.Lock()
	seen := s.alive[serviceID]
	s.mu.Unlock()
	if seen >= newest {
		return life{ended: true}, nil
	}
	ended, err := s.existed(ctx, serviceID, newest)
	return life{ended: ended}, err
}

// existed tells whether there was a service at a past revision, as far as etcd still knows.
func (s *Etcd) existed(ctx context.Context, serviceID string, revision int64) (bool, error) {
	ctx, cancel := s.client.WithTimeout(ctx)
	defer cancel()
	response, err := s.client.Get(ctx, s.serviceKey(serviceID), clientv3.WithRev(revision), clientv3.WithCountOnly())
	if errors.Is(err, rpctypes.ErrCompacted) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the past of service %s: %w", serviceID, s.client.Explain(err))
	}
	return response.Count > 0, nil
}

// lives reads the present lives of the services of uploaded schemas.
func (s *Etcd) lives(ctx context.Context, uploads []Schema) (map[string]life, error) {
	lives := make(map[string]life, len(uploads))
	for batch := range slices.Chunk(uploads, flatOperations) {
		var gets []clientv3.Op
		for _, upload := range batch {
			gets = append(gets, clientv3.OpGet(s.serviceKey(upload.ServiceID)))
		}
		response, err := s.transact(ctx, nil, gets, nil)
		if err != nil {
			return nil, err
		}
		for i, upload := range batch {
			keys := s.decode(response.Responses[i].GetResponseRange().Kvs)
			lives[upload.ServiceID], err = s.lifeAt(ctx, upload.ServiceID, keys, response.Header.Revision, upload.ModifiedIndex)
			if err != nil {
				return nil, err
			}
		}
	}
	return lives, nil
}

func (s *Etcd) decode(kvs []*mvccpb.KeyValue) []etcd.KV {
	decoded := make([]etcd.KV, len(kvs))
	for i, kv := range kvs {
		decoded[i] = s.client.Decode(kv)
	}
	return decoded
}
