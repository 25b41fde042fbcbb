package introspect

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"graphql-limit-count/cost"
)

// writeForever is the environment variable that turns this test binary into a process that
// writes schemas into the folder it names until it is killed.
const writeForever = "INTROSPECT_TEST_WRITE_INTO"

// crashKeys is how many files that process writes, in turn.
const crashKeys = 5

func crashKey(i int) key { return key{kind: ownedByService, owner: strconv.Itoa(i % crashKeys)} }

// numbered is an introspection response of some size that holds a number.
func numbered(n int) []byte {
	return []byte(schemaWith("n"+strconv.Itoa(n), strings.Repeat("x", 100_000)))
}

// keepWriting prints the number of each schema once it is written.
func keepWriting(dir string) {
	d := newDisk(dir, crashKeys, maxResponseBytes, zap.NewNop())
	for n := 0; ; n++ {
		d.save(crashKey(n), content{body: numbered(n)}, time.Now(), false, func() bool { return true })
		fmt.Println(n)
	}
}

// TestAKilledProcessLeavesOnlyWholeFiles: whenever it is killed, each file is one of those that
// were written last, and the next process writes on.
func TestAKilledProcessLeavesOnlyWholeFiles(t *testing.T) {
	rounds, maxWrites := 4, 4
	if os.Getenv("GRAPHQL_LIMIT_COUNT_LONG") != "" {
		rounds, maxWrites = 200, 20
	}
	random := rand.New(rand.NewPCG(1, 2))
	dir := t.TempDir()
	for range rounds {
		process := exec.Command(os.Args[0])
		process.Env = append(os.Environ(), writeForever+"="+dir)
		output, err := process.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, process.Start())
		lines := bufio.NewScanner(output)
		for range random.IntN(maxWrites) + crashKeys {
			require.True(t, lines.Scan(), "the process writes on")
		}
		// Somewhere in the writing of the next one.
		time.Sleep(time.Duration(random.IntN(2_000)) * time.Microsecond)
		require.NoError(t, process.Process.Kill())
		written := -1
		for ok := true; ok; ok = lines.Scan() {
			written, err = strconv.Atoi(lines.Text())
			require.NoError(t, err)
		}
		_ = process.Wait() // it was killed
		requireWhole(t, dir, written)
	}
	unfinished := 0
	for _, name := range files(t, dir) {
		if strings.HasPrefix(name, tempPrefix) {
			unfinished++
		}
	}
	require.LessOrEqual(t, unfinished, rounds)
}

// requireWhole checks every file of a process that said that it had written a number.
func requireWhole(t *testing.T, dir string, written int) {
	t.Helper()
	core, logs := observer.New(zap.WarnLevel)
	d := newDisk(dir, crashKeys, maxResponseBytes, zap.New(core))
	for n := written - crashKeys + 1; n <= written; n++ {
		c, _, ok := d.load(crashKey(n))
		require.True(t, ok, "%v", logs.All())
		schema, err := cost.ParseIntrospection(c.body)
		require.NoError(t, err)
		// The one after the last may be there or not.
		require.True(t, hasField(schema, fmt.Sprintf("n%d", n)) || hasField(schema, fmt.Sprintf("n%d", n+crashKeys)))
	}
}
