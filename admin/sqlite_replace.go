package admin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
)

// Replace makes the decorations of a service those that plan returns. It plans under the write
// lock, so plan is called once; see Store.
func (s *SQLite) Replace(ctx context.Context, serviceID string, plan func([]Record) ([]Draft, error)) ([]Record, error) {
	var after []Record
	var refusal error
	err := s.transact(ctx, func(tx *sql.Tx) error {
		current, err := listIn(ctx, tx, serviceID)
		if err != nil {
			return err
		}
		wanted, err := plan(current)
		if err != nil {
			refusal = err
			return err
		}
		replacement, err := PlanReplacement(serviceID, current, wanted)
		if err != nil {
			return err
		}
		if err := s.replace(ctx, tx, replacement, current); err != nil {
			return err
		}
		after, err = listIn(ctx, tx, serviceID)
		return err
	})
	if refusal != nil {
		return nil, refusal
	}
	if err != nil {
		return nil, fmt.Errorf("replace the decorations of service %s: %w", serviceID, describe(err))
	}
	return after, nil
}

// replace writes a replacement. Records that are to be written are taken out first, then put
// back: decorations may exchange their field paths, which the unique index would refuse in
// any order of updates.
func (s *SQLite) replace(ctx context.Context, tx *sql.Tx, r Replacement, current []Record) error {
	old := make(map[string]Record, len(current))
	for _, record := range current {
		old[record.ID] = record
	}
	gone := slices.Clone(r.Remove)
	for _, draft := range r.Write {
		if record, exists := old[draft.ID]; exists {
			gone = append(gone, record)
		}
	}
	if err := removeAll(ctx, tx, gone); err != nil {
		return err
	}
	revision, err := nextRevisions(ctx, tx, len(r.Write))
	if err != nil {
		return err
	}
	now := s.now().Unix()
	records := make([]Record, len(r.Write))
	for i, draft := range r.Write {
		at := revision + int64(i)
		records[i] = Record{Draft: draft, CreateTime: now, UpdateTime: now, CreatedIndex: at, ModifiedIndex: at}
		if before, exists := old[draft.ID]; exists {
			records[i].keepCreation(before)
		}
	}
	return insertAll(ctx, tx, records)
}

// removeAll and insertAll prepare their statement once: a set may have thousands of records.
func removeAll(ctx context.Context, tx *sql.Tx, records []Record) (err error) {
	statement, err := tx.PrepareContext(ctx, `DELETE FROM decoration WHERE service_id = ? AND id = ?`)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, statement.Close()) }()
	for _, r := range records {
		if _, err := statement.ExecContext(ctx, r.ServiceID, r.ID); err != nil {
			return err
		}
	}
	return nil
}

func insertAll(ctx context.Context, tx *sql.Tx, records []Record) (err error) {
	statement, err := tx.PrepareContext(ctx, insertStatement)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, statement.Close()) }()
	for _, r := range records {
		if _, err := statement.ExecContext(ctx, r.fields()...); err != nil {
			return err
		}
	}
	return nil
}
