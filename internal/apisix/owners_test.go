package apisix

import (
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// place is the one that most tests ask about.
var place = Place{Route: "r", Service: "s", Attachment: PreReq}

// fakeClock is a clock that tests move.
type fakeClock struct{ nanos atomic.Int64 }

func newFakeClock() *fakeClock {
	c := &fakeClock{}
	c.nanos.Store(time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC).UnixNano())
	return c
}

func (c *fakeClock) now() time.Time          { return time.Unix(0, c.nanos.Load()) }
func (c *fakeClock) advance(d time.Duration) { c.nanos.Add(int64(d)) }

// script is an Admin API whose answers a test changes.
type script struct {
	*admin
	mu     sync.Mutex
	status int
	values stored // by path; nil: every call gets status
	index  string // modifiedIndex
}

func startScript(tb testing.TB, values stored) *script {
	tb.Helper()
	s := &script{status: http.StatusOK, values: values, index: "9"}
	s.admin = startAdmin(tb, func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		path := r.URL.Path[len("/apisix/admin/"):]
		value, ok := s.values[path]
		switch {
		case s.status != http.StatusOK:
			w.WriteHeader(s.status)
		case !ok:
			replies(http.StatusNotFound, `{"message":"Key not found"}`)(w, r)
		default:
			_, _ = w.Write([]byte(`{"key":"/apisix/` + path + `","value":` + value + `,"createdIndex":1,"modifiedIndex":` + s.index + `}`))
		}
	})
	return s
}

func (s *script) change(status int, index string, values stored) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.index, s.values = status, index, values
}

// settled waits until nothing is asked any more.
func settled(tb testing.TB, o *Owners) {
	tb.Helper()
	require.Eventually(tb, func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.flights) == 0
	}, eventually, time.Millisecond)
}

func TestTheFirstSightWaitsAndIsOneCall(t *testing.T) {
	release := make(chan struct{})
	a := startAdmin(t, func(w http.ResponseWriter, r *http.Request) {
		<-release
		replies(http.StatusOK, `{"value":`+oursPre+`}`)(w, r)
	})
	o := newTestOwners(t, OwnersConfig{Client: a.Client, Wait: eventually})
	const requests = 20
	var all sync.WaitGroup
	for range requests {
		all.Go(func() {
			if got := o.Owner(place); got != (Owner{OwnerRoute, "r"}) {
				t.Errorf("got %v", got)
			}
		})
	}
	require.Eventually(t, func() bool { return a.calls.Load() == 1 }, eventually, time.Millisecond)
	close(release)
	all.Wait()
	require.EqualValues(t, 1, a.calls.Load())
}

func TestAHangingAdminAPIIsWaitedForOnce(t *testing.T) {
	release := make(chan struct{})
	a := startAdmin(t, func(w http.ResponseWriter, r *http.Request) {
		<-release
		replies(http.StatusOK, `{"value":`+oursPre+`}`)(w, r)
	})
	o := newTestOwners(t, OwnersConfig{Client: a.Client, Wait: time.Millisecond})
	require.Equal(t, Owner{}, o.Owner(place))
	o.wait = 2 * eventually // whoever waits now fails the test
	require.Equal(t, Owner{}, o.Owner(place))
	require.Equal(t, Owner{}, o.Owner(Place{Route: "another", Attachment: PreReq}))
	close(release)
	settled(t, o)
	require.Equal(t, Owner{OwnerRoute, "r"}, o.Owner(place))
	require.Equal(t, Owner{OwnerRoute, "another"}, o.Owner(Place{Route: "another", Attachment: PreReq}))
	require.False(t, o.hanging.Load(), "it is waited for again")
}

func TestAnAdminAPIThatIsAwayIsAskedAgain(t *testing.T) {
	core, logs := observer.New(zapcore.WarnLevel)
	s := startScript(t, stored{"routes/r": oursPre})
	s.change(http.StatusServiceUnavailable, "9", s.values)
	clock := newFakeClock()
	o := newTestOwners(t, OwnersConfig{Client: s.Client, Wait: eventually, Now: clock.now, Logger: zap.New(core)})
	for range 3 {
		require.Equal(t, Owner{}, o.Owner(place))
	}
	require.EqualValues(t, 1, s.calls.Load(), "the failure is remembered")
	clock.advance(retryPause)
	require.Equal(t, Owner{}, o.Owner(place))
	settled(t, o)
	require.EqualValues(t, 2, s.calls.Load())

	s.change(http.StatusOK, "9", s.values)
	clock.advance(retryPause)
	o.Owner(place)
	settled(t, o)
	require.Equal(t, Owner{OwnerRoute, "r"}, o.Owner(place))

	require.Equal(t, 1, logs.Len(), "it is told once a minute")
	require.Contains(t, logs.All()[0].ContextMap()["error"], `read routes "r" from APISIX's Admin API: unexpected status 503`)
	clock.advance(complaintInterval)
	s.change(http.StatusUnauthorized, "9", nil)
	o.Owner(Place{Route: "another", Attachment: PreReq})
	require.Equal(t, 2, logs.Len())
	require.NotContains(t, logs.All()[1].ContextMap()["error"], testKey)
}

func TestWhatIsKnownStaysWhileTheAdminAPIIsAway(t *testing.T) {
	s := startScript(t, stored{"routes/r": oursPre})
	clock := newFakeClock()
	o := newTestOwners(t, OwnersConfig{Client: s.Client, Wait: eventually, Now: clock.now})
	require.Equal(t, Owner{OwnerRoute, "r"}, o.Owner(place))
	s.server.Close()
	for range 5 {
		clock.advance(time.Hour)
		require.Equal(t, Owner{OwnerRoute, "r"}, o.Owner(place))
		settled(t, o)
	}
}

func TestAgeRenewsWhereThereAreNoVersions(t *testing.T) {
	s := startScript(t, stored{"routes/r": oursPre})
	clock := newFakeClock()
	o := newTestOwners(t, OwnersConfig{Client: s.Client, Wait: eventually, Now: clock.now})
	require.Equal(t, Owner{OwnerRoute, "r"}, o.Owner(place))
	s.change(http.StatusOK, "10", stored{"routes/r": bare, "services/s": oursPre})
	clock.advance(defaultOwnersRefresh - 1)
	require.Equal(t, Owner{OwnerRoute, "r"}, o.Owner(place))
	require.EqualValues(t, 1, s.calls.Load())
	clock.advance(1)
	require.Equal(t, Owner{OwnerRoute, "r"}, o.Owner(place), "what is known answers meanwhile")
	settled(t, o)
	require.Equal(t, Owner{OwnerService, "s"}, o.Owner(place))
	require.EqualValues(t, 3, s.calls.Load())
}

func TestVersionsRenewAtOnceAndKeepFromAsking(t *testing.T) {
	s := startScript(t, stored{"routes/r": oursPre})
	clock := newFakeClock()
	o := newTestOwners(t, OwnersConfig{Client: s.Client, Wait: eventually, Now: clock.now})
	at := place
	at.Versions = "9&8"
	require.Equal(t, Owner{OwnerRoute, "r"}, o.Owner(at))
	clock.advance(24 * time.Hour)
	require.Equal(t, Owner{OwnerRoute, "r"}, o.Owner(at))
	settled(t, o)
	require.EqualValues(t, 1, s.calls.Load(), "the version is the one that APISIX goes by")

	s.change(http.StatusOK, "10", stored{"routes/r": bare, "services/s": oursPre})
	at.Versions = "10&8"
	require.Equal(t, Owner{OwnerRoute, "r"}, o.Owner(at))
	settled(t, o)
	require.Equal(t, Owner{OwnerService, "s"}, o.Owner(at))
	calls := s.calls.Load()

	at.Versions = "11&8" // which the Admin API does not have yet
	for range 5 {
		o.Owner(at)
		settled(t, o)
	}
	require.Equal(t, calls+1, s.calls.Load(), "not more than once a second")
	clock.advance(versionPause)
	o.Owner(at)
	settled(t, o)
	require.Equal(t, calls+2, s.calls.Load())
}

func TestOwnersAreBounded(t *testing.T) {
	s := startScript(t, stored{"routes/a": oursPre})
	o := newTestOwners(t, OwnersConfig{Client: s.Client, Wait: eventually, MaxObjects: 1})
	const many = 3 * tableBuckets
	for i := range many { // names that need no call
		o.Owner(Place{Route: "/" + strconv.Itoa(i), Attachment: PreReq})
	}
	require.LessOrEqual(t, o.tables[routes].len(), 1+tableBuckets, "a full table makes room in the part that it adds to")
	require.Equal(t, Owner{OwnerRoute, "a"}, o.Owner(Place{Route: "a", Attachment: PreReq}))
}

func TestANameThatAPISIXCannotHoldIsNotAskedFor(t *testing.T) {
	s := startScript(t, stored{})
	o := newTestOwners(t, OwnersConfig{Client: s.Client, Wait: eventually})
	for _, id := range []string{"..", "a/b", "a?b", string(make([]byte, 65))} {
		require.Equal(t, Owner{}, o.Owner(Place{Route: id, Attachment: PreReq}))
	}
	require.Zero(t, s.calls.Load())
}

func TestAClosedSourceAnswersFromMemory(t *testing.T) {
	entered := make(chan struct{})
	s := startAdmin(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/apisix/admin/routes/r" {
			replies(http.StatusOK, `{"value":`+oursPre+`}`)(w, r)
			return
		}
		close(entered)
		<-r.Context().Done()
	})
	o := newTestOwners(t, OwnersConfig{Client: s.Client, Wait: eventually})
	require.Equal(t, Owner{OwnerRoute, "r"}, o.Owner(place))
	waiting := make(chan Owner)
	go func() { waiting <- o.Owner(Place{Route: "hangs", Attachment: PreReq}) }()
	<-entered
	o.Close()
	require.Equal(t, Owner{}, <-waiting)
	require.Equal(t, Owner{OwnerRoute, "r"}, o.Owner(place))
	require.Equal(t, Owner{}, o.Owner(Place{Route: "new", Attachment: PreReq}))
}

func TestAKnownOwnerCostsNoMemory(t *testing.T) {
	s := startScript(t, stored{"routes/r": bare, "services/s": oursPre})
	o := newTestOwners(t, OwnersConfig{Client: s.Client, Wait: eventually})
	for _, versions := range []string{"", "9&9"} {
		at := place
		at.Versions = versions
		require.Equal(t, Owner{OwnerService, "s"}, o.Owner(at))
		require.Zero(t, testing.AllocsPerRun(100, func() { o.Owner(at) }))
	}
}

func FuzzObject(f *testing.F) {
	for _, seed := range []string{oursPre, oursBoth, otherPost, unrelated, `{"plugins":null}`, `{"plugins":{"ext-plugin-pre-req":[]}}`,
		`{"plugins":{"ext-plugin-pre-req":{"conf":[null,{"name":1}]}}}`, `{"upstream":{"nodes":{"a:1":1}},"service_id":1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		for of := range kinds {
			o := decodeObject(of, value, 1, 2)
			for _, at := range []Attachment{PreReq, PostReq} {
				require.False(t, o.plugins.Runs(at) && !o.plugins.Has(at))
				require.False(t, o.plugins.Has(at) && !o.plugins.Any())
			}
			if of == upstreams && o.err == nil {
				require.NotNil(t, o.upstream)
			}
		}
	})
}

func FuzzVersion(f *testing.F) {
	f.Add("22#5&21&3", "s")
	f.Add("&&&#", "")
	f.Fuzz(func(t *testing.T, versions, service string) {
		at := Place{Service: service, Versions: versions}
		for of := range kinds {
			at.version(of).number()
		}
	})
}
