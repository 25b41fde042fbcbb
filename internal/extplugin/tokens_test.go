package extplugin

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTokenTableKeepsWhatItHolds(t *testing.T) {
	table := newTokenTable()
	held := map[uint32]*confEntry{}
	state := uint32(1)
	for i := range 20_000 {
		state = state*1664525 + 1013904223
		token := state >> 12 // some come again, many lie close together
		if held[token] == nil && token != 0 {
			held[token] = &confEntry{token: token}
			table.add(held[token])
		}
		if i%1000 == 999 {
			table.removeIf(func(e *confEntry) bool {
				if e.token%3 != 0 {
					return false
				}
				delete(held, e.token)
				return true
			})
		}
		if i == 15_000 {
			table.removeIf(func(e *confEntry) bool {
				if e.token%64 == 1 {
					return false
				}
				delete(held, e.token)
				return true
			})
		}
	}
	require.Equal(t, len(held), table.live)
	for token := range uint32(1 << 20) {
		if held[token] != table.get(token) {
			require.Same(t, held[token], table.get(token))
		}
	}
}

func TestLookupsRunWhileTheTableChanges(t *testing.T) {
	now := &clock{}
	cache := newTestCache(now, newCountingPlugin("p"))
	kept := cache.prepare([]byte("kept"), list("p", "kept"))
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if entry, err := cache.lookup(kept); err != nil || entry.key != "kept" {
					t.Errorf("got %v, %v", entry, err)
					return
				}
			}
		})
	}
	for i := range 5000 {
		cache.prepare(fmt.Appendf(nil, "%d", i), list("p", fmt.Sprint(i%7)))
		if i%500 == 0 {
			now.advance(testLifetime / 4)
			cache.prepare([]byte("kept"), list("p", "kept"))
			cache.sweep()
		}
	}
	close(stop)
	readers.Wait()
}
