package admin

import (
	"context"
	"fmt"
	"strconv"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Reclaim removes those of the records that are still stored as given; see Store. What was of
// a service's life when it was read is only removed once that life is over in etcd: who asks
// APISIX may have got an answer that was older than the record.
func (s *Etcd) Reclaim(ctx context.Context, records []Record) (int, error) {
	count := 0
	for _, record := range records {
		removed, err := s.reclaim(ctx, record.ServiceID, s.decorationsKey(record.ServiceID)+record.ID,
			record.ModifiedIndex, record.Incarnation)
		if err != nil {
			return count, fmt.Errorf("reclaim decorations: %w", err)
		}
		if removed {
			count++
		}
	}
	return count, nil
}

// ReclaimSchema removes a schema that is still stored as given; see Store and Reclaim.
func (s *Etcd) ReclaimSchema(ctx context.Context, upload Schema) (bool, error) {
	removed, err := s.reclaim(ctx, upload.ServiceID, s.uploadKey(upload.ServiceID), upload.ModifiedIndex, upload.Incarnation)
	if err != nil {
		return false, fmt.Errorf("reclaim the schema of service %s: %w", upload.ServiceID, err)
	}
	return removed, nil
}

func (s *Etcd) reclaim(ctx context.Context, serviceID, key string, modified int64, incarnation string) (bool, error) {
	compares := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", modified)}
	if revision, err := strconv.ParseInt(incarnation, 10, 64); err == nil {
		compares = append(compares, clientv3.Compare(clientv3.CreateRevision(s.serviceKey(serviceID)), "!=", revision))
	}
	response, err := s.transact(ctx, compares, []clientv3.Op{clientv3.OpDelete(key)}, nil)
	if err != nil {
		return false, err
	}
	return response.Succeeded && response.Responses[0].GetResponseDeleteRange().Deleted > 0, nil
}

// Adopt does nothing: whose a decoration is shows in etcd's revisions, see life.
func (s *Etcd) Adopt(context.Context, []Record, string) error { return nil }

// AdoptSchema does nothing, as Adopt.
func (s *Etcd) AdoptSchema(context.Context, Schema, string) error { return nil }
