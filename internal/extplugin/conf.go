package extplugin

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"time"

	"github.com/apache/apisix-go-plugin-runner/pkg/plugin"
	"go.uber.org/zap"
)

const (
	// A token outlives APISIX's own expiry by a fifth, as in the stock runner.
	lifetimeNumerator, lifetimeDenominator = 6, 5

	// The sweep comes sweepsPerLifetime times in a lifetime, but not more often
	// than minSweep nor more seldom than maxSweep.
	sweepsPerLifetime = 16
	minSweep          = 100 * time.Millisecond
	maxSweep          = time.Minute

	// seenSteps is into how many steps a lifetime is divided when noting that a
	// token is in use: a request then seldom writes memory that others read.
	seenSteps = 64

	// maxUnknownNames bounds the plugin names remembered as already complained of.
	maxUnknownNames = 256
)

// errUnknownToken answers a request whose token names no configuration here.
var errUnknownToken = errors.New("no configuration has this token")

// tokenLifetime returns how long a token lives unused when APISIX keeps it for ttl.
func tokenLifetime(ttl time.Duration) time.Duration {
	return ttl / lifetimeDenominator * lifetimeNumerator
}

// parsedConf is a plugin's configuration, parsed once for all who have an equal
// one.
type parsedConf struct {
	plugin plugin.Plugin // nil when no plugin has the name
	name   string
	id     string // (name, value), as appendConf writes it

	once  sync.Once
	value any
	err   error

	rules int // rule sets that hold it
}

// ruleSet is a list of plugin configurations, shared by the tokens whose
// PrepareConf listed equal ones.
type ruleSet struct {
	id      string
	plugins []*parsedConf // only those whose plugin is known
	listed  int           // also those that are not
	tokens  int           // entries and calls under way that hold it
}

// confCache gives out tokens for configurations and finds them again.
type confCache struct {
	plugins  map[string]plugin.Plugin
	lifetime time.Duration
	grace    time.Duration // no request lasts longer
	now      func() time.Time
	log      *zap.Logger
	hash     func(key, conf []byte) uint32

	tokens *tokenTable // lookups need no lock

	mu      sync.Mutex // guards all below, and changes of tokens
	rules   map[string]*ruleSet
	parsed  map[string]*parsedConf
	unknown map[string]struct{} // plugin names complained of
	leaving []leavingConf       // in the order of their times
	scratch []byte
}

// leavingConf is a configuration that no token leads to any more, but perhaps a
// request under way.
type leavingConf struct {
	conf  *parsedConf
	since time.Time
}

func newConfCache(plugins map[string]plugin.Plugin, lifetime, grace time.Duration, now func() time.Time, log *zap.Logger) *confCache {
	return &confCache{
		plugins:  plugins,
		lifetime: lifetime,
		grace:    grace,
		now:      now,
		log:      log,
		hash:     contentHash,
		tokens:   newTokenTable(),
		rules:    make(map[string]*ruleSet),
		parsed:   make(map[string]*parsedConf),
		unknown:  make(map[string]struct{}),
	}
}

// prepare returns the token of the configuration, parsing it when nobody has an
// equal one. The same content has the same token in every process, unless a
// collision moved it: two contents of one hash whose order changes over a restart
// are the only ones whose old tokens can be taken for each other's.
func (c *confCache) prepare(key []byte, confs []entry) uint32 {
	rules, id := c.hold(confs)
	for _, conf := range rules.plugins {
		conf.parse(c.log)
	}
	hash := c.hash(key, []byte(id))

	c.mu.Lock()
	defer c.mu.Unlock()
	for token := hash; ; token++ {
		if token == 0 {
			continue // APISIX could not tell it from an answer without a token
		}
		entry := c.tokens.get(token)
		if entry == nil {
			entry = &confEntry{token: token, key: string(key), rules: rules}
			entry.seen.Store(c.now().UnixNano())
			c.tokens.add(entry)
			return token
		}
		if entry.rules == rules && entry.key == string(key) {
			entry.seen.Store(c.now().UnixNano())
			c.release(rules)
			return token
		}
	}
}

// hold returns the rule set for confs with a hold of its own on it, and its id.
func (c *confCache) hold(confs []entry) (*ruleSet, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := c.scratch[:0]
	for _, conf := range confs {
		id = appendConf(id, conf)
	}
	c.scratch = trim(id)
	rules := c.rules[string(id)]
	if rules == nil {
		rules = c.newRules(string(id), confs)
		c.rules[rules.id] = rules
	}
	rules.tokens++
	return rules, rules.id
}

func (c *confCache) newRules(id string, confs []entry) *ruleSet {
	rules := &ruleSet{id: id, listed: len(confs)}
	for _, conf := range confs {
		known, ok := c.plugins[string(conf.name)]
		if !ok {
			c.complain(string(conf.name))
			continue
		}
		confID := id
		if len(confs) > 1 {
			confID = string(appendConf(nil, conf))
		}
		parsed := c.parsed[confID]
		if parsed == nil {
			parsed = &parsedConf{plugin: known, name: string(conf.name), id: confID}
			c.parsed[confID] = parsed
		}
		parsed.rules++
		rules.plugins = append(rules.plugins, parsed)
	}
	return rules
}

// complain logs once that a configuration lists a plugin that is not here.
func (c *confCache) complain(name string) {
	if _, done := c.unknown[name]; done || len(c.unknown) >= maxUnknownNames {
		return
	}
	c.unknown[name] = struct{}{}
	c.log.Error("a configuration lists an unknown plugin, which is skipped; a request is refused when no listed plugin is known",
		zap.String("plugin", name))
}

// parse fills value or err, once.
func (p *parsedConf) parse(log *zap.Logger) {
	p.once.Do(func() {
		defer func() {
			if cause := recover(); cause != nil {
				p.err = fmt.Errorf("parsing the configuration of plugin %s: panic: %v", p.name, cause)
				log.Error("a plugin panicked while it parsed a configuration; requests under it are refused",
					zap.String("plugin", p.name), zap.Any("panic", cause), zap.ByteString("stack", debug.Stack()))
			}
		}()
		value, err := p.plugin.ParseConf(confValue(p.id))
		if err != nil {
			p.err = fmt.Errorf("parsing the configuration of plugin %s: %w", p.name, err)
			log.Error("a configuration does not parse; requests under it are refused",
				zap.String("plugin", p.name), zap.Error(err))
			return
		}
		p.value = value
	})
}

// lookup returns what token stands for, or errUnknownToken.
func (c *confCache) lookup(token uint32) (*confEntry, error) {
	entry := c.tokens.get(token)
	if entry == nil {
		return nil, errUnknownToken
	}
	now := c.now().UnixNano()
	idle := now - entry.seen.Load()
	if idle >= int64(c.lifetime) {
		return nil, errUnknownToken
	}
	if idle > int64(c.lifetime/seenSteps) {
		entry.seen.Store(now)
	}
	return entry, nil
}

// sweep removes the tokens that have expired, and closes the configurations that
// have been without one for longer than a request lasts.
func (c *confCache) sweep() {
	c.mu.Lock()
	now := c.now()
	c.tokens.removeIf(func(entry *confEntry) bool {
		if now.UnixNano()-entry.seen.Load() < int64(c.lifetime) {
			return false
		}
		c.release(entry.rules)
		return true
	})
	n := 0
	for n < len(c.leaving) && now.Sub(c.leaving[n].since) > c.grace {
		n++
	}
	gone := c.leaving[:n:n]
	c.leaving = append([]leavingConf(nil), c.leaving[n:]...)
	c.mu.Unlock()
	c.closeAll(gone)
}

// release gives up one hold on rules; the last one drops what nobody else shares.
// The caller has the lock.
func (c *confCache) release(rules *ruleSet) {
	if rules.tokens--; rules.tokens > 0 {
		return
	}
	delete(c.rules, rules.id)
	for _, conf := range rules.plugins {
		if conf.rules--; conf.rules > 0 {
			continue
		}
		delete(c.parsed, conf.id)
		c.leaving = append(c.leaving, leavingConf{conf, c.now()})
	}
}

// closeAll closes what the plugins opened for these configurations.
func (c *confCache) closeAll(gone []leavingConf) {
	for _, leaving := range gone {
		closer, ok := leaving.conf.value.(io.Closer)
		if !ok {
			continue
		}
		if err := c.closeOne(closer); err != nil {
			c.log.Warn("closing a configuration failed", zap.String("plugin", leaving.conf.name), zap.Error(err))
		}
	}
}

func (c *confCache) closeOne(closer io.Closer) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	return closer.Close()
}

// close drops every token and closes every configuration. No request may be
// under way.
func (c *confCache) close() {
	c.mu.Lock()
	c.tokens.removeIf(func(entry *confEntry) bool {
		c.release(entry.rules)
		return true
	})
	gone := c.leaving
	c.leaving = nil
	c.mu.Unlock()
	c.closeAll(gone)
}

// run sweeps until ctx is done.
func (c *confCache) run(ctx context.Context) {
	ticker := time.NewTicker(min(max(c.lifetime/sweepsPerLifetime, minSweep), maxSweep))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.sweep()
		}
	}
}

// size returns the number of tokens and of parsed configurations.
func (c *confCache) size() (tokens, parsed int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tokens.live, len(c.parsed)
}

// appendConf writes conf so that no two lists of configurations are written alike.
func appendConf(dst []byte, conf entry) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(conf.name)))
	dst = append(dst, conf.name...)
	dst = binary.AppendUvarint(dst, uint64(len(conf.value)))
	return append(dst, conf.value...)
}

// confValue returns the value in what appendConf wrote for one configuration.
func confValue(id string) []byte {
	text := []byte(id)
	n, width := binary.Uvarint(text)
	text = text[uint64(width)+n:] // past the name
	_, width = binary.Uvarint(text)
	return text[width:]
}

// contentHash folds FNV-1a's 64 bits over key and configurations into 32. It must
// not change from one release to the next more than need be: a token that both
// know saves every APISIX worker a PrepareConf after an upgrade.
func contentHash(key, conf []byte) uint32 {
	const offset, prime, foldBits = 14695981039346656037, 1099511628211, 32
	hash := uint64(offset)
	mix := func(text []byte) {
		for _, b := range text {
			hash = (hash ^ uint64(b)) * prime
		}
	}
	var length [binary.MaxVarintLen64]byte
	mix(length[:binary.PutUvarint(length[:], uint64(len(key)))])
	mix(key)
	mix(conf)
	return uint32(hash>>foldBits) ^ uint32(hash)
}
