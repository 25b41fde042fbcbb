package admin

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestAComplaintIsRepeatedOnceAMinute(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	now := time.Unix(1_700_000_000, 0)
	complaint := newThrottled(zap.New(core))
	complaint.now = func() time.Time { return now }
	for range 121 { // two minutes, one complaint a second
		complaint.Error("the store is gone")
		now = now.Add(time.Second)
	}
	require.Equal(t, 3, logs.Len())
}
