package admin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// columns are read in the order in which scan expects them.
const columns = `service_id, id, field_path, value, incarnation, create_time, update_time, created_index, modified_index`

// List returns the decorations of a service, ordered by id.
func (s *SQLite) List(ctx context.Context, serviceID string) ([]Record, error) {
	records, err := listIn(ctx, s.db, serviceID)
	if err != nil {
		return nil, fmt.Errorf("list decorations of service %s: %w", serviceID, describe(err))
	}
	return records, nil
}

// All returns the decorations of all services, ordered by service and id.
func (s *SQLite) All(ctx context.Context) ([]Record, error) {
	records, err := query(ctx, s.db, `SELECT `+columns+` FROM decoration ORDER BY service_id, id`)
	if err != nil {
		return nil, fmt.Errorf("list decorations: %w", describe(err))
	}
	return records, nil
}

// Get returns one decoration, or ErrNotFound.
func (s *SQLite) Get(ctx context.Context, serviceID, id string) (Record, error) {
	record, err := get(ctx, s.db, serviceID, id)
	if err != nil {
		return Record{}, fmt.Errorf("get decoration %s of service %s: %w", id, serviceID, describe(err))
	}
	return record, nil
}

// querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func query(ctx context.Context, db querier, statement string, args ...any) (records []Record, err error) {
	rows, err := db.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var r Record
		var value string
		if err := rows.Scan(&r.ServiceID, &r.ID, &r.FieldPath, &value, &r.Incarnation,
			&r.CreateTime, &r.UpdateTime, &r.CreatedIndex, &r.ModifiedIndex); err != nil {
			return nil, err
		}
		r.Value = []byte(value)
		records = append(records, r)
	}
	return records, rows.Err()
}

func listIn(ctx context.Context, db querier, serviceID string) ([]Record, error) {
	return query(ctx, db, `SELECT `+columns+` FROM decoration WHERE service_id = ? ORDER BY id`, serviceID)
}

func get(ctx context.Context, db querier, serviceID, id string) (Record, error) {
	records, err := query(ctx, db, `SELECT `+columns+` FROM decoration WHERE service_id = ? AND id = ?`, serviceID, id)
	if err != nil {
		return Record{}, err
	}
	if len(records) == 0 {
		return Record{}, ErrNotFound
	}
	return records[0], nil
}
