package extplugin

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// internalError is the answer to what cannot be limited as configured.
var internalError = Action{
	Kind: Stop, ID: 7, Status: http.StatusInternalServerError,
	Headers: []KV{{Name: "Content-Type", Value: "application/json"}},
	Body: []byte(`{"message":"internal server error","errors":[{"message":"internal server error",` +
		`"extensions":{"code":"INTERNAL_SERVER_ERROR"}}]}`),
}

// observed has the server log into memory.
func observed() (*observer.ObservedLogs, func(*Config)) {
	core, logs := observer.New(zap.DebugLevel)
	return logs, func(cfg *Config) { cfg.Logger = zap.New(core) }
}

func TestAPanicIsAnsweredByPolicy(t *testing.T) {
	for _, tc := range []struct {
		name string
		conf []NamedConf
		want Action
	}{
		{"refused by default, whatever was written before",
			[]NamedConf{{Name: "script", Value: `{"panic":"ouch","set_path":"/x"}`}}, internalError},
		{"passed untouched where the configuration allows degradation",
			[]NamedConf{{Name: "script", Value: `{"panic":"ouch","set_path":"/x","degrade":true}`}}, Action{ID: 7}},
		{"the next plugin still runs after one that may degrade",
			[]NamedConf{{Name: "script", Value: `{"panic":"ouch","degrade":true}`}, {Name: "second", Value: `{"status":401,"body":"no"}`}},
			Action{Kind: Stop, ID: 7, Status: 401, Body: []byte("no")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			logs, logged := observed()
			s := serve(t, logged)
			c := dial(t, s.path)
			token, err := c.PrepareConf(t.Context(), preReqKey, tc.conf)
			require.NoError(t, err)
			for range 2 { // the connection stays open
				got, err := c.HTTPReqCall(t.Context(), suiteRequest(token), &fixedAnswers{})
				require.NoError(t, err)
				require.Equal(t, tc.want, got)
			}
			require.Equal(t, int64(2), s.Stats().Panics)
			entries := logs.FilterMessage("a filter panicked").All()
			require.Len(t, entries, 2)
			fields := entries[0].ContextMap()
			require.Equal(t, "script", fields["plugin"])
			require.Equal(t, "ouch", fields["panic"])
			require.Contains(t, string(fields["stack"].(string)), "scriptPlugin).RequestFilter")
		})
	}
}

type panickingPolicy struct{}

func (panickingPolicy) AllowDegradation() bool { panic("policy") }

func TestAPolicyThatPanicsIsNone(t *testing.T) {
	require.False(t, (&parsedConf{value: panickingPolicy{}}).degrades())
	require.False(t, (&parsedConf{}).degrades())
}

func TestLogsThatClientsCanProvokeAreBounded(t *testing.T) {
	logs, logged := observed()
	s := serve(t, logged)
	c := dial(t, s.path)
	token := prepare(t, c, "", `{"panic":"ouch"}`)
	for range 10 * gateBurst {
		_, err := c.HTTPReqCall(t.Context(), suiteRequest(token), &fixedAnswers{})
		require.NoError(t, err)
	}
	require.LessOrEqual(t, logs.Len(), 2*gateBurst)
	require.Equal(t, int64(10*gateBurst), s.Stats().Panics)
}

func TestNothingIsLoggedForGoodRequests(t *testing.T) {
	logs, logged := observed()
	s := serve(t, logged)
	c := dial(t, s.path)
	token := prepare(t, c, preReqKey, `{"tell":["body"]}`)
	for range 10 {
		_, err := c.HTTPReqCall(t.Context(), suiteRequest(token), &fixedAnswers{body: []byte("b")})
		require.NoError(t, err)
	}
	require.Zero(t, logs.Len())
}
