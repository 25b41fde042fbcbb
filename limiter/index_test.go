package limiter

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAnIndexFindsWhatWasAddedAndNotRemoved, also where many hashes share a home.
func TestAnIndexFindsWhatWasAddedAndNotRemoved(t *testing.T) {
	for name, hashes := range map[string]uint64{"spread": 1 << 62, "crowded": 5, "equal": 1} {
		t.Run(name, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(1, hashes))
			var x index
			in := map[int32]uint64{}
			for range 20_000 {
				place := int32(rnd.IntN(60))
				if hash, ok := in[place]; ok {
					x.remove(hash, place)
					delete(in, place)
				} else {
					in[place] = rnd.Uint64N(hashes) << 3
					x.add(in[place], place)
				}
				require.Len(t, x, len(in))
				for place, hash := range in {
					require.True(t, x.reaches(hash, place))
				}
			}
			require.LessOrEqual(t, cap(x), 128, "places are used again")
		})
	}
}

// reaches reports whether a look for the hash comes by the entry.
func (x index) reaches(hash uint64, place int32) bool {
	slots := x.slots()
	for at := x.home(uint32(hash)); slots[at] != 0; at = x.after(at) {
		if slots[at] == newSlot(hash, place) {
			return true
		}
	}
	return false
}

func TestAnIndexHasRoomForWhatItIsMadeFor(t *testing.T) {
	for _, n := range []int{0, 1, 6, 7, 48, 49, 5000} {
		x := newIndex(n)
		size := cap(x)
		for i := range n {
			x.add(uint64(i), int32(i))
		}
		require.Equal(t, size, cap(x), n)
		require.Len(t, x, n)
	}
}
