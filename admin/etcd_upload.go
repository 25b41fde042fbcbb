package admin

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"graphql-limit-count/internal/etcd"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// storedUpload is an uploaded schema in etcd. It is JSON, because APISIX decodes every value
// under its prefix that changes.
type storedUpload struct {
	ServiceID  string      `json:"service_id"`
	CreateTime json.Number `json:"create_time"`
	UpdateTime json.Number `json:"update_time"`
	// Gzip is the compressed text: etcd takes 1.5 MiB in one request, GitHub's schema has
	// 1.2 MB as SDL and 0.17 MB compressed.
	Gzip []byte `json:"gzip"`
}

// GetSchema returns the uploaded schema of a service, or ErrNoSchema, or ErrDamaged.
func (s *Etcd) GetSchema(ctx context.Context, serviceID string) (Schema, error) {
	upload, _, err := s.readUpload(ctx, serviceID)
	if err != nil {
		return Schema{}, fmt.Errorf("get the schema of service %s: %w", serviceID, err)
	}
	return upload, nil
}

// readUpload returns a service's schema and the service's life; ErrNoSchema comes with the
// life as well.
func (s *Etcd) readUpload(ctx context.Context, serviceID string) (Schema, life, error) {
	if checkID("service", serviceID) != nil {
		return Schema{}, life{}, ErrNoSchema
	}
	response, err := s.transact(ctx, nil, []clientv3.Op{
		clientv3.OpGet(s.serviceKey(serviceID)), clientv3.OpGet(s.uploadKey(serviceID))}, nil)
	if err != nil {
		return Schema{}, life{}, err
	}
	service := s.decode(response.Responses[0].GetResponseRange().Kvs)
	kvs := s.decode(response.Responses[1].GetResponseRange().Kvs)
	newest := int64(0)
	if len(kvs) > 0 {
		newest = kvs[0].ModRevision
	}
	owner, err := s.lifeAt(ctx, serviceID, service, response.Header.Revision, newest)
	if err == nil && len(service)+len(kvs) == 0 {
		err = s.plausible(ctx)
	}
	if err == nil && len(kvs) == 0 {
		err = ErrNoSchema
	}
	if err != nil {
		return Schema{}, owner, err
	}
	s.held.Store(true)
	upload, err := decodeUpload(serviceID, kvs[0])
	upload.Incarnation = owner.incarnation(upload.ModifiedIndex, max(upload.CreateTime, upload.UpdateTime))
	return upload, owner, err
}

// decodeUpload reads a stored schema. After an error everything but the text is still good.
func decodeUpload(serviceID string, kv etcd.KV) (Schema, error) {
	upload := Schema{ServiceID: serviceID, CreatedIndex: kv.CreateRevision, ModifiedIndex: kv.ModRevision}
	var stored storedUpload
	if err := json.Unmarshal(kv.Value, &stored); err != nil {
		return upload, fmt.Errorf("decode what etcd holds: %w: %w", ErrDamaged, err)
	}
	upload.CreateTime, upload.UpdateTime = seconds(stored.CreateTime), seconds(stored.UpdateTime)
	reader, err := gzip.NewReader(bytes.NewReader(stored.Gzip))
	if err != nil {
		return upload, fmt.Errorf("decompress what etcd holds: %w: %w", ErrDamaged, err)
	}
	// The bound keeps a few bytes that another program wrote from becoming gigabytes.
	text, err := io.ReadAll(io.LimitReader(reader, MaxSchemaBytes+1))
	if err != nil {
		return upload, fmt.Errorf("decompress what etcd holds: %w: %w", ErrDamaged, err)
	}
	if len(text) > MaxSchemaBytes {
		return upload, fmt.Errorf("decompress what etcd holds: %w: it has more than %d bytes", ErrDamaged, MaxSchemaBytes)
	}
	upload.Text = text
	return upload, nil
}

func encodeUpload(upload Schema) (string, error) {
	var compressed bytes.Buffer
	writer := gzip.NewWriter(&compressed)
	if _, err := writer.Write(upload.Text); err != nil {
		return "", fmt.Errorf("compress its text: %w", err)
	}
	if err := writer.Close(); err != nil {
		return "", fmt.Errorf("compress its text: %w", err)
	}
	value, err := json.Marshal(storedUpload{
		ServiceID:  upload.ServiceID,
		CreateTime: json.Number(fmt.Sprint(upload.CreateTime)),
		UpdateTime: json.Number(fmt.Sprint(upload.UpdateTime)),
		Gzip:       compressed.Bytes(),
	})
	return string(value), err
}

// PutSchema writes the schema of a service; see Store.
func (s *Etcd) PutSchema(ctx context.Context, upload Schema) (Schema, bool, error) {
	stored, created, err := s.putUpload(ctx, upload)
	if err != nil {
		return Schema{}, false, fmt.Errorf("put the schema of service %s: %w", upload.ServiceID, err)
	}
	return stored, created, nil
}

func (s *Etcd) putUpload(ctx context.Context, upload Schema) (Schema, bool, error) {
	if err := checkID("service", upload.ServiceID); err != nil {
		return Schema{}, false, err
	}
	if len(upload.Text) > MaxSchemaBytes {
		return Schema{}, false, fmt.Errorf("its text has %d bytes, more than %d", len(upload.Text), MaxSchemaBytes)
	}
	for attempt := range writeAttempts {
		old, owner, err := s.readUpload(ctx, upload.ServiceID)
		if err != nil && old.ModifiedIndex == 0 && !errors.Is(err, ErrNoSchema) {
			return Schema{}, false, err
		}
		// What is there may be damaged: it is replaced.
		done, created, err := s.replaceUpload(ctx, upload, old, owner)
		if err != nil || done.ModifiedIndex > 0 {
			return done, created, err
		}
		if err := pause(ctx, attempt); err != nil {
			return Schema{}, false, err
		}
	}
	return Schema{}, false, errContended
}

// replaceUpload writes a schema in the place of an old one, if that is still the one stored;
// otherwise the result has no ModifiedIndex.
func (s *Etcd) replaceUpload(ctx context.Context, upload, old Schema, owner life) (Schema, bool, error) {
	now := s.now().Unix()
	upload.CreateTime, upload.UpdateTime, upload.CreatedIndex = now, now, old.CreatedIndex
	upload.Incarnation = owner.current()
	created := old.ModifiedIndex == 0 || foreign(old.Incarnation)
	if !created && old.CreateTime > 0 {
		upload.CreateTime = old.CreateTime
	}
	value, err := encodeUpload(upload)
	if err != nil {
		return Schema{}, false, err
	}
	key := s.uploadKey(upload.ServiceID)
	response, err := s.transact(ctx, []clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(key), "=", old.ModifiedIndex),
		clientv3.Compare(clientv3.CreateRevision(s.serviceKey(upload.ServiceID)), "=", owner.revision),
	}, []clientv3.Op{clientv3.OpPut(key, value)}, nil)
	if tooManyBytes(err) {
		err = fmt.Errorf("%w: compressed it has %d bytes, more than etcd takes in one request (%s)", ErrTooLarge, len(value), requestLimit)
	}
	if err != nil || !response.Succeeded {
		return Schema{}, false, err
	}
	upload.ModifiedIndex = response.Header.Revision
	if upload.CreatedIndex == 0 {
		upload.CreatedIndex = response.Header.Revision
	}
	return upload, created, nil
}

// DeleteSchema removes the schema of a service, or returns ErrNoSchema.
func (s *Etcd) DeleteSchema(ctx context.Context, serviceID string) error {
	if err := s.deleteUpload(ctx, serviceID); err != nil {
		return fmt.Errorf("delete the schema of service %s: %w", serviceID, err)
	}
	return nil
}

func (s *Etcd) deleteUpload(ctx context.Context, serviceID string) error {
	if checkID("service", serviceID) != nil {
		return ErrNoSchema
	}
	ctx, cancel := s.client.WithTimeout(ctx)
	defer cancel()
	response, err := s.client.Delete(ctx, s.uploadKey(serviceID))
	if err == nil && response.Deleted == 0 {
		err = ErrNoSchema
	}
	return s.client.Explain(err)
}

// Schemas returns all uploaded schemas without their texts, ordered by service. It is called
// every few seconds on every host; only what changed since the last call is read.
func (s *Etcd) Schemas(ctx context.Context) ([]Schema, error) {
	uploads, err := s.listUploads(ctx)
	if err != nil {
		return nil, fmt.Errorf("list schemas: %w", err)
	}
	return uploads, nil
}

func (s *Etcd) listUploads(ctx context.Context) ([]Schema, error) {
	keys, _, err := s.client.Keys(ctx, uploadsPath)
	if err == nil && len(keys) == 0 {
		err = s.plausible(ctx)
	}
	if err != nil {
		return nil, err
	}
	known := make(map[string]Schema, len(keys))
	var uploads []Schema // in the keys' order
	for _, key := range keys {
		serviceID := strings.TrimPrefix(key.Key, uploadsPath)
		if checkID("service", serviceID) != nil {
			continue // nothing of ours
		}
		upload, err := s.describeUpload(ctx, serviceID, key.ModRevision)
		if errors.Is(err, ErrNoSchema) {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		known[serviceID] = upload
		uploads = append(uploads, upload)
	}
	s.mu.Lock()
	s.uploads = known
	for serviceID := range known {
		s.shown[serviceID] = true
	}
	s.mu.Unlock()
	lives, err := s.lives(ctx, uploads)
	if err != nil {
		return nil, err
	}
	for i, upload := range uploads {
		uploads[i].Incarnation = lives[upload.ServiceID].incarnation(upload.ModifiedIndex, max(upload.CreateTime, upload.UpdateTime))
	}
	return uploads, nil
}

// describeUpload returns a schema without its text and incarnation, from memory if it is that
// version. One whose text is damaged is there all the same.
func (s *Etcd) describeUpload(ctx context.Context, serviceID string, modified int64) (Schema, error) {
	s.mu.Lock()
	upload, known := s.uploads[serviceID]
	s.mu.Unlock()
	if known && upload.ModifiedIndex == modified {
		return upload, nil
	}
	upload, _, err := s.readUpload(ctx, serviceID)
	if upload.ModifiedIndex == 0 {
		return Schema{}, err
	}
	upload.Text, upload.Incarnation = nil, ""
	return upload, nil
}
