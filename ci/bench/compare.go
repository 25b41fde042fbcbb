package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// usualTurn is how long one side of a comparison runs before the other one does: long
	// against the clock's grain and a time slice of the scheduler, short against what
	// else comes and goes on the machine.
	usualTurn = 50 * time.Millisecond
	// minRounds is how often each side has its turn at least, whatever the budget.
	minRounds = 5
	// maxGrowth bounds how much longer the next calibration run is than the last.
	maxGrowth = 10
	// overshoot is by how much a calibration run aims beyond a turn, so that one more is
	// rarely needed.
	overshoot = 1.2
)

// schedule says how long a measurement may take in all, and each turn of it.
type schedule struct{ budget, turn time.Duration }

// side is one of the two that are compared: it does an operation n times and says how
// long that took.
type side func(ctx context.Context, n int) (time.Duration, error)

// repeat is the side that runs an operation in this goroutine. Its time is the processor
// time of its thread: on a quiet machine that is the time that passes, on a busy one
// what else runs there is left out, for either side. What the collector of garbage does on
// the other processor meanwhile is left out as well.
func repeat(operation func() error) side {
	return func(_ context.Context, n int) (time.Duration, error) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		start, err := threadTime()
		for ; n > 0 && err == nil; n-- {
			err = operation()
		}
		end, endErr := threadTime()
		return end - start, errors.Join(err, endErr)
	}
}

// repeatInProcess is the side that runs an operation in this goroutine, but takes the
// processor time of the whole process, the collection of garbage included, where the peer
// is a process that can say no other.
func repeatInProcess(operation func() error) side {
	return func(_ context.Context, n int) (time.Duration, error) {
		start, err := processTime()
		for ; n > 0 && err == nil; n-- {
			err = operation()
		}
		end, endErr := processTime()
		return end - start, errors.Join(err, endErr)
	}
}

// processTime is the processor time that this process has taken so far.
func processTime() (time.Duration, error) {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		return 0, fmt.Errorf("reading the process's clock: %w", err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), nil
}

// threadTime is the processor time that this thread has taken so far.
func threadTime() (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0, fmt.Errorf("reading the thread's clock: %w", err)
	}
	return time.Duration(t.Nano()), nil
}

// spread is what a series of measurements says: its median and quartiles.
type spread struct{ low, median, high float64 }

// newSpread sorts the measurements, of which there is at least one.
func newSpread(measured []float64) spread {
	slices.Sort(measured)
	at := func(part float64) float64 {
		place := part * float64(len(measured)-1)
		below := int(place)
		above := min(below+1, len(measured)-1)
		return measured[below] + (place-float64(below))*(measured[above]-measured[below])
	}
	return spread{low: at(0.25), median: at(0.5), high: at(0.75)}
}

// comparison is how two sides did: nanoseconds an operation takes each, and the
// peer's time over ours, round by round.
type comparison struct {
	ours, peer, ratio spread
	rounds            int
}

// compare lets the two sides run by turns, for about the budget and at least minRounds. What makes the machine
// slow for a while hits both turns of a round, so each round's ratio stands for itself;
// who comes first changes from round to round. Garbage that one side has left is
// collected before the other one's turn.
func compare(ctx context.Context, s schedule, ours, peer side) (comparison, error) {
	n, err := calibrate(ctx, s.turn, ours)
	if err != nil {
		return comparison{}, fmt.Errorf("measuring ours: %w", err)
	}
	m, err := calibrate(ctx, s.turn, peer)
	if err != nil {
		return comparison{}, fmt.Errorf("measuring the peer: %w", err)
	}
	var oursTook, peerTook, ratios []float64
	for start := time.Now(); len(ratios) < minRounds || time.Since(start) < s.budget; {
		first, second := measurement{ours, n}, measurement{peer, m}
		swapped := len(ratios)%2 == 1
		if swapped {
			first, second = second, first
		}
		a, err := first.settled(ctx)
		if err != nil {
			return comparison{}, err
		}
		b, err := second.settled(ctx)
		if err != nil {
			return comparison{}, err
		}
		if swapped {
			a, b = b, a
		}
		oursTook, peerTook, ratios = append(oursTook, a), append(peerTook, b), append(ratios, b/a)
	}
	return comparison{
		ours: newSpread(oursTook), peer: newSpread(peerTook), ratio: newSpread(ratios), rounds: len(ratios),
	}, nil
}

// measurement is so many operations of a side.
type measurement struct {
	side side
	n    int
}

// settled collects garbage, lets the side run and returns nanoseconds for an operation.
func (m measurement) settled(ctx context.Context) (float64, error) {
	runtime.GC()
	took, err := m.side(ctx, m.n)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return 0, err
	}
	return float64(took.Nanoseconds()) / float64(m.n), nil
}

// calibrate finds how many operations fill a turn, which warms the side up as well.
func calibrate(ctx context.Context, turn time.Duration, s side) (int, error) {
	for n := 1; ; {
		took, err := s(ctx, n)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return 0, err
		}
		if took >= turn/2 {
			return max(int(float64(n)*float64(turn)/float64(took)), 1), nil
		}
		n = int(float64(n)*min(maxGrowth, overshoot*float64(turn)/float64(max(took, 1)))) + 1
	}
}

// alone measures one side that has no rival: nanoseconds for an operation.
func alone(ctx context.Context, s schedule, of side) (spread, error) {
	n, err := calibrate(ctx, s.turn, of)
	if err != nil {
		return spread{}, err
	}
	var took []float64
	for start := time.Now(); len(took) < minRounds || time.Since(start) < s.budget; {
		one, err := measurement{of, n}.settled(ctx)
		if err != nil {
			return spread{}, err
		}
		took = append(took, one)
	}
	return newSpread(took), nil
}
