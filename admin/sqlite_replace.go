package admin

import (
	"context"
	"database/sql"
	"fmt"
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
	gone := r.Remove
	for _, draft := range r.Write {
		if record, exists := old[draft.ID]; exists {
			gone = append(gone, record)
		}
	}
	for _, record := range gone {
		if _, err := tx.ExecContext(ctx, `DELETE FROM decoration WHERE service_id = ? AND id = ?`, record.ServiceID, record.ID); err != nil {
			return err
		}
	}
	now := s.now().Unix()
	for _, draft := range r.Write {
		revision, err := nextRevision(ctx, tx)
		if err != nil {
			return err
		}
		record := Record{Draft: draft, CreateTime: now, UpdateTime: now, CreatedIndex: revision, ModifiedIndex: revision}
		if before, exists := old[draft.ID]; exists {
			record.keepCreation(before)
		}
		if err := insert(ctx, tx, record); err != nil {
			return err
		}
	}
	return nil
}
