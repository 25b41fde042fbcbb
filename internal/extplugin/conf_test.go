package extplugin

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/apisix-go-plugin-runner/pkg/plugin"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// clock is a time that a test sets.
type clock struct{ now atomic.Int64 }

func (c *clock) Now() time.Time          { return time.Unix(0, c.now.Load()) }
func (c *clock) advance(d time.Duration) { c.now.Add(int64(d)) }

// closingConf counts how often it is closed.
type closingConf struct {
	text   string
	closed atomic.Int32
	err    error
}

func (c *closingConf) Close() error {
	c.closed.Add(1)
	if c.text == "panic" {
		panic("closing")
	}
	return c.err
}

// countingPlugin notes what it parses.
type countingPlugin struct {
	funcPlugin
	mu     sync.Mutex
	parsed []*closingConf
}

func newCountingPlugin(name string) *countingPlugin {
	p := &countingPlugin{funcPlugin: funcPlugin{name: name}}
	p.parse = func(in []byte) (any, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		conf := &closingConf{text: string(in)}
		p.parsed = append(p.parsed, conf)
		return conf, nil
	}
	return p
}

const (
	testLifetime = 120 * time.Second
	testGrace    = 10 * time.Second
)

func newTestCache(now *clock, plugins ...plugin.Plugin) *confCache {
	byName := map[string]plugin.Plugin{}
	for _, p := range plugins {
		byName[p.Name()] = p
	}
	return newConfCache(byName, testLifetime, testGrace, now.Now, zap.NewNop())
}

func list(pairs ...string) []entry {
	var confs []entry
	for i := 0; i < len(pairs); i += 2 {
		confs = append(confs, entry{[]byte(pairs[i]), []byte(pairs[i+1])})
	}
	return confs
}

func TestTokensAreTheSameInEveryProcess(t *testing.T) {
	// A value that changes makes every APISIX prepare anew when a runner is
	// upgraded; that is allowed, but not by accident.
	require.Equal(t, uint32(0xce3929c6), contentHash([]byte("route#r#ext-plugin-pre-req#1"), appendConf(nil, list("p", "{}")[0])))

	tokens := map[uint32]string{}
	for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}} {
		cache := newTestCache(&clock{}, newCountingPlugin("p"))
		for _, i := range order {
			key := fmt.Sprintf("route#r%d#ext-plugin-pre-req#1", i)
			token := cache.prepare([]byte(key), list("p", fmt.Sprint(i)))
			require.Contains(t, []string{"", key}, tokens[token])
			tokens[token] = key
		}
	}
	require.Len(t, tokens, 4)
}

func TestTokensTellContentsApart(t *testing.T) {
	cache := newTestCache(&clock{}, newCountingPlugin("p"), newCountingPlugin("q"))
	seen := map[uint32]int{}
	for i, tc := range []struct {
		key   string
		confs []entry
	}{
		{"k", list("p", "1")}, {"k2", list("p", "1")}, {"k", list("p", "2")}, {"k", list("q", "1")},
		{"k", list("p", "1", "q", "2")}, {"k", list("q", "2", "p", "1")}, {"k", list("p", "1", "p", "1")},
		{"k", nil}, {"", list("p", "1")}, {"", nil}, {"k", list("p", "")}, {"k", list("nobody", "1")},
	} {
		token := cache.prepare([]byte(tc.key), tc.confs)
		_, taken := seen[token]
		require.False(t, taken, "case %d has the token of case %d", i, seen[token])
		seen[token] = i
		require.Equal(t, token, cache.prepare([]byte(tc.key), tc.confs))
	}
}

func TestATokenOfOneRouteNeverNamesAnothersConfigurationAfterARestart(t *testing.T) {
	const routes = 2000
	prepareAll := func(cache *confCache, from, to int) map[string]uint32 {
		tokens := map[string]uint32{}
		for i := from; i < to; i++ {
			key := fmt.Sprintf("route#r%d#ext-plugin-pre-req#1", i)
			tokens[key] = cache.prepare([]byte(key), list("p", fmt.Sprint(i%10)))
		}
		return tokens
	}
	before := prepareAll(newTestCache(&clock{}, newCountingPlugin("p")), 0, routes)
	restarted := newTestCache(&clock{}, newCountingPlugin("p"))
	prepareAll(restarted, routes/2, 2*routes) // other routes come first now, and some not at all
	for key, token := range before {
		if got, err := restarted.lookup(token); err == nil {
			require.Equal(t, key, got.key)
		} else {
			require.ErrorIs(t, err, errUnknownToken)
		}
	}
}

func TestCollidingTokensAreSettledByProbing(t *testing.T) {
	for _, tc := range []struct {
		name string
		hash uint32
		want []uint32
	}{
		{"the next ones are taken", 1000, []uint32{1000, 1001, 1002}},
		{"zero is left out", 0, []uint32{1, 2, 3}},
		{"also when it is come round to", 0xffffffff, []uint32{0xffffffff, 1, 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cache := newTestCache(&clock{}, newCountingPlugin("p"))
			cache.hash = func(_, _ []byte) uint32 { return tc.hash }
			for round := range 2 { // the second finds what the first has put there
				for i, want := range tc.want {
					got := cache.prepare(fmt.Appendf(nil, "key %d", i), list("p", fmt.Sprint(i)))
					require.Equal(t, want, got, "round %d", round)
					found, err := cache.lookup(got)
					require.NoError(t, err)
					require.Equal(t, fmt.Sprintf("key %d", i), found.key)
					require.Equal(t, fmt.Sprint(i), found.rules.plugins[0].value.(*closingConf).text)
				}
			}
			tokens, _ := cache.size()
			require.Equal(t, len(tc.want), tokens)
		})
	}
}

func TestEqualValuesShareOneParsedConfiguration(t *testing.T) {
	p, q := newCountingPlugin("p"), newCountingPlugin("q")
	cache := newTestCache(&clock{}, p, q)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 200 {
				cache.prepare(fmt.Appendf(nil, "route&consumer#r&c%d#ext-plugin-post-req#1", i*8+g), list("p", "same"))
				cache.prepare(fmt.Appendf(nil, "other %d", i), list("q", "same", "p", "same"))
			}
		})
	}
	all.Wait()
	require.Len(t, p.parsed, 1)
	require.Len(t, q.parsed, 1)
	tokens, parsed := cache.size()
	require.Equal(t, 1600+200, tokens)
	require.Equal(t, 2, parsed)
}

func TestTokensExpireWhenTheyAreNeitherPreparedNorUsed(t *testing.T) {
	now := &clock{}
	p := newCountingPlugin("p")
	cache := newTestCache(now, p)
	used := cache.prepare([]byte("used"), list("p", "1"))
	prepared := cache.prepare([]byte("prepared"), list("p", "2"))
	forgotten := cache.prepare([]byte("forgotten"), list("p", "3"))

	now.advance(testLifetime - time.Second)
	cache.sweep()
	_, err := cache.lookup(used)
	require.NoError(t, err)
	require.Equal(t, prepared, cache.prepare([]byte("prepared"), list("p", "2")))

	now.advance(time.Second)
	_, err = cache.lookup(forgotten)
	require.ErrorIs(t, err, errUnknownToken, "before any sweep")
	cache.sweep()
	_, err = cache.lookup(used)
	require.NoError(t, err)
	_, err = cache.lookup(prepared)
	require.NoError(t, err)
	tokens, parsed := cache.size()
	require.Equal(t, 2, tokens)
	require.Equal(t, 2, parsed)
}

func TestAConfigurationIsClosedOnceWhenNoRequestCanHaveIt(t *testing.T) {
	now := &clock{}
	p := newCountingPlugin("p")
	cache := newTestCache(now, p)
	cache.prepare([]byte("a"), list("p", "shared"))
	now.advance(testLifetime / 2)
	cache.prepare([]byte("b"), list("p", "shared"))

	now.advance(testLifetime / 2) // a has expired, b not
	cache.sweep()
	now.advance(testGrace + time.Second)
	cache.sweep()
	require.Zero(t, p.parsed[0].closed.Load())

	now.advance(testLifetime / 2) // both have
	cache.sweep()
	require.Zero(t, p.parsed[0].closed.Load(), "a request may still have it")
	_, parsed := cache.size()
	require.Zero(t, parsed)

	cache.prepare([]byte("c"), list("p", "shared")) // is parsed anew meanwhile
	now.advance(testGrace + time.Second)
	cache.sweep()
	cache.sweep()
	require.Len(t, p.parsed, 2)
	require.Equal(t, int32(1), p.parsed[0].closed.Load())
	require.Zero(t, p.parsed[1].closed.Load())

	cache.close()
	cache.close()
	require.Equal(t, int32(1), p.parsed[0].closed.Load())
	require.Equal(t, int32(1), p.parsed[1].closed.Load())
}

func TestAConfigurationThatFailsToCloseIsLogged(t *testing.T) {
	logs, logged := observed()
	var cfg Config
	logged(&cfg)
	p := newCountingPlugin("p")
	cache := newConfCache(map[string]plugin.Plugin{"p": p}, testLifetime, testGrace, time.Now, cfg.Logger)
	cache.prepare(nil, list("p", "panic"))
	cache.prepare(nil, list("p", "fails"))
	p.parsed[1].err = errors.New("stuck")
	cache.close()
	var texts []any
	for _, entry := range logs.FilterMessage("closing a configuration failed").All() {
		texts = append(texts, entry.ContextMap()["error"])
	}
	require.ElementsMatch(t, []any{"panic: closing", "stuck"}, texts)
}

func TestWhatCannotBeLimitedAsConfiguredIsRefused(t *testing.T) {
	parses := func(err error, panics bool) func([]byte) (any, error) {
		return func([]byte) (any, error) {
			if panics {
				panic("parser")
			}
			return nil, err
		}
	}
	plugins := []plugin.Plugin{
		&funcPlugin{name: "good"},
		&funcPlugin{name: "bad", parse: parses(errors.New("field count: not a number"), false)},
		&funcPlugin{name: "worse", parse: parses(nil, true)},
	}
	pass := Action{ID: 7}
	for _, tc := range []struct {
		name   string
		conf   []NamedConf
		want   Action
		logged string
	}{
		{"a configuration that does not parse", []NamedConf{{Name: "bad", Value: "x"}}, internalError,
			"a configuration does not parse; requests under it are refused"},
		{"one of two that does not parse", []NamedConf{{Name: "good"}, {Name: "bad"}}, internalError,
			"a configuration does not parse; requests under it are refused"},
		{"a parser that panics", []NamedConf{{Name: "worse"}}, internalError,
			"a plugin panicked while it parsed a configuration; requests under it are refused"},
		{"no listed plugin is known", []NamedConf{{Name: "nobody"}, {Name: "nowhere"}}, internalError,
			"a configuration lists an unknown plugin, which is skipped; a request is refused when no listed plugin is known"},
		{"one of two is known", []NamedConf{{Name: "nobody"}, {Name: "good"}}, pass,
			"a configuration lists an unknown plugin, which is skipped; a request is refused when no listed plugin is known"},
		{"nothing is listed", nil, pass, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			logs, logged := observed()
			s := serve(t, logged, func(cfg *Config) { cfg.Plugins = plugins })
			c := dial(t, s.path)
			for i := range 3 { // three routes with the same configuration
				token, err := c.PrepareConf(t.Context(), fmt.Sprint(i), tc.conf)
				require.NoError(t, err)
				got, err := c.HTTPReqCall(t.Context(), suiteRequest(token), &fixedAnswers{})
				require.NoError(t, err)
				require.Equal(t, tc.want, got)
			}
			if tc.logged == "" {
				require.Zero(t, logs.Len())
				return
			}
			once := map[string]int{}
			for _, entry := range logs.FilterMessage(tc.logged).All() {
				once[entry.ContextMap()["plugin"].(string)]++
			}
			require.NotEmpty(t, once)
			for name, n := range once {
				require.Equal(t, 1, n, name)
			}
			require.Equal(t, len(once), logs.Len())
		})
	}
}

func TestTheSecondOfTwoPluginsOfOneNameIsIgnored(t *testing.T) {
	logs, logged := observed()
	s := serve(t, logged, func(cfg *Config) {
		cfg.Plugins = []plugin.Plugin{&scriptPlugin{name: "script"}, &funcPlugin{name: "script"}}
	})
	requireServes(t, s.path)
	require.Equal(t, 1, logs.FilterMessage("a second plugin of the same name is ignored").Len())
}

func TestATokenCostsLittle(t *testing.T) {
	const tokens, most = 100_000, 200 // bytes each, the key's 50 among them
	p := newCountingPlugin("p")
	cache := newTestCache(&clock{}, p)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range tokens {
		cache.prepare(fmt.Appendf(nil, "route&consumer#route-1&consumer-%06d#ext-plugin-post-req#27", i), list("p", `{"count":10}`))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (after.HeapAlloc - before.HeapAlloc) / tokens
	t.Logf("%d bytes a token", each)
	require.Less(t, each, uint64(most))
	require.Len(t, p.parsed, 1)
	runtime.KeepAlive(cache)
}

func TestTheServersSweepEndsTokens(t *testing.T) {
	now := &clock{}
	s := serve(t, func(cfg *Config) {
		cfg.Now = now.Now
		cfg.ConfTTL = time.Second
	})
	c := dial(t, s.path)
	token := prepare(t, c, "k", `{}`)
	now.advance(tokenLifetime(time.Second))
	_, err := c.HTTPReqCall(t.Context(), suiteRequest(token), &fixedAnswers{})
	require.ErrorIs(t, err, ErrConfTokenNotFound)
	require.Eventually(t, func() bool { return s.Stats().Tokens == 0 && s.Stats().Configs == 0 }, patience, 5*time.Millisecond)
	require.Equal(t, token, prepare(t, c, "k", `{}`))
}
