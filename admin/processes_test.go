package admin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"graphql-limit-count/cost"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// The other process of a test is this test binary, told what to be by its environment.
const (
	roleVariable   = "ADMIN_TEST_ROLE"
	storeVariable  = "ADMIN_TEST_STORE"
	writerVariable = "ADMIN_TEST_WRITER"

	roleContend = "contend" // decorates contendedPaths paths, telling who has each
	roleMix     = "mix"     // makes the calls of a contender, telling what was acknowledged
	roleOnce    = "once"    // writes one decoration for each line of standard input
	roleCrash   = "crash"   // makes the writes of TestAcknowledgedWritesSurviveKills

	contendedPaths = 60
	answerTaken    = "taken"
	answerStored   = "stored"
)

// playRole is the other process. It waits for a line on standard input before it begins, so
// that several begin together.
func playRole(role string) int {
	store, err := OpenSQLite(context.Background(), os.Getenv(storeVariable), SQLiteConfig{Logger: zap.NewNop()})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("ready")
	input := bufio.NewScanner(os.Stdin)
	input.Scan()
	switch role {
	case roleContend:
		err = contend(store, os.Getenv(writerVariable))
	case roleMix:
		err = mix(store, os.Getenv(writerVariable))
	case roleCrash:
		err = crash(store, os.Getenv(writerVariable))
	case roleOnce:
		for n := 0; err == nil && n == 0 || input.Scan(); n++ {
			err = writeOne(store, fmt.Sprintf("once%d", n), fmt.Sprintf("Query.once%d", n))
			fmt.Println(answerStored)
		}
	}
	if err := errors.Join(err, store.Close()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func writeOne(store Store, id, fieldPath string) error {
	_, _, err := store.Put(context.Background(), testDraft("shop", id, fieldPath))
	return err
}

func testDraft(service, id, fieldPath string) Draft {
	return Draft{ServiceID: service, ID: id, FieldPath: fieldPath,
		Value: []byte(fmt.Sprintf(`{"field_path":%q,"add_value":2}`, fieldPath))}
}

func contend(store Store, writer string) error {
	for i := range contendedPaths {
		fieldPath := fmt.Sprintf("Query.field%d", i)
		err := writeOne(store, fmt.Sprintf("%s-%d", writer, i), fieldPath)
		var taken *TakenError
		switch {
		case errors.As(err, &taken):
			fmt.Println(answerTaken, fieldPath, taken.Holder)
		case err != nil:
			return err
		default:
			fmt.Println(answerStored, fieldPath, fmt.Sprintf("%s-%d", writer, i))
		}
	}
	return nil
}

// mix makes the calls of the contender of that name.
func mix(store Store, name string) error {
	c := &contender{store: store, name: name, random: rand.New(rand.NewPCG(2, uint64(name[0])))}
	for n := range contenderCalls {
		c.call(context.Background(), n)
	}
	for _, a := range c.done {
		fmt.Println(a.id, a.revision, a.previous)
	}
	return errors.Join(c.errors...)
}

// process is a running other process.
type process struct {
	command *exec.Cmd
	input   io.WriteCloser
	output  *bufio.Scanner
}

// storeProcess is the command of another process that opens the store in a file.
func storeProcess(t *testing.T, path, role, writer string) *exec.Cmd {
	t.Helper()
	executable, err := os.Executable()
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), executable)
	command.Env = append(os.Environ(), roleVariable+"="+role, storeVariable+"="+path, writerVariable+"="+writer)
	return command
}

func startProcess(t *testing.T, path, role, writer string) *process {
	t.Helper()
	p := &process{command: storeProcess(t, path, role, writer)}
	p.command.Stderr = os.Stderr
	var err error
	p.input, err = p.command.StdinPipe()
	require.NoError(t, err)
	output, err := p.command.StdoutPipe()
	require.NoError(t, err)
	p.output = bufio.NewScanner(output)
	require.NoError(t, p.command.Start())
	require.Equal(t, "ready", p.line(t))
	return p
}

func (p *process) line(t *testing.T) string {
	t.Helper()
	require.True(t, p.output.Scan(), "the other process has ended")
	return p.output.Text()
}

func (p *process) begin(t *testing.T) {
	t.Helper()
	_, err := io.WriteString(p.input, "\n")
	require.NoError(t, err)
}

// end lets the process finish and returns the lines that it still wrote.
func (p *process) end(t *testing.T) []string {
	t.Helper()
	require.NoError(t, p.input.Close())
	lines := p.rest()
	require.NoError(t, p.command.Wait())
	return lines
}

// rest returns the lines that the process writes until it ends.
func (p *process) rest() (lines []string) {
	for p.output.Scan() {
		lines = append(lines, p.output.Text())
	}
	return lines
}

func TestConcurrentProcessesNeverDecorateOnePathTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decorations.db")
	writers := []*process{startProcess(t, path, roleContend, "a"), startProcess(t, path, roleContend, "b")}
	for _, w := range writers {
		w.begin(t)
	}
	held := map[string]string{}
	told := map[string][]string{} // who has the path, as both writers were told
	for _, w := range writers {
		for _, line := range w.end(t) {
			words := strings.Fields(line)
			require.Len(t, words, 3)
			told[words[1]] = append(told[words[1]], words[2])
			if words[0] == answerStored {
				require.Empty(t, held[words[1]], "%s was stored twice", words[1])
				held[words[1]] = words[2]
			}
		}
	}
	require.Len(t, held, contendedPaths)
	records, err := openStore(t, path).List(t.Context(), "shop")
	require.NoError(t, err)
	require.Len(t, records, contendedPaths)
	for _, r := range records {
		require.Equal(t, []string{r.ID, r.ID}, told[r.FieldPath])
	}
}

func TestTwoProcessesLoseNoUpdateAndDecorateNoPathTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decorations.db")
	observer := openStore(t, path)
	models := NewModels(observer, zap.NewNop())
	background(t, func(ctx context.Context) error { return Follow(ctx, observer, models) })
	writers := []*process{startProcess(t, path, roleMix, "a"), startProcess(t, path, roleMix, "b")}
	var done []acknowledged
	lines := make(chan []string, len(writers))
	for _, w := range writers {
		w.begin(t)
	}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for _, w := range writers {
			lines <- w.rest()
		}
	}()
	watchPaths(t, observer, finished)
	for _, w := range writers {
		for _, line := range <-lines {
			var a acknowledged
			_, err := fmt.Sscan(line, &a.id, &a.revision, &a.previous)
			require.NoError(t, err, line)
			done = append(done, a)
		}
		require.Empty(t, w.end(t))
	}
	require.Greater(t, len(done), contenderCalls/2)
	requireNothingLost(t, observer, done)
	require.Eventually(t, func() bool { return sameAsStored(t, models, observer) }, patience, testPoll)
}

func TestAWriteOfAnotherProcessIsInForceWithinASecond(t *testing.T) {
	const changes = 5
	path := filepath.Join(t.TempDir(), "decorations.db")
	// The interval is the default one: it is what keeps the promise.
	store, err := OpenSQLite(t.Context(), path, SQLiteConfig{Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	models := NewModels(store, zap.NewNop())
	require.NoError(t, models.Load(t.Context()))
	background(t, func(ctx context.Context) error { return Follow(ctx, store, models) })
	p := startProcess(t, path, roleOnce, "")
	var before *cost.Model
	var delays []time.Duration
	for range changes {
		p.begin(t)
		require.Equal(t, answerStored, p.line(t))
		written := time.Now()
		require.Eventually(t, func() bool { return models.Model("shop") != before }, patience, testPoll)
		delays = append(delays, time.Since(written))
		before = models.Model("shop")
	}
	p.end(t)
	slices.Sort(delays)
	// The median, because a machine that is busy with other tests may hold up any single one.
	require.Less(t, delays[changes/2], time.Second)
}
