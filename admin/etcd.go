package admin

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"graphql-limit-count/internal/etcd"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	// writeAttempts is how often a write is tried while other writers of the service come
	// before it. Two that write without a pause need a few.
	writeAttempts = 60
	// firstPause and maxPause bound the random pause before an attempt.
	firstPause = 2 * time.Millisecond
	maxPause   = 100 * time.Millisecond

	// After a call that failed and took slowFailure, calls fail at once for restTime: while
	// etcd hangs, reading hundreds of services would otherwise wait for each.
	slowFailure = time.Second
	restTime    = time.Second

	// servicesPath holds APISIX's services and, below each, what belongs to it.
	servicesPath = "/services/"
	// decorationsSegment stands between a service's id and the ids of its decorations.
	decorationsSegment = "graphql_cost_decorations"
	// uploadsPath holds the uploaded schemas. It is outside /services, where releases of
	// APISIX that do not know decorations take every key for a service.
	uploadsPath = "/graphql_limit_count/schemas/"
	// maxStrange is how many keys that are no decorations' are logged.
	maxStrange = 100
	// generatedID is the key that APISIX writes to get a revision that no id was made of.
	generatedID = "/gen_id"
)

// ErrTooLarge is returned, wrapped with the numbers, by writes that hold more than the store
// can write at once.
var ErrTooLarge = errors.New("more than the store can write at once")

// errLost is returned while etcd holds nothing at all, although it held something before.
var errLost = errors.New("etcd holds no configuration at all any more, its data seems to be lost")

// errSilent is returned instead of asking an etcd that just did not answer.
var errSilent = fmt.Errorf("etcd did not answer a moment ago: %w", context.DeadlineExceeded)

// errContended ends a write that other writers came before writeAttempts times.
var errContended = errors.New("other writers kept changing the service's decorations meanwhile")

// EtcdConfig holds the settings of a store in etcd.
type EtcdConfig struct {
	// Client reaches the etcd that APISIX uses, under APISIX's prefix. The store does not
	// close it. Required.
	Client *etcd.Client
	// Logger is told when changes cannot be put in force, at most once a minute. Required.
	Logger *zap.Logger
	// Now is the clock of create_time and update_time. Default time.Now.
	Now func() time.Time
	// Marker is a file of this process, in a folder that exists, that remembers that etcd
	// held decorations; see Recall. Default: none.
	Marker string
}

// Etcd is the store for a fleet: APISIX's own etcd in APISIX's own layout, so that decorations
// written by APISIX's Admin API, by this endpoint and on any host are one set.
//
//	{prefix}/services/{service}/graphql_cost_decorations/{id}   a decoration, as APISIX writes it
//	{prefix}/graphql_limit_count/schemas/{service}              an uploaded schema
//
// A write is one transaction that only succeeds if, since the service's decorations were read,
// none of them was written, by whomever, and the service was neither deleted nor created. So a
// field path cannot be decorated twice, and no write undoes another unseen. A write that finds
// the set changed reads it again and decides anew. APISIX's own Admin API checks and writes in
// two steps: a path that it decorates twice is shown twice, and the decoration whose id comes
// last counts, as in APISIX.
//
// Which life of a service a decoration belongs to is not stored but read off etcd's revisions,
// see life and lifeAt. Every exchange with etcd ends within etcd.RequestTimeout.
type Etcd struct {
	client *etcd.Client
	logger *throttled
	marker *etcdMarker
	now    func() time.Time
	held   atomic.Bool  // something of ours was in etcd when it was last looked at
	rest   atomic.Int64 // until when calls fail at once, in nanoseconds since began
	began  time.Time

	mu      sync.Mutex
	all     cachedRecords     // of All
	uploads map[string]Schema // of Schemas, by service, without texts and incarnations
	alive   map[string]int64  // the last revision at which a service with belongings was seen
	shown   map[string]bool   // the services that All or Schemas ever named, for Watch
	strange map[string]bool   // the keys that were complained about, at most maxStrange
}

var _ Store = (*Etcd)(nil)

// NewEtcd returns the store that a client reaches.
func NewEtcd(cfg EtcdConfig) *Etcd {
	s := &Etcd{client: cfg.Client, logger: newThrottled(cfg.Logger), now: cfg.Now, began: time.Now(),
		alive: map[string]int64{}, shown: map[string]bool{}, strange: map[string]bool{}}
	if s.now == nil {
		s.now = time.Now
	}
	s.marker = newEtcdMarker(cfg.Marker, cfg.Client.Prefix(), cfg.Client.Endpoints())
	return s
}

// serviceKey, decorationsKey and uploadKey are etcd's keys, with the prefix.
func (s *Etcd) serviceKey(serviceID string) string {
	return s.client.Prefix() + servicesPath + serviceID
}

func (s *Etcd) decorationsKey(serviceID string) string {
	return s.serviceKey(serviceID) + "/" + decorationsSegment + "/"
}

func (s *Etcd) uploadKey(serviceID string) string {
	return s.client.Prefix() + uploadsPath + serviceID
}

// checkID refuses what APISIX does not allow ids to be. Its Admin API checks ids before it
// writes them into keys; its gateways take keys as they are.
func checkID(kind, id string) error {
	if !validServiceID.MatchString(id) {
		return fmt.Errorf("%s id %q is not 1 to 64 letters, digits, points, dashes or underscores", kind, shown(id))
	}
	return nil
}

// splitKey returns the service and the decoration that a key below servicesPath, without the
// prefix, is of; a service's own key has no decoration. Other keys are of neither, and so are
// those with ids that cannot be: a decoration of such an id could override a real one, and
// no endpoint could name it.
func splitKey(key string) (serviceID, id string, ok bool) {
	segments := strings.Split(strings.TrimPrefix(key, servicesPath), "/")
	switch {
	case len(segments) == 1:
		return segments[0], "", segments[0] != ""
	case len(segments) == 3 && segments[1] == decorationsSegment && checkID("service", segments[0]) == nil && checkID("decoration", segments[2]) == nil:
		return segments[0], segments[2], true
	}
	return "", "", false
}

// transact sends one transaction with a bounded time.
func (s *Etcd) transact(ctx context.Context, compares []clientv3.Cmp, then, otherwise []clientv3.Op) (*clientv3.TxnResponse, error) {
	begun := time.Since(s.began)
	if begun < time.Duration(s.rest.Load()) {
		return nil, errSilent
	}
	bounded, cancel := s.client.WithTimeout(ctx)
	defer cancel()
	response, err := s.client.Txn(bounded).If(compares...).Then(then...).Else(otherwise...).Commit()
	if ended := time.Since(s.began); err != nil && ctx.Err() == nil && ended-begun >= slowFailure {
		s.rest.Store(int64(ended + restTime))
	}
	return response, s.client.Explain(err)
}

// plausible is asked when nothing was found where something was expected, and returns errLost
// when that is because etcd lost everything: then nothing is what is stored, but not what was
// meant, and the last known models are better.
func (s *Etcd) plausible(ctx context.Context) error {
	if !s.held.Load() {
		return nil
	}
	blank, err := s.client.Blank(ctx)
	if err == nil && blank {
		err = errLost
	}
	return err
}

// pause waits before another attempt: randomly, so that two writers get out of step, and
// longer the more attempts there were.
func pause(ctx context.Context, attempt int) error {
	longest := min(firstPause<<min(attempt, 10), maxPause)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(rand.N(longest)):
		return nil
	}
}
