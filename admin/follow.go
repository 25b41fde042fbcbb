package admin

import (
	"context"
	"errors"
)

// Follower holds something that is derived from a store; *Models is one.
type Follower interface {
	// Refresh derives it again for the given services. An error means that the store failed;
	// what was derived before then stays in force.
	Refresh(ctx context.Context, services ...string) error
}

var _ Follower = (*Models)(nil)

// Follow keeps the followers up to date with store until ctx is done and returns ctx's error.
// Each is refreshed, in the order given, within a second of a change, whoever made it; after
// a failure again soon, and one that fails does not keep the others from what changed.
func Follow(ctx context.Context, store Store, followers ...Follower) error {
	return store.Watch(ctx, func(services []string) error {
		var failures []error
		for _, follower := range followers {
			failures = append(failures, follower.Refresh(ctx, services...))
		}
		return errors.Join(failures...)
	})
}
