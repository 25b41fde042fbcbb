package limiter

import (
	"context"
	_ "embed" // the script
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed fixed.lua
var fixedSource string

var fixedScript = redis.NewScript(fixedSource)

// minRedisReset stands for the 0 that Redis says in a window's last millisecond.
const minRedisReset = time.Millisecond

// decideFixed is the rule of fixed windows: consumed is what the window held before this
// charge (0 to MaxCount), reset the time to the window's end (above 0). Deciding on the
// sum before it saturates keeps a quota of MaxCount exact.
func decideFixed(q *Quota, consumed, cost int64, reset time.Duration) Result {
	r := Result{Limit: q.Limit, Reset: reset}
	left := q.Limit - consumed
	switch {
	case cost <= left:
		r.Allowed = true
		r.Remaining = left - cost
	case cost <= q.Limit:
		r.RetryAfter = reset
	}
	return r
}

// chargeFixed charges a fixed window in memory.
func (e *entry) chargeFixed(q *Quota, cost, now int64) Result {
	if !e.live(fixedEntry, now) {
		e.kind, e.consumed, e.end = fixedEntry, 0, addTime(now, q.Window)
	}
	r := decideFixed(q, e.consumed, cost, time.Duration(e.end-now))
	if r.Allowed || !q.ForgiveRejected {
		// Both are at most 2^53-1: the sum cannot overflow.
		e.consumed = min(e.consumed+cost, MaxCount)
	}
	return r
}

// admitFixed is chargeFixed and note for the usual charge, which fits an open window, and
// does nothing for any other. Whole Results that are handed on take a fifth of a charge.
func (e *entry) admitFixed(limit, cost, now int64) bool {
	if !e.live(fixedEntry, now) || cost > limit-e.consumed {
		return false
	}
	e.consumed += cost
	e.use = min(e.use+1, maxUse)
	return true
}

// chargeFixedRedis charges a fixed window in Redis.
func chargeFixedRedis(ctx context.Context, c redis.Scripter, key string, cost int64, q *Quota) (Result, error) {
	consumed, reset, err := askFixed(ctx, c, key, cost, q)
	if err != nil {
		return Result{}, err
	}
	return decideFixed(q, consumed, cost, reset), nil
}

// askFixed charges a fixed window in Redis, and returns what it held before and the time
// to its end.
func askFixed(ctx context.Context, c redis.Scripter, key string, cost int64, q *Quota) (consumed int64, reset time.Duration, err error) {
	addUpTo := int64(-1)
	if q.ForgiveRejected {
		addUpTo = q.Limit
	}
	reply, err := fixedScript.Run(ctx, c, []string{redisKey(Fixed, key)},
		cost, roundUp(q.Window, time.Millisecond), addUpTo).Int64Slice()
	if err != nil {
		return 0, 0, err
	}
	if len(reply) != 2 {
		return 0, 0, errNoFixedWindow
	}
	return fixedReply(reply)
}

var errNoFixedWindow = errors.New("the script's reply is not a fixed window")

func fixedReply(reply []int64) (consumed int64, reset time.Duration, err error) {
	if reply[0] < 0 || reply[0] > MaxCount {
		return 0, 0, errNoFixedWindow
	}
	return reply[0], max(saturatingDuration(reply[1], time.Millisecond), minRedisReset), nil
}

// settleFixed adds what was admitted elsewhere, once however often it is sent, and returns
// what the window then holds and the time to its end. A window that Redis does not have
// (any more) is opened for the time that is left of it: a server that lost its data learns
// this part of it again, and a settlement that comes too late is forgotten at once.
func settleFixed(ctx context.Context, c redis.Scripter, s *settlement, left time.Duration) (consumed int64, reset time.Duration, err error) {
	reply, err := fixedScript.Run(ctx, c, s.keys(), s.amount, roundUp(left, time.Millisecond), -1, s.id).Int64Slice()
	if err != nil {
		return 0, 0, err
	}
	if len(reply) != 3 {
		return 0, 0, errNoFixedWindow
	}
	if consumed, reset, err = fixedReply(reply); err == nil && reply[2] == 1 {
		consumed = min(consumed+s.amount, MaxCount)
	}
	return consumed, reset, err
}
