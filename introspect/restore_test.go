package introspect

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/internal/apisix"
)

// lives knows service s in one of its lives.
func lives(incarnation string) *known {
	up := httpUpstream("n")
	return &known{services: map[string]apisix.Service{"s": {ID: "s", Incarnation: incarnation, Upstream: &up}}}
}

func TestASchemaBelongsToALifeOfItsService(t *testing.T) {
	tests := []struct {
		name          string
		before, after *known
		used          bool
	}{
		{"the same life", lives("7"), lives("7"), true},
		{"created again", lives("7"), lives("9"), false},
		{"created again, lives told by their time", lives("t7"), lives("t9"), false},
		{"APISIX says neither", lives("7"), lives(""), true},
		{"fetched without knowing it", lives(""), lives("9"), true},
		{"another version of APISIX tells it otherwise", lives("t7"), lives("9"), true},
		{"deleted", lives("7"), &known{}, false},
		{"APISIX cannot be asked", lives("7"), &known{err: errors.New("connection refused")}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			first := newBench(t, Config{Dir: dir, Upstreams: tt.before})
			first.up.set(answer200(schemaWith("old")))
			first.fetched(t, explicit("s"))
			kept(t, dir, explicit("s"))
			first.Close()

			b := newBench(t, Config{Dir: dir, Upstreams: tt.after})
			b.up.set(answer200(schemaWith("new")))
			require.Equal(t, tt.used, hasField(b.fetched(t, explicit("s")), "old"))
			require.Equal(t, !tt.used, strings.Contains(b.logged(), "that of an earlier life of its owner"))
			b.settle(t)
		})
	}
}

func TestAPISIXThatDoesNotAnswerDelaysLittle(t *testing.T) {
	require.Equal(t, time.Second, incarnationTimeout)
	b := newBench(t, Config{Dir: t.TempDir(), Upstreams: hanging{}})
	b.exchange = 10 * time.Millisecond
	_, err := b.incarnation(b.ctx, mustKey(t, Request{RouteID: "r"}))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	_, err = b.incarnation(ctx, mustKey(t, explicit("s")))
	require.ErrorIs(t, err, context.Canceled)
}

// hanging answers about routes, and about services never.
type hanging struct{ UpstreamResolver }

func (hanging) Service(ctx context.Context, _ string) (apisix.Service, error) {
	<-ctx.Done()
	return apisix.Service{}, ctx.Err()
}

func (hanging) Route(context.Context, string) (apisix.Route, error) { return apisix.Route{}, nil }
