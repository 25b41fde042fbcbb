package admin

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	// fileMode is that of files that SQLite makes.
	fileMode = 0o644
	// walSuffix names SQLite's write-ahead log next to the file.
	walSuffix = "-wal"
)

// errEmptyFile: a store's file has its tables from its first moment (see create), so one that
// has none has lost them. To take it for new would silently give up every decoration.
var errEmptyFile = errors.New("the file holds no tables, which a store always has: it was truncated, or copied " +
	"without its " + walSuffix + " file. Restore it, or remove it to begin without decorations")

// ensure makes the file at path where there is none, and refuses one that is no more what it
// was.
func ensure(ctx context.Context, path string) error {
	// The log is looked for first: whoever writes one has the file already, and nobody ever
	// removes that.
	logged := size(path+walSuffix) > 0
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && logged:
		return fmt.Errorf("the file is gone, but the log of its last writes is still there, %q. "+
			"Restore the file, or remove the log as well to begin without decorations", path+walSuffix)
	case errors.Is(err, fs.ErrNotExist):
		return create(ctx, path)
	case err != nil:
		return err
	case !info.Mode().IsRegular() && !info.IsDir(): // SQLite would wait for ever for what comes out of a pipe
		return errors.New("it is no regular file")
	case info.Mode().IsRegular() && info.Size() == 0:
		// SQLite would take it for new and remove the log, which may be all that is left.
		return errEmptyFile
	}
	return nil
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// create makes a file with all tables under another name, and gives it its own when it is
// complete and on disk. So a crash leaves either no file or a whole one. Of processes that do
// this together one wins, and the others go on with its file.
func create(ctx context.Context, path string) error {
	draft := path + ".new-" + rand.Text()
	defer func() { _ = os.Remove(draft) }() // it has its second name by now, or is of no use
	if err := createDraft(ctx, draft); err != nil {
		return err
	}
	if err := os.Link(draft, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("create the file: %w", err)
	}
	return syncFolder(filepath.Dir(path))
}

func createDraft(ctx context.Context, path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	if err != nil {
		return fmt.Errorf("the file cannot be opened or created: %w", err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("create the file: %w", err)
	}
	// Not in WAL mode, which needs two more files; whoever opens the store switches to it.
	db, err := sql.Open("sqlite", dataSource(path, "DELETE", busyTimeout))
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err == nil {
		if err = upgrade(ctx, tx, 0); err == nil {
			err = tx.Commit()
		} else {
			_ = tx.Rollback() // why it was needed tells more
		}
	}
	return errors.Join(err, db.Close())
}

// syncFolder makes the names in a folder durable, without which a synced file can be lost.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync the folder: %w", err)
	}
	if err := errors.Join(folder.Sync(), folder.Close()); err != nil {
		return fmt.Errorf("sync the folder: %w", err)
	}
	return nil
}
