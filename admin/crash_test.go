package admin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

const (
	// crashWrites are made in all, by one process after another, each of which is killed,
	// after crashRound writes at the latest.
	crashWrites = 1000
	crashRound  = 160
	crashSeed   = 7
	crashPaths  = 40
)

// crashWrite makes the n-th of a fixed sequence of writes, also when it has been made before,
// and reports whether it was one. The other process makes it in the store, the test in its own
// picture of what must be there.
func crashWrite(store Store, picture map[string]string, n int) error {
	random := rand.New(rand.NewPCG(crashSeed, uint64(n)))
	id := fmt.Sprintf("d%d", random.IntN(crashPaths))
	fieldPath := "Query." + id
	value := fmt.Sprintf(`{"field_path":%q,"add_value":%d}`, fieldPath, n)
	draft := Draft{ServiceID: "shop", ID: id, FieldPath: fieldPath, Value: []byte(value)}
	var err error
	switch kind := random.IntN(10); {
	case kind < 5:
		picture[id] = value
		if store != nil {
			_, _, err = store.Put(context.Background(), draft)
		}
	case kind < 7:
		if picture[id] != "" {
			picture[id] = value
		}
		if store != nil {
			_, err = store.Patch(context.Background(), "shop", id, func(Record) (Draft, error) { return draft, nil })
		}
	case kind < 9:
		delete(picture, id)
		if store != nil {
			err = store.Delete(context.Background(), "shop", id)
		}
	default: // all others go, and this one comes
		clear(picture)
		picture[id] = value
		if store != nil {
			_, err = store.Replace(context.Background(), "shop", plan(draft))
		}
	}
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// crash is the other process: it makes writes from a given one on and tells each that was
// acknowledged, until it is killed.
func crash(store Store, from string) error {
	first, err := strconv.Atoi(from)
	for n := first; err == nil && n < min(first+crashRound, crashWrites); n++ {
		if err = crashWrite(store, map[string]string{}, n); err == nil {
			fmt.Println(n)
		}
	}
	_, waiting := io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, waiting)
}

// What was acknowledged is there after the process was killed with SIGKILL, wherever that met
// it, and of the write that was under way all or nothing.
func TestAcknowledgedWritesSurviveKills(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decorations.db")
	random := rand.New(rand.NewPCG(crashSeed, crashSeed))
	picture := map[string]string{}
	for next := 0; next < crashWrites; {
		p := startProcess(t, path, roleCrash, strconv.Itoa(next))
		p.begin(t)
		most := min(crashRound, crashWrites-next)
		readAcknowledged(t, p.output, picture, &next, 1+random.IntN(most))
		time.Sleep(time.Duration(random.IntN(int(2 * time.Millisecond)))) // a write takes about as long
		require.NoError(t, p.command.Process.Kill())
		readAcknowledged(t, p.output, picture, &next, crashRound)
		require.Error(t, p.command.Wait())
		next += requireStored(t, path, picture, next)
	}
}

// readAcknowledged reads up to limit acknowledgements and makes the writes in the picture.
func readAcknowledged(t *testing.T, output *bufio.Scanner, picture map[string]string, next *int, limit int) {
	t.Helper()
	for i := 0; i < limit && output.Scan(); i++ {
		require.Equal(t, strconv.Itoa(*next), output.Text())
		require.NoError(t, crashWrite(nil, picture, *next))
		*next++
	}
}

// requireStored compares the store with the picture. It returns 1, and brings the picture up to
// date, when the write that was under way has been made without being acknowledged.
func requireStored(t *testing.T, path string, picture map[string]string, underWay int) int {
	t.Helper()
	store, err := OpenSQLite(t.Context(), path, SQLiteConfig{Logger: zap.NewNop()})
	require.NoError(t, err)
	records, err := store.List(t.Context(), "shop")
	require.NoError(t, err)
	models := NewModels(store, zap.NewNop())
	require.NoError(t, models.Load(t.Context()))
	require.Equal(t, len(records) > 0, models.Model("shop") != nil)
	require.Len(t, models.sources["shop"], len(records))
	require.NoError(t, store.Close())
	stored := map[string]string{}
	for _, r := range records {
		stored[r.ID] = string(r.Value)
	}
	acknowledged := fmt.Sprint(picture)
	if fmt.Sprint(stored) == acknowledged || underWay >= crashWrites {
		require.Equal(t, picture, stored)
		return 0
	}
	require.NoError(t, crashWrite(nil, picture, underWay))
	require.Equal(t, picture, stored, "neither what was acknowledged, %s, nor write %d on top of it", acknowledged, underWay)
	return 1
}

// TestANewStoreIsWholeOrNotThere kills processes while they create the file.
func TestANewStoreIsWholeOrNotThere(t *testing.T) {
	const kills = 10
	random := rand.New(rand.NewPCG(crashSeed, 0))
	dir := t.TempDir()
	for i := range kills {
		path := filepath.Join(dir, fmt.Sprintf("%d.db", i))
		command := storeProcess(t, path, roleCrash, "0")
		_, err := command.StdinPipe() // on which it waits: it must not end before it is killed
		require.NoError(t, err)
		require.NoError(t, command.Start())
		// From before the process runs to when it has opened the store.
		time.Sleep(time.Duration(random.IntN(int(60 * time.Millisecond))))
		require.NoError(t, command.Process.Kill())
		require.Error(t, command.Wait())
		openAndClose(t, path)
	}
	drafts, err := filepath.Glob(filepath.Join(dir, "*.new-*"))
	require.NoError(t, err)
	for _, draft := range drafts { // what a kill left behind is never taken for a store
		require.NoError(t, os.Remove(draft))
	}
}
