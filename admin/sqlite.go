package admin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

const (
	// busyTimeout is how long a write waits for the writer of another process. A write
	// takes milliseconds, so only a stuck process makes it wait.
	busyTimeout = 5 * time.Second
	// openTimeout bounds opening: processes that start together take turns in creating the
	// file and in switching it to WAL.
	openTimeout = 10 * time.Second
	// openRetry is the pause between two attempts of it.
	openRetry = 20 * time.Millisecond
	// maxConnections: writes take turns anyway, reads are short.
	maxConnections = 4

	directoryMode = 0o755
)

// SQLiteConfig holds the settings of the embedded store. The zero value of every field but
// Logger is a usable default.
type SQLiteConfig struct {
	// Logger is told when the store cannot be followed, at most once a minute. Required.
	Logger *zap.Logger
	// PollInterval is how often Watch looks for commits of other processes. Default 200 ms.
	PollInterval time.Duration
	// Now is the clock of create_time and update_time. Default time.Now.
	Now func() time.Time
}

// SQLite is the embedded store: one file, which several processes of a host may have open.
//
// The file is in WAL mode, so readers never wait for a writer, and synchronous=FULL, so a
// write that returned has been synced to disk and survives a killed process as well as a
// power loss. (With NORMAL, WAL syncs only at checkpoints: a killed process would lose
// nothing, a power loss could lose acknowledged writes.) Writes take the file's write lock
// when they begin (BEGIN IMMEDIATE); a unique index keeps a field path to one decoration.
type SQLite struct {
	db     *sql.DB
	path   string
	poll   time.Duration
	now    func() time.Time
	logger *throttled
}

var _ Store = (*SQLite)(nil)

// OpenSQLite opens the store in the file at path and creates it, and its folder, where they
// do not exist. A file that is damaged or has become empty, that another program wrote or that
// a newer version of this one wrote is an error that says so. Close releases it.
func OpenSQLite(ctx context.Context, path string, cfg SQLiteConfig) (*SQLite, error) {
	s := &SQLite{path: path, poll: cfg.PollInterval, now: cfg.Now, logger: newThrottled(cfg.Logger)}
	if s.poll <= 0 {
		s.poll = defaultPollInterval
	}
	if s.now == nil {
		s.now = time.Now
	}
	if err := s.open(ctx); err != nil {
		return nil, fmt.Errorf("open decoration store %q: %w", path, err)
	}
	return s, nil
}

func (s *SQLite) open(ctx context.Context) error {
	absolute, err := filepath.Abs(s.path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(absolute), directoryMode); err != nil {
		return fmt.Errorf("create its folder: %w", err)
	}
	if err := ensure(ctx, absolute); err != nil {
		return describe(err)
	}
	db, err := sql.Open("sqlite", dataSource(absolute, "WAL"))
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(maxConnections)
	db.SetMaxIdleConns(maxConnections)
	s.db = db
	if err := s.prepareRetrying(ctx); err != nil {
		return errors.Join(describe(err), db.Close())
	}
	return nil
}

// dataSource names the file as a URI, in which a path may hold any character.
func dataSource(path, journal string) string {
	settings := url.Values{
		"_busy_timeout": {fmt.Sprint(busyTimeout.Milliseconds())},
		"_txlock":       {"immediate"},
		"_pragma":       {"journal_mode(" + journal + ")", "synchronous(FULL)"},
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: settings.Encode()}).String()
}

// prepareRetrying retries while the file is locked: SQLite does not wait by itself for the
// lock that the switch to WAL needs.
func (s *SQLite) prepareRetrying(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	for {
		err := s.prepare(ctx)
		if err == nil || !hasCode(err, sqlite3.SQLITE_BUSY) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(openRetry):
		}
	}
}

// Close releases the file. It must come after the last call of every other method.
func (s *SQLite) Close() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close decoration store %q: %w", s.path, err)
	}
	return nil
}

// transact runs do in a transaction that holds the write lock, and commits it unless do
// fails.
func (s *SQLite) transact(ctx context.Context, do func(tx *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		// The rollback's own error tells nothing more: the transaction is gone either way.
		_ = tx.Rollback()
		return err
	}
	return tx.Commit()
}

// hasCode tells whether err is SQLite's with that primary result code.
func hasCode(err error, code int) bool {
	var failure *sqlite.Error
	const primary = 0xff // an extended code keeps the primary one in its low byte
	return errors.As(err, &failure) && failure.Code()&primary == code
}

// errBusy means that another process has held the write lock for longer than busyTimeout.
var errBusy = errors.New("another process has the file locked")

// describe puts plain words before SQLite's for the faults that an operator can meet.
func describe(err error) error {
	switch {
	case hasCode(err, sqlite3.SQLITE_BUSY):
		return fmt.Errorf("%w: %w", errBusy, err)
	case hasCode(err, sqlite3.SQLITE_NOTADB):
		return fmt.Errorf("the file is not an SQLite database or is damaged: %w", err)
	case hasCode(err, sqlite3.SQLITE_CORRUPT):
		return fmt.Errorf("the file is damaged: %w", err)
	case hasCode(err, sqlite3.SQLITE_CANTOPEN):
		return fmt.Errorf("the file cannot be opened or created: %w", err)
	case hasCode(err, sqlite3.SQLITE_READONLY):
		return fmt.Errorf("the file or its folder cannot be written: %w", err)
	}
	return err
}
