package admin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"
)

// defaultPollInterval leaves room for four missed polls in the second within which a change
// must be followed. A poll is one read of shared memory.
const defaultPollInterval = 200 * time.Millisecond

// Watch follows the store; see Store.
//
// Each poll asks PRAGMA data_version, which changes when any other connection, of this
// process or another, commits. Only then the change counters are read and compared with
// those of the previous round. Because counters are compared and not events awaited, no
// change is lost however many fall between two polls, and a failed poll catches up later.
func (s *SQLite) Watch(ctx context.Context, changed func(services []string) error) error {
	w := &watcher{store: s, changed: changed, seen: map[string]int64{}}
	defer w.release()
	ticker := time.NewTicker(s.poll)
	defer ticker.Stop()
	for {
		if err := w.round(ctx); err != nil && ctx.Err() == nil {
			s.logger.Error("decoration store cannot be followed, the last good models stay in force",
				zap.String("path", s.path), zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// watcher is the state of one Watch.
type watcher struct {
	store   *SQLite
	changed func([]string) error
	conn    *sql.Conn        // one connection: data_version compares with its own last answer
	version int64            // the last data_version; meaningful while conn is open
	behind  bool             // the last round did not finish
	told    bool             // changed has been called
	seen    map[string]int64 // the change counters that changed was told of
}

// round is one poll. After an error the connection is given up: whatever was wrong with it,
// the next round starts on a fresh one and compares all counters.
func (w *watcher) round(ctx context.Context) error {
	err := w.poll(ctx)
	w.behind = err != nil
	if err != nil {
		w.release()
	}
	return err
}

func (w *watcher) poll(ctx context.Context) error {
	fresh := w.conn == nil
	if fresh {
		conn, err := w.store.db.Conn(ctx)
		if err != nil {
			return fmt.Errorf("connect: %w", describe(err))
		}
		w.conn = conn
	}
	// The version is read before the counters: a commit between the two is seen twice, not
	// missed.
	var version int64
	if err := w.conn.QueryRowContext(ctx, "PRAGMA data_version").Scan(&version); err != nil {
		return fmt.Errorf("read the data version: %w", describe(err))
	}
	if !fresh && !w.behind && version == w.version {
		return nil
	}
	counters, err := w.counters(ctx)
	if err != nil {
		return fmt.Errorf("read the change counters: %w", describe(err))
	}
	if err := w.tell(counters); err != nil {
		return err
	}
	w.version = version
	return nil
}

// tell calls changed with the services whose counters moved.
func (w *watcher) tell(counters map[string]int64) error {
	var services []string
	for service, number := range counters {
		if w.seen[service] != number {
			services = append(services, service)
		}
	}
	if len(services) == 0 && w.told {
		return nil
	}
	slices.Sort(services)
	if err := w.changed(services); err != nil {
		return err
	}
	w.told = true
	maps.Copy(w.seen, counters)
	return nil
}

func (w *watcher) counters(ctx context.Context) (counters map[string]int64, err error) {
	rows, err := w.conn.QueryContext(ctx, "SELECT service_id, number FROM change")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	counters = map[string]int64{}
	for rows.Next() {
		var service string
		var number int64
		if err := rows.Scan(&service, &number); err != nil {
			return nil, err
		}
		counters[service] = number
	}
	return counters, rows.Err()
}

// release gives the connection back. Its error tells nothing: the next round opens another.
func (w *watcher) release() {
	if w.conn != nil {
		_ = w.conn.Close()
		w.conn = nil
	}
}
