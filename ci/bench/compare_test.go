package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSpreadIsTheMedianAndTheQuartiles(t *testing.T) {
	require.Equal(t, spread{low: 2, median: 3, high: 4}, newSpread([]float64{5, 1, 4, 2, 3}))
	require.Equal(t, spread{low: 1.75, median: 2.5, high: 3.25}, newSpread([]float64{4, 3, 2, 1}))
	require.Equal(t, spread{low: 7, median: 7, high: 7}, newSpread([]float64{7}))
}

// taking is a side whose operations take exactly that long each.
func taking(each time.Duration) side {
	return func(_ context.Context, n int) (time.Duration, error) { return time.Duration(n) * each, nil }
}

func TestRatioIsThePeersTimeOverOurs(t *testing.T) {
	c, err := compare(context.Background(), schedule{turn: time.Second}, taking(2*time.Microsecond), taking(5*time.Microsecond))
	require.NoError(t, err)
	require.Equal(t, comparison{
		ours: spread{2000, 2000, 2000}, peer: spread{5000, 5000, 5000}, ratio: spread{2.5, 2.5, 2.5}, rounds: minRounds,
	}, c)
}

func TestAFailingSideEndsAComparison(t *testing.T) {
	broken := errors.New("broken")
	failing := func(context.Context, int) (time.Duration, error) { return 0, broken }
	_, err := compare(context.Background(), schedule{turn: time.Second}, taking(1), failing)
	require.ErrorIs(t, err, broken)
	_, err = compare(context.Background(), schedule{turn: time.Second}, failing, taking(1))
	require.ErrorIs(t, err, broken)
	_, err = alone(context.Background(), schedule{turn: time.Second}, failing)
	require.ErrorIs(t, err, broken)
}

func TestCalibrationFillsATurn(t *testing.T) {
	for _, each := range []time.Duration{1, time.Microsecond, time.Millisecond, time.Second} {
		n, err := calibrate(context.Background(), 100*time.Millisecond, taking(each))
		require.NoError(t, err)
		require.Equal(t, max(int(100*time.Millisecond/each), 1), n)
	}
}

func TestExponentIsThatOfThePower(t *testing.T) {
	curve := func(time func(size float64) float64) (points []point) {
		for _, size := range []int{1, 10, 100, 1000} {
			points = append(points, point{size, spread{median: time(float64(size))}})
		}
		return points
	}
	flat := curve(func(float64) float64 { return 7 })
	linear := curve(func(size float64) float64 { return 3 * size })
	square := curve(func(size float64) float64 { return size * size })
	for want, points := range map[float64][]point{0: flat, 1: linear, 2: square} {
		require.InDelta(t, want, exponent(points), 1e-9)
		require.InDelta(t, want, exponent(largerHalf(points)), 1e-9)
	}
	late := curve(func(size float64) float64 { return 1e4 + size*size })
	require.Less(t, exponent(late), exponent(largerHalf(late)))
}

func TestAStreamIsCutIntoItsFrames(t *testing.T) {
	one, two := []byte{1, 0, 0, 2, 'a', 'b'}, []byte{3, 0, 0, 0}
	require.Equal(t, [][]byte{one, two, one}, frames(append(append(append([]byte{}, one...), two...), one...)))
	require.Empty(t, frames(nil))
}

func TestVerdictsHoldRatiosUpAndNumbersDown(t *testing.T) {
	for _, c := range []struct {
		result result
		want   string
	}{
		{result{ratio, "plan_hit_vs_gqlgen", 3}, "met, >= 3"},
		{result{ratio, "plan_hit_vs_gqlgen", 2.9}, "MISSED, >= 3"},
		{result{ratio, "miss_vs_gqlparser_validate", 0.1}, ""},
		{result{number, "hostile_max_ms", 60}, "met, <= 60"},
		{result{number, "hostile_max_ms", 61}, "MISSED, <= 60"},
		{result{growth, "document_bytes", 1.02}, "met, <= 1.15"},
		{result{growth, "document_bytes", 2}, "MISSED, <= 1.15"},
	} {
		require.Equal(t, c.want, c.result.verdict(), c.result)
	}
}
