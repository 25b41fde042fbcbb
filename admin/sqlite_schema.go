package admin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

const (
	// applicationID marks the file as this program's ("gqlc"); see PRAGMA application_id.
	applicationID = 0x67716c63
	// schemaVersion is what PRAGMA user_version holds in files of this layout. Raise it with
	// every change of the layout, which goes to the end of layouts.
	schemaVersion = 2
)

// layouts[v] takes a file from version v to v+1; a new file runs through all of them.
//
// A step may only add: while APISIX reloads, a runner of the older version still has the file
// open and goes on with the statements that it knows.
var layouts = [schemaVersion]string{decorationLayout, uploadLayout}

// decorationLayout: revision counts the writes and numbers the records; change counts, per
// service, the changes of what is derived from the store. Triggers keep change, so it is right
// also after a write by hand (with the sqlite3 shell); its rows stay when the last decoration
// goes, so a counter never runs through the same values twice.
const decorationLayout = `
CREATE TABLE decoration (
	service_id     TEXT    NOT NULL,
	id             TEXT    NOT NULL,
	field_path     TEXT    NOT NULL,
	value          TEXT    NOT NULL,
	incarnation    TEXT    NOT NULL DEFAULT '',
	create_time    INTEGER NOT NULL DEFAULT 0,
	update_time    INTEGER NOT NULL DEFAULT 0,
	created_index  INTEGER NOT NULL DEFAULT 0,
	modified_index INTEGER NOT NULL DEFAULT 0,
	PRIMARY KEY (service_id, id)
) STRICT;
CREATE UNIQUE INDEX decoration_field_path ON decoration (service_id, field_path);

CREATE TABLE revision (one INTEGER PRIMARY KEY CHECK (one = 1), number INTEGER NOT NULL) STRICT;
INSERT INTO revision VALUES (1, 0);

CREATE TABLE change (service_id TEXT PRIMARY KEY, number INTEGER NOT NULL) STRICT;
CREATE TRIGGER decoration_inserted AFTER INSERT ON decoration BEGIN
	INSERT INTO change VALUES (NEW.service_id, 1) ON CONFLICT DO UPDATE SET number = number + 1;
END;
CREATE TRIGGER decoration_updated AFTER UPDATE OF service_id, id, field_path, value ON decoration BEGIN
	INSERT INTO change VALUES (OLD.service_id, 1) ON CONFLICT DO UPDATE SET number = number + 1;
	INSERT INTO change VALUES (NEW.service_id, 1) ON CONFLICT DO UPDATE SET number = number + 1;
END;
CREATE TRIGGER decoration_deleted AFTER DELETE ON decoration BEGIN
	INSERT INTO change VALUES (OLD.service_id, 1) ON CONFLICT DO UPDATE SET number = number + 1;
END;
`

// uploadLayout adds the uploaded schemas. The text is the last column: it fills overflow
// pages, which a query of the others then never reads.
const uploadLayout = `
CREATE TABLE upload (
	service_id     TEXT    NOT NULL PRIMARY KEY,
	incarnation    TEXT    NOT NULL DEFAULT '',
	create_time    INTEGER NOT NULL DEFAULT 0,
	update_time    INTEGER NOT NULL DEFAULT 0,
	created_index  INTEGER NOT NULL DEFAULT 0,
	modified_index INTEGER NOT NULL DEFAULT 0,
	text           BLOB    NOT NULL
) STRICT;
CREATE TRIGGER upload_inserted AFTER INSERT ON upload BEGIN
	INSERT INTO change VALUES (NEW.service_id, 1) ON CONFLICT DO UPDATE SET number = number + 1;
END;
CREATE TRIGGER upload_updated AFTER UPDATE OF service_id, text ON upload BEGIN
	INSERT INTO change VALUES (OLD.service_id, 1) ON CONFLICT DO UPDATE SET number = number + 1;
	INSERT INTO change VALUES (NEW.service_id, 1) ON CONFLICT DO UPDATE SET number = number + 1;
END;
CREATE TRIGGER upload_deleted AFTER DELETE ON upload BEGIN
	INSERT INTO change VALUES (OLD.service_id, 1) ON CONFLICT DO UPDATE SET number = number + 1;
END;
`

// prepare checks the file and brings an older one to the present layout, all or nothing. It
// holds the write lock, so of processes that start together one does it and the others find it
// done.
func (s *SQLite) prepare(ctx context.Context) error {
	return s.transact(ctx, func(tx *sql.Tx) error {
		version, err := s.inspect(ctx, tx)
		if err != nil {
			return err
		}
		if err := checkIntegrity(ctx, tx); err != nil {
			return err
		}
		return upgrade(ctx, tx, version)
	})
}

// upgrade takes a file from a version of the layout, 0 for an empty file, to the present one.
func upgrade(ctx context.Context, tx *sql.Tx, version int64) error {
	for ; version < schemaVersion; version++ {
		settings := fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d;", applicationID, version+1)
		if _, err := tx.ExecContext(ctx, layouts[version]+settings); err != nil {
			return fmt.Errorf("create the tables of its schema version %d: %w", version+1, err)
		}
	}
	return nil
}

// inspect returns the file's schema version, or why it cannot be used.
func (s *SQLite) inspect(ctx context.Context, tx *sql.Tx) (int64, error) {
	var application, version, objects int64
	row := tx.QueryRowContext(ctx, `SELECT
		(SELECT application_id FROM pragma_application_id),
		(SELECT user_version FROM pragma_user_version),
		(SELECT count(*) FROM sqlite_schema)`)
	if err := row.Scan(&application, &version, &objects); err != nil {
		return 0, fmt.Errorf("read its version: %w", err)
	}
	switch {
	case application == 0 && version == 0 && objects == 0:
		return 0, errEmptyFile
	case application != applicationID:
		return 0, errors.New("the file is another program's SQLite database")
	case version > schemaVersion:
		return 0, fmt.Errorf("the file has schema version %d, written by a newer version of this program: this one reads up to %d",
			version, schemaVersion)
	case version < 1:
		return 0, fmt.Errorf("the file has the unknown schema version %d", version)
	}
	return version, nil
}

// checkIntegrity reads the whole file once and compares tables with their indexes, in which the
// loss of a part of a page shows: damage is better met when the process starts than later. The
// file is small.
func checkIntegrity(ctx context.Context, tx *sql.Tx) error {
	var verdict string
	if err := tx.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&verdict); err != nil {
		return fmt.Errorf("check its integrity: %w", err)
	}
	if verdict != "ok" {
		return fmt.Errorf("the file is damaged: %s", verdict)
	}
	return nil
}
