package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"graphql-limit-count/internal/extplugin"
)

const (
	// maxTries is how often APISIX makes a call whose token the runner does not know.
	maxTries = 3

	// maxTokens bounds the token cache; APISIX's shared memory is bounded as well.
	maxTokens = 100_000

	// idBits is the width of the ids that one APISIX worker gives its calls.
	idBits = 22
)

// runner is APISIX's side of the runner protocol: tokens, and calls over pooled
// connections.
type runner struct {
	pool   *extplugin.Pool
	expire time.Duration
	now    func() time.Time
	calls  atomic.Uint32

	mu     sync.Mutex
	tokens map[string]token
}

// token is what the runner answered to a PrepareConf.
type token struct {
	value   uint32
	expires time.Time
}

func newRunner(cfg Config) *runner {
	return &runner{
		pool:   extplugin.NewPool(cfg.RunnerSocket, extplugin.DefaultMaxIdle),
		expire: cfg.ConfExpire,
		now:    time.Now,
		tokens: map[string]token{},
	}
}

// close closes the idle connections and those that come back later.
func (r *runner) close() {
	_ = r.pool.Close() // they are idle: nothing is lost
}

// call asks the runner about one request under one configuration. A token that the
// runner does not know, because it was restarted, flushes the cache: all tokens are of
// the same runner.
func (r *runner) call(ctx context.Context, key string, conf *extPlugin, call extplugin.Request, answers extplugin.Answers) (extplugin.Action, error) {
	call.ID = r.calls.Add(1) % (1 << idBits)
	for try := 1; ; try++ {
		action, err := r.once(ctx, key, conf, call, answers)
		if err == nil {
			return action, nil
		}
		if !errors.Is(err, extplugin.ErrConfTokenNotFound) || try == maxTries {
			return extplugin.Action{}, fmt.Errorf("configuration %s: %w", key, err)
		}
		r.flush()
	}
}

// once makes one try on one connection, which goes back to the pool only after a
// good answer, as in APISIX.
func (r *runner) once(ctx context.Context, key string, conf *extPlugin, call extplugin.Request, answers extplugin.Answers) (action extplugin.Action, err error) {
	client, err := r.pool.Get(ctx)
	if err != nil {
		return extplugin.Action{}, err
	}
	defer func() {
		if err != nil {
			_ = client.Close() // the call's own error is the one that counts
		}
		r.pool.Put(client)
	}()
	if call.Token, err = r.token(ctx, client, key, conf); err != nil {
		return extplugin.Action{}, err
	}
	return client.HTTPReqCall(ctx, call, answers)
}

// token returns the cached token of the key or prepares the configuration.
func (r *runner) token(ctx context.Context, client *extplugin.Client, key string, conf *extPlugin) (uint32, error) {
	r.mu.Lock()
	cached, ok := r.tokens[key]
	r.mu.Unlock()
	if ok && r.now().Before(cached.expires) {
		return cached.value, nil
	}
	named := make([]extplugin.NamedConf, len(conf.Conf))
	for i, c := range conf.Conf {
		named[i] = extplugin.NamedConf{Name: c.Name, Value: *c.Value}
	}
	value, err := client.PrepareConf(ctx, key, named)
	if err != nil {
		return 0, err
	}
	r.remember(key, value)
	return value, nil
}

// remember caches a token and, when there are too many, forgets those that expired
// or else all: keys with old versions are never asked for again.
func (r *runner) remember(key string, value uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.tokens) >= maxTokens {
		now := r.now()
		maps.DeleteFunc(r.tokens, func(_ string, t token) bool { return !now.Before(t.expires) })
		if len(r.tokens) >= maxTokens {
			clear(r.tokens)
		}
	}
	r.tokens[key] = token{value: value, expires: r.now().Add(r.expire)}
}

func (r *runner) flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.tokens)
}
