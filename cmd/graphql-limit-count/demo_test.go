package main

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/ci/demo"
)

// demoTimeout bounds a demo.
const demoTimeout = time.Minute

// anywhere are options of a demo that takes free ports.
func anywhere(t *testing.T, server string, report *bytes.Buffer) demo.Options {
	const free = "127.0.0.1:0"
	return demo.Options{
		Binary: asCommand(t), Server: server, OneShot: true,
		FrontAddr: free, GatewayAdminAddr: free, ShopAddr: free, RunnerAdminAddr: free,
		Out: report, Log: t.Output(),
	}
}

func TestEveryAnswerOfTheDemoIsTheDocumentedOne(t *testing.T) {
	for _, server := range []string{serverOwn, serverStock} {
		t.Run(server, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), demoTimeout)
			defer cancel()
			var report bytes.Buffer
			require.NoError(t, demo.Run(ctx, anywhere(t, server, &report)), "%s", &report)
			require.Contains(t, report.String(), "Every answer was the documented one.")
			require.NotContains(t, report.String(), "DIFFERS")
		})
	}
}

func TestTheDemoStaysUpUntilItIsEnded(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), demoTimeout)
	defer cancel()
	report := &endAt{text: "Everything stays up until Ctrl-C", end: cancel}
	options := anywhere(t, serverOwn, nil)
	options.OneShot, options.Out = false, report
	require.NoError(t, demo.Run(ctx, options))
	require.ErrorIs(t, ctx.Err(), context.Canceled, "not by the time that it took")
	require.Contains(t, report.String(), "curl -i http://")
}

func TestTheDemoWithoutARunnerFails(t *testing.T) {
	var report bytes.Buffer
	options := anywhere(t, "stock", &report)
	require.EqualError(t, demo.Run(t.Context(), options), "start the runner: it ended at once: exit status 1")
}

// endAt keeps what is written and ends something at a text.
type endAt struct {
	bytes.Buffer
	text string
	end  func()
}

// Write implements io.Writer.
func (e *endAt) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(e.text)) {
		e.end()
	}
	return e.Buffer.Write(p)
}
