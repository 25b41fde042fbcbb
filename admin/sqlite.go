package admin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

const (
	// busyTimeout is how long a write waits for its turn, and a read for a file that is
	// being recovered. A write takes milliseconds, so only a stuck process makes it wait.
	busyTimeout = 5 * time.Second
	// turnRetry is the mean pause between two attempts of a write to get its turn from
	// another process. It is much less than a write takes: SQLite's own waiting, with pauses
	// of up to 100 ms, hardly ever meets the moment between two writes of a busy process.
	turnRetry = time.Millisecond
	// openTimeout bounds opening: processes that start together take turns in creating the
	// file and in switching it to WAL.
	openTimeout = 10 * time.Second
	// openRetry is the pause between two attempts of it.
	openRetry = 20 * time.Millisecond
	// maxReaders is the number of connections for reading; reads are short.
	maxReaders = 4

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
// when they begin (BEGIN IMMEDIATE), in this process one after the other in the order in which
// they came; a unique index keeps a field path to one decoration.
type SQLite struct {
	db     *sql.DB // for reading
	writer *sql.DB // one connection
	path   string
	poll   time.Duration
	busy   time.Duration // busyTimeout, for writes
	now    func() time.Time
	logger *throttled
}

var _ Store = (*SQLite)(nil)

// OpenSQLite opens the store in the file at path and creates it, and its folder, where they
// do not exist. A file that is damaged or has become empty, that another program wrote or that
// a newer version of this one wrote is an error that says so. Close releases it.
func OpenSQLite(ctx context.Context, path string, cfg SQLiteConfig) (*SQLite, error) {
	s := &SQLite{path: path, poll: cfg.PollInterval, busy: busyTimeout, now: cfg.Now, logger: newThrottled(cfg.Logger)}
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
	if s.db, err = openPool(absolute, busyTimeout, maxReaders); err != nil {
		return err
	}
	// A write waits for its turn in begin, not in SQLite.
	if s.writer, err = openPool(absolute, 0, 1); err != nil {
		return errors.Join(err, s.db.Close())
	}
	if err := s.prepareRetrying(ctx); err != nil {
		return errors.Join(describe(err), s.db.Close(), s.writer.Close())
	}
	return nil
}

func openPool(path string, busy time.Duration, connections int) (*sql.DB, error) {
	db, err := sql.Open("sqlite", dataSource(path, "WAL", busy))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

// dataSource names the file as a URI, in which a path may hold any character.
func dataSource(path, journal string, busy time.Duration) string {
	settings := url.Values{
		"_busy_timeout": {fmt.Sprint(busy.Milliseconds())},
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
	if err := errors.Join(s.db.Close(), s.writer.Close()); err != nil {
		return fmt.Errorf("close decoration store %q: %w", s.path, err)
	}
	return nil
}

// transact runs do in a transaction that holds the write lock, and commits it unless do
// fails.
func (s *SQLite) transact(ctx context.Context, do func(tx *sql.Tx) error) error {
	conn, tx, err := s.begin(ctx)
	if err != nil {
		return err
	}
	// It goes back to the pool, which tells nothing about the transaction.
	defer func() { _ = conn.Close() }()
	if err := do(tx); err != nil {
		// The rollback's own error tells nothing more: the transaction is gone either way.
		_ = tx.Rollback()
		return err
	}
	return tx.Commit()
}

// begin waits for the turn of a write, first among those of this process and then for those of
// others.
func (s *SQLite) begin(ctx context.Context) (*sql.Conn, *sql.Tx, error) {
	waiting, cancel := context.WithTimeout(ctx, s.busy)
	defer cancel()
	for {
		conn, err := s.writer.Conn(waiting)
		if err == nil {
			var tx *sql.Tx
			if tx, err = takeTurn(ctx, waiting, conn); err == nil {
				return conn, tx, nil
			}
			err = errors.Join(err, conn.Close())
		}
		if waiting.Err() != nil && ctx.Err() == nil {
			return nil, nil, fmt.Errorf("%w: %w", errBusy, err)
		}
		if !hasCode(err, sqlite3.SQLITE_BUSY) || !awaitTurn(waiting) {
			return nil, nil, err
		}
	}
}

// takeTurn begins a transaction of ctx as soon as no other process writes, or fails when
// waiting ends.
func takeTurn(ctx, waiting context.Context, conn *sql.Conn) (*sql.Tx, error) {
	for {
		tx, err := conn.BeginTx(ctx, nil)
		if err == nil || !hasCode(err, sqlite3.SQLITE_BUSY) || !awaitTurn(waiting) {
			return tx, err
		}
	}
}

// awaitTurn waits until the next attempt is due and tells whether there is one before ctx ends.
// The pauses differ, so that two processes do not keep missing the same moments.
func awaitTurn(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(turnRetry/2 + rand.N(turnRetry)):
		return true
	}
}

// hasCode tells whether err is SQLite's with that primary result code.
func hasCode(err error, code int) bool {
	var failure *sqlite.Error
	const primary = 0xff // an extended code keeps the primary one in its low byte
	return errors.As(err, &failure) && failure.Code()&primary == code
}

// errBusy means that a write did not get its turn within busyTimeout.
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
