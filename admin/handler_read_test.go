package admin

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// silent is a store that does not answer in time, and notes how long it was given.
type silent struct {
	Store
	deadlines []time.Duration
}

func (s *silent) List(ctx context.Context, _ string) ([]Record, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil, fmt.Errorf("the read is not bounded")
	}
	s.deadlines = append(s.deadlines, time.Until(deadline))
	return nil, fmt.Errorf("no server can be reached: %w", context.DeadlineExceeded)
}

func TestAReadWaitsForAStoreThatIsAwayOnlyOnce(t *testing.T) {
	for _, path := range []string{decorationsPath("shop"), decorationsPath("shop", "d1"), modelPath("shop"), decorationsPath("shop", checkName)} {
		core, logs := observer.New(zap.WarnLevel)
		store := &silent{}
		models := NewModels(store, zap.NewNop())
		reclaimer := NewReclaimer(ReclaimerConfig{Store: store, Models: models, Directory: &directory{}, Logger: zap.NewNop()})
		handler, err := NewHandler(Config{Store: store, Models: models, Reclaimer: reclaimer, Keys: keysOf(t, testAdminKey, testViewerKey), Logger: zap.New(core)})
		require.NoError(t, err)
		e := &endpoint{t: t, url: serve(t, handler)}
		r := e.do(http.MethodGet, path, nil)
		require.Equal(t, http.StatusServiceUnavailable, r.status, path)
		require.Equal(t, "the store did not answer in time, try again later", r.member(memberError))
		require.Len(t, store.deadlines, 1, path)
		require.LessOrEqual(t, store.deadlines[0], 3*time.Second, path)
		require.Len(t, logs.All(), 1, "nothing was shown, so nothing says so")
		require.Equal(t, "admin request failed", logs.All()[0].Message)
	}
}
