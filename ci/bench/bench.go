// Command bench measures graphql-limit-count against its peers, side by side in one run,
// and how its time grows with size. It prints tables and ends with lines for machines:
//
//	NUMBER <name> <value>    a time, a count or a size, in the unit that its name ends with
//	GROWTH <name> <exponent> e where time grows as size to the power of e: 1 linear, 0 flat
//	RATIO <name> <value>     the peer's time over ours, above 1 is faster
//
// It is run by `make bench`; docs/benchmarks.md says what each line measures. It ends with
// status 1 when something could not be measured, not when a target is missed: whether a
// number is good depends on the machine.
//
// The rivals are dependencies of this module alone.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"
)

// defaultSeconds is how long a comparison takes by default.
const defaultSeconds = 5

// defaultChurn is how many unique queries go through the plan cache by default.
const defaultChurn = 1_000_000

// bench is a run.
type bench struct {
	*report
	// schedule is that of a comparison of two things in this process.
	schedule schedule
	// churn is how many unique queries go through the plan cache.
	churn int
	// folder holds what is built and installed for this run; it is removed at the end.
	folder string
}

// sections are what is measured, in order. Those that need a quiet heap come before those
// that fill it.
var sections = []struct {
	name string
	run  func(*bench, context.Context) error
}{
	{"plans", (*bench).plans},
	{"node", (*bench).node},
	{"request", (*bench).request},
	{"bodies", (*bench).bodies},
	{"wire", (*bench).wire},
	{"counters", (*bench).counters},
	{"hostile", (*bench).hostile},
	{"growth", (*bench).growth},
	{"churn", (*bench).churnPlans},
}

func main() {
	if len(os.Args) > 1 {
		if child, ok := children[os.Args[1]]; ok {
			exit(child(os.Args[2:]))
		}
	}
	exit(run())
}

// children are what this program starts itself as, for peers in processes of their own.
var children = map[string]func(args []string) error{
	pingpongChild: servePingpong,
	churnChild:    churnAlone,
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: "+err.Error())
		os.Exit(1)
	}
	os.Exit(0)
}

func run() (err error) {
	seconds := flag.Float64("seconds", defaultSeconds, "seconds that each comparison takes, about: fewer are less exact")
	only := flag.String("only", ".", "regular expression of the sections to run: "+sectionNames())
	churn := flag.Int("churn", defaultChurn, "unique queries that go through the plan cache")
	profile := flag.String("cpuprofile", "", "file for a profile of this process, whose sections -only chooses")
	flag.Parse()
	chosen, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("reading -only: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	stopProfile, err := startProfile(*profile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopProfile()) }()
	folder, err := os.MkdirTemp("", "glc-bench")
	if err != nil {
		return fmt.Errorf("making a folder for what is built: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	b := &bench{
		report:   newReport(os.Stdout),
		schedule: schedule{budget: time.Duration(*seconds * float64(time.Second)), turn: usualTurn},
		churn:    *churn, folder: folder,
	}
	return b.runSections(ctx, chosen)
}

// startProfile profiles this process into a file, if one is named.
func startProfile(file string) (stop func() error, err error) {
	if file == "" {
		return func() error { return nil }, nil
	}
	to, err := os.Create(file)
	if err != nil {
		return nil, fmt.Errorf("making the profile: %w", err)
	}
	if err := pprof.StartCPUProfile(to); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the profile: %w", err), to.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return to.Close()
	}, nil
}

// runSections runs the sections chosen. One that fails does not keep the others from
// running.
func (b *bench) runSections(ctx context.Context, chosen *regexp.Regexp) error {
	b.note("%s %s/%s, %d processors, %s", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), processor())
	var failures []error
	for _, s := range sections {
		if !chosen.MatchString(s.name) || ctx.Err() != nil {
			continue
		}
		start := time.Now()
		if err := s.run(b, ctx); err != nil {
			failures = append(failures, fmt.Errorf("section %s: %w", s.name, err))
			b.note("\nFAILED: section %s: %v", s.name, err)
		}
		b.note("\n(%s took %.0f s)", s.name, time.Since(start).Seconds())
	}
	b.end()
	return errors.Join(append(failures, ctx.Err())...)
}

func sectionNames() string {
	names := make([]string, len(sections))
	for i, s := range sections {
		names[i] = s.name
	}
	return strings.Join(names, ", ")
}

// processor names the processor, as Linux tells it.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "processor unknown"
	}
	for line := range strings.Lines(string(text)) {
		if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "processor unknown"
}

// productFolder is the folder of the product's module. This program runs in its own, two
// levels below.
func productFolder() (string, error) {
	folder, err := filepath.Abs(filepath.Join("..", ".."))
	if err == nil {
		_, err = os.Stat(filepath.Join(folder, "cmd", "graphql-limit-count"))
	}
	if err != nil {
		return "", fmt.Errorf("finding the product's source (run this in ci/bench): %w", err)
	}
	return folder, nil
}
