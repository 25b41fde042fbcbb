package admin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	sqlite3 "modernc.org/sqlite/lib"
)

// Put writes a decoration; see Store.
func (s *SQLite) Put(ctx context.Context, draft Draft) (record Record, created bool, err error) {
	err = s.transact(ctx, func(tx *sql.Tx) error {
		record, created, err = s.put(ctx, tx, draft)
		return err
	})
	if err != nil {
		return Record{}, false, fmt.Errorf("put decoration %s of service %s: %w", draft.ID, draft.ServiceID, describe(err))
	}
	return record, created, nil
}

// Patch changes a decoration under the write lock, so change is called once; see Store.
func (s *SQLite) Patch(ctx context.Context, serviceID, id string, change func(Record) (Draft, error)) (Record, error) {
	var record Record
	var refusal error
	err := s.transact(ctx, func(tx *sql.Tx) error {
		old, err := get(ctx, tx, serviceID, id)
		if err != nil {
			return err
		}
		draft, err := change(old)
		if err != nil {
			refusal = err
			return err
		}
		draft.ServiceID, draft.ID = serviceID, id
		record, _, err = s.put(ctx, tx, draft)
		return err
	})
	if refusal != nil {
		return Record{}, refusal
	}
	if err != nil {
		return Record{}, fmt.Errorf("patch decoration %s of service %s: %w", id, serviceID, describe(err))
	}
	return record, nil
}

func (s *SQLite) put(ctx context.Context, tx *sql.Tx, draft Draft) (Record, bool, error) {
	revision, err := nextRevision(ctx, tx)
	if err != nil {
		return Record{}, false, err
	}
	if draft.ID == "" {
		if draft.ID, revision, err = freeID(ctx, tx, draft.ServiceID, revision); err != nil {
			return Record{}, false, err
		}
	}
	now := s.now().Unix()
	record := Record{Draft: draft, CreateTime: now, UpdateTime: now, CreatedIndex: revision, ModifiedIndex: revision}
	old, err := get(ctx, tx, draft.ServiceID, draft.ID)
	created := errors.Is(err, ErrNotFound)
	switch {
	case err == nil:
		record.keepCreation(old)
		err = update(ctx, tx, record)
	case created:
		err = insert(ctx, tx, record)
	}
	if err != nil {
		return Record{}, false, s.translate(ctx, tx, draft, err)
	}
	return record, created, nil
}

const insertStatement = `INSERT INTO decoration (` + columns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`

// fields are a record's columns in their order.
func (r Record) fields() []any {
	return []any{r.ServiceID, r.ID, r.FieldPath, string(r.Value), r.Incarnation,
		r.CreateTime, r.UpdateTime, r.CreatedIndex, r.ModifiedIndex}
}

func insert(ctx context.Context, tx *sql.Tx, r Record) error {
	_, err := tx.ExecContext(ctx, insertStatement, r.fields()...)
	return err
}

func update(ctx context.Context, tx *sql.Tx, r Record) error {
	_, err := tx.ExecContext(ctx, `UPDATE decoration SET field_path = ?, value = ?, incarnation = ?,
		create_time = ?, update_time = ?, created_index = ?, modified_index = ? WHERE service_id = ? AND id = ?`,
		r.FieldPath, string(r.Value), r.Incarnation,
		r.CreateTime, r.UpdateTime, r.CreatedIndex, r.ModifiedIndex, r.ServiceID, r.ID)
	return err
}

// translate names the decoration that has the field path when the unique index refused it.
// The transaction holds the write lock, so the holder cannot have gone.
func (s *SQLite) translate(ctx context.Context, tx *sql.Tx, draft Draft, err error) error {
	if !hasCode(err, sqlite3.SQLITE_CONSTRAINT) {
		return err
	}
	var holder string
	row := tx.QueryRowContext(ctx, `SELECT id FROM decoration WHERE service_id = ? AND field_path = ?`,
		draft.ServiceID, draft.FieldPath)
	if row.Scan(&holder) != nil || holder == draft.ID {
		return err
	}
	return &TakenError{FieldPath: draft.FieldPath, Holder: holder}
}

func nextRevision(ctx context.Context, tx *sql.Tx) (int64, error) {
	return nextRevisions(ctx, tx, 1)
}

// nextRevisions counts the revision up by count and returns the first of the new ones.
func nextRevisions(ctx context.Context, tx *sql.Tx, count int) (int64, error) {
	var last int64
	row := tx.QueryRowContext(ctx, `UPDATE revision SET number = number + ? RETURNING number`, count)
	if err := row.Scan(&last); err != nil {
		return 0, fmt.Errorf("count the revision: %w", err)
	}
	return last - int64(count) + 1, nil
}

// freeID makes an id as APISIX does, the revision in 20 digits, so that ids sort in the order
// of creation. A decoration may have been given such an id by its author; then the next one
// is tried.
func freeID(ctx context.Context, tx *sql.Tx, serviceID string, revision int64) (string, int64, error) {
	for {
		id := fmt.Sprintf("%020d", revision)
		_, err := get(ctx, tx, serviceID, id)
		if errors.Is(err, ErrNotFound) {
			return id, revision, nil
		}
		if err != nil {
			return "", 0, err
		}
		if revision, err = nextRevision(ctx, tx); err != nil {
			return "", 0, err
		}
	}
}

// Delete removes one decoration, or returns ErrNotFound.
func (s *SQLite) Delete(ctx context.Context, serviceID, id string) error {
	err := s.transact(ctx, func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, `DELETE FROM decoration WHERE service_id = ? AND id = ?`, serviceID, id)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, ErrNotFound)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("delete decoration %s of service %s: %w", id, serviceID, describe(err))
	}
	return nil
}

// sameRecord selects a record only as long as nobody wrote it since it was read.
const sameRecord = ` WHERE service_id = ? AND id = ? AND modified_index = ? AND incarnation = ?`

// Reclaim removes the records that are still stored exactly as given; see Store.
func (s *SQLite) Reclaim(ctx context.Context, records []Record) (int, error) {
	count, err := s.each(ctx, records, func(tx *sql.Tx, r Record) (sql.Result, error) {
		return tx.ExecContext(ctx, `DELETE FROM decoration`+sameRecord, r.ServiceID, r.ID, r.ModifiedIndex, r.Incarnation)
	})
	if err != nil {
		return 0, fmt.Errorf("reclaim decorations: %w", describe(err))
	}
	return count, nil
}

// Adopt notes the incarnation in the records that are still stored as given; see Store.
func (s *SQLite) Adopt(ctx context.Context, records []Record, incarnation string) error {
	_, err := s.each(ctx, records, func(tx *sql.Tx, r Record) (sql.Result, error) {
		return tx.ExecContext(ctx, `UPDATE decoration SET incarnation = ?`+sameRecord,
			incarnation, r.ServiceID, r.ID, r.ModifiedIndex, r.Incarnation)
	})
	if err != nil {
		return fmt.Errorf("adopt decorations: %w", describe(err))
	}
	return nil
}

// each runs one statement per record in one transaction and counts the rows it affected.
func (s *SQLite) each(ctx context.Context, records []Record, do func(*sql.Tx, Record) (sql.Result, error)) (count int, err error) {
	if len(records) == 0 {
		return 0, nil
	}
	err = s.transact(ctx, func(tx *sql.Tx) error {
		for _, r := range records {
			result, err := do(tx, r)
			if err != nil {
				return err
			}
			n, err := result.RowsAffected()
			if err != nil {
				return err
			}
			count += int(n)
		}
		return nil
	})
	return count, err
}
