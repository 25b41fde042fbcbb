package admin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// uploadColumns are read in the order in which scanUpload expects them.
const uploadColumns = `service_id, incarnation, create_time, update_time, created_index, modified_index`

// GetSchema returns the uploaded schema of a service, or ErrNoSchema.
func (s *SQLite) GetSchema(ctx context.Context, serviceID string) (Schema, error) {
	uploads, err := queryUploads(ctx, s.db, `, text FROM upload WHERE service_id = ?`, serviceID)
	if err == nil && len(uploads) == 0 {
		err = ErrNoSchema
	}
	if err != nil {
		return Schema{}, fmt.Errorf("get the schema of service %s: %w", serviceID, describe(err))
	}
	return uploads[0], nil
}

// Schemas returns all uploaded schemas without their texts, ordered by service.
func (s *SQLite) Schemas(ctx context.Context) ([]Schema, error) {
	uploads, err := queryUploads(ctx, s.db, `, NULL FROM upload ORDER BY service_id`)
	if err != nil {
		return nil, fmt.Errorf("list schemas: %w", describe(err))
	}
	return uploads, nil
}

// queryUploads selects uploadColumns and what rest goes on with: the text, or NULL, and where
// from.
func queryUploads(ctx context.Context, db querier, rest string, args ...any) (uploads []Schema, err error) {
	rows, err := db.QueryContext(ctx, `SELECT `+uploadColumns+rest, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var u Schema
		if err := rows.Scan(&u.ServiceID, &u.Incarnation, &u.CreateTime, &u.UpdateTime,
			&u.CreatedIndex, &u.ModifiedIndex, &u.Text); err != nil {
			return nil, err
		}
		uploads = append(uploads, u)
	}
	return uploads, rows.Err()
}

// PutSchema writes the schema of a service; see Store.
func (s *SQLite) PutSchema(ctx context.Context, upload Schema) (stored Schema, created bool, err error) {
	err = s.transact(ctx, func(tx *sql.Tx) error {
		stored, created, err = s.putSchema(ctx, tx, upload)
		return err
	})
	if err != nil {
		return Schema{}, false, fmt.Errorf("put the schema of service %s: %w", upload.ServiceID, describe(err))
	}
	return stored, created, nil
}

func (s *SQLite) putSchema(ctx context.Context, tx *sql.Tx, upload Schema) (Schema, bool, error) {
	if len(upload.Text) > MaxSchemaBytes {
		return Schema{}, false, fmt.Errorf("its text has %d bytes, more than %d", len(upload.Text), MaxSchemaBytes)
	}
	revision, err := nextRevision(ctx, tx)
	if err != nil {
		return Schema{}, false, err
	}
	now := s.now().Unix()
	upload.CreateTime, upload.UpdateTime = now, now
	upload.CreatedIndex, upload.ModifiedIndex = revision, revision
	old, err := queryUploads(ctx, tx, `, NULL FROM upload WHERE service_id = ?`, upload.ServiceID)
	if err != nil {
		return Schema{}, false, err
	}
	if len(old) > 0 {
		upload.CreatedIndex = old[0].CreatedIndex
		if old[0].CreateTime > 0 {
			upload.CreateTime = old[0].CreateTime
		}
	}
	if upload.Text == nil {
		upload.Text = []byte{} // NULL is not a text
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO upload (`+uploadColumns+`, text) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET incarnation = excluded.incarnation, create_time = excluded.create_time,
		update_time = excluded.update_time, created_index = excluded.created_index,
		modified_index = excluded.modified_index, text = excluded.text`,
		upload.ServiceID, upload.Incarnation, upload.CreateTime, upload.UpdateTime,
		upload.CreatedIndex, upload.ModifiedIndex, upload.Text)
	return upload, len(old) == 0, err
}

// DeleteSchema removes the schema of a service, or returns ErrNoSchema.
func (s *SQLite) DeleteSchema(ctx context.Context, serviceID string) error {
	count, err := s.affect(ctx, `DELETE FROM upload WHERE service_id = ?`, serviceID)
	if err == nil && count == 0 {
		err = ErrNoSchema
	}
	if err != nil {
		return fmt.Errorf("delete the schema of service %s: %w", serviceID, describe(err))
	}
	return nil
}

// sameUpload selects a schema only as long as nobody wrote it since it was read.
const sameUpload = ` WHERE service_id = ? AND modified_index = ? AND incarnation = ?`

// ReclaimSchema removes a schema that is still stored exactly as given; see Store.
func (s *SQLite) ReclaimSchema(ctx context.Context, u Schema) (bool, error) {
	count, err := s.affect(ctx, `DELETE FROM upload`+sameUpload, u.ServiceID, u.ModifiedIndex, u.Incarnation)
	if err != nil {
		return false, fmt.Errorf("reclaim the schema of service %s: %w", u.ServiceID, describe(err))
	}
	return count > 0, nil
}

// AdoptSchema notes the incarnation in a schema that is still stored as given; see Store.
func (s *SQLite) AdoptSchema(ctx context.Context, u Schema, incarnation string) error {
	_, err := s.affect(ctx, `UPDATE upload SET incarnation = ?`+sameUpload,
		incarnation, u.ServiceID, u.ModifiedIndex, u.Incarnation)
	if err != nil {
		return fmt.Errorf("adopt the schema of service %s: %w", u.ServiceID, describe(err))
	}
	return nil
}

// affect runs one statement in a transaction and counts the rows it affected.
func (s *SQLite) affect(ctx context.Context, statement string, args ...any) (count int64, err error) {
	err = s.transact(ctx, func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, statement, args...)
		if err != nil {
			return err
		}
		count, err = result.RowsAffected()
		return err
	})
	return count, err
}
