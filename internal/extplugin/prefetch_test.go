package extplugin

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/apache/apisix-go-plugin-runner/pkg/common"
	pkghttp "github.com/apache/apisix-go-plugin-runner/pkg/http"
	"github.com/apache/apisix-go-plugin-runner/pkg/plugin"
	"github.com/api7/ext-plugin-proto/go/A6/ExtraInfo"
	"github.com/stretchr/testify/require"
)

// filtering serves one plugin called "script" made of a function.
func filtering(filter func(w http.ResponseWriter, r *request)) func(*Config) {
	return func(cfg *Config) {
		cfg.Plugins = []plugin.Plugin{&funcPlugin{
			name:   "script",
			filter: func(_ any, w http.ResponseWriter, r pkghttp.Request) { filter(w, r.(*request)) },
		}}
	}
}

// rawCall sends a call of path's only configuration on a raw connection.
func rawCall(t *testing.T, path string) *rawConn {
	token := prepare(t, dial(t, path), "raw", `{}`)
	frame, err := (&Client{}).encodeCall(suiteRequest(token))
	require.NoError(t, err)
	c := dialRaw(t, path)
	c.write(frame)
	return c
}

// answerFrame returns the frame that answers a question.
func answerFrame(t *testing.T, value string) []byte {
	frame, err := (&Client{}).encodeAnswer([]byte(value), true)
	require.NoError(t, err)
	return frame
}

func TestPrefetchWritesAllQuestionsBeforeItReadsAnAnswer(t *testing.T) {
	path := serve(t, filtering(func(w http.ResponseWriter, r *request) {
		err := r.Prefetch(true, "cookie_a", "route_id", "cookie_b", "cookie_a")
		a, _ := r.Var("cookie_a")
		b, _ := r.Var("cookie_b")
		id, _ := r.Var("route_id")
		body, _ := r.Body()
		fmt.Fprintf(w, "%v %s %s %s %s", err, a, b, id, body)
	})).path
	c := rawCall(t, path)
	var asked []string
	for range 4 { // none is answered yet
		ty, payload := c.read()
		require.Equal(t, frameExtraInfo, ty)
		kind, name, err := decodeQuestion(payload)
		require.NoError(t, err)
		if kind == ExtraInfo.InfoReqBody {
			name = "(body)"
		}
		asked = append(asked, name)
	}
	require.Equal(t, []string{"cookie_a", "route_id", "cookie_b", "(body)"}, asked)
	for _, value := range []string{"1", "r", "2", "{ b }"} {
		c.write(answerFrame(t, value))
	}
	ty, payload := c.read()
	require.Equal(t, frameHTTPReqCall, ty)
	action, err := decodeAction(payload)
	require.NoError(t, err)
	require.Equal(t, "<nil> 1 2 r { b }", string(action.Body))
}

func TestPrefetchOfMoreQuestionsThanFitAskInTurns(t *testing.T) {
	const n = 3*maxQuestions + 1
	names := make([]string, n)
	values := map[string]string{}
	for i := range names {
		names[i] = fmt.Sprintf("cookie_%d_%s", i, strings.Repeat("x", maxVarName-20))
		values[names[i]] = fmt.Sprint(i)
	}
	s := serve(t, filtering(func(w http.ResponseWriter, r *request) {
		if err := r.Prefetch(true, names...); err != nil {
			fmt.Fprint(w, err)
			return
		}
		for _, name := range names {
			value, _ := r.Var(name)
			fmt.Fprintf(w, "%s ", value)
		}
	}))
	c := dial(t, s.path)
	answers := &fixedAnswers{vars: values, body: []byte("b")}
	got, err := c.HTTPReqCall(t.Context(), suiteRequest(prepare(t, c, "", `{}`)), answers)
	require.NoError(t, err)
	require.Len(t, strings.Fields(string(got.Body)), n)
	require.Len(t, answers.asked, n+1)
	require.Equal(t, int64(n+1), s.Stats().Questions)
}

func TestPrefetchAsksNothingTwice(t *testing.T) {
	path := serve(t, filtering(func(w http.ResponseWriter, r *request) {
		for range 3 {
			if err := r.Prefetch(true, "cookie_a", "arg_a", "route_id"); err != nil {
				fmt.Fprint(w, err)
			}
		}
		w.WriteHeader(http.StatusNoContent)
	})).path
	c := dial(t, path)
	answers := &fixedAnswers{}
	_, err := c.HTTPReqCall(t.Context(), suiteRequest(prepare(t, c, preReqKey, `{}`)), answers)
	require.NoError(t, err)
	require.Equal(t, []string{"cookie_a", "(body)"}, answers.asked)
}

func TestABodyIsThePluginsToKeepUnlessItWasPeekedAt(t *testing.T) {
	for name, read := range map[string]func(*request) ([]byte, error){
		"kept":               (*request).Body,
		"peeked at and kept": func(r *request) ([]byte, error) { _, _ = r.PeekBody(); return r.Body() },
	} {
		t.Run(name, func(t *testing.T) {
			var first []byte
			path := serve(t, filtering(func(w http.ResponseWriter, r *request) {
				body, err := read(r)
				if first == nil {
					first = body
				}
				fmt.Fprintf(w, "%s %s %v", first, body, err)
			})).path
			c := dial(t, path)
			token := prepare(t, c, preReqKey, `{}`)
			for _, body := range []string{"one", "two", ""} {
				got, err := c.HTTPReqCall(t.Context(), suiteRequest(token), &fixedAnswers{body: []byte(body)})
				require.NoError(t, err)
				require.Equal(t, "one "+body+" <nil>", string(got.Body))
			}
		})
	}
	t.Run("peeked at", func(t *testing.T) {
		var r request
		r.bodyRoom = []byte("room")
		r.body, r.haveBody = r.bodyRoom, true
		_, err := r.PeekBody()
		require.NoError(t, err)
		r.end()
		require.Equal(t, 4, cap(r.bodyRoom), "the next request's")
		require.False(t, r.haveBody)
	})
}

func TestAVariableNameTooLongIsAnErrorAndHarmsNothing(t *testing.T) {
	path := serve(t, filtering(func(w http.ResponseWriter, r *request) {
		_, err := r.Var(strings.Repeat("x", maxVarName+1))
		value, _ := r.Var("cookie_a")
		fmt.Fprintf(w, "%v, %s", err, value)
	})).path
	c := dial(t, path)
	got, err := c.HTTPReqCall(t.Context(), suiteRequest(prepare(t, c, "", `{}`)), &fixedAnswers{vars: map[string]string{"cookie_a": "1"}})
	require.NoError(t, err)
	require.Equal(t, "asking APISIX for a variable: a name of 1025 bytes is longer than 1024, 1", string(got.Body))
}

func TestAFailedQuestionFailsTheOthersAndClosesTheConnection(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer []byte
		text   string
	}{
		{"an error frame", frameUnavailable, "runner answered with error SERVICE_UNAVAILABLE"},
		{"a frame of another type", frameOf(frameHTTPReqCall, []byte{0, 0, 0, 0}), "frame of unexpected type 2"},
		{"a malformed answer", frameOf(frameExtraInfo, []byte{255, 255, 255, 255}), "malformed message"},
		{"an empty answer", frameOf(frameExtraInfo, nil), "malformed message"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			errs := make(chan error, 2)
			path := serve(t, filtering(func(w http.ResponseWriter, r *request) {
				_, err := r.Var("cookie_a")
				errs <- err
				_, err = r.Body()
				errs <- err
				w.WriteHeader(http.StatusBadGateway)
			})).path
			c := rawCall(t, path)
			ty, _ := c.read()
			require.Equal(t, frameExtraInfo, ty)
			c.write(tc.answer)
			for range 2 {
				err := <-errs
				require.ErrorIs(t, err, common.ErrConnClosed)
				require.ErrorContains(t, err, `reading APISIX's answer for the variable "cookie_a"`)
				require.ErrorContains(t, err, tc.text)
			}
			ty, payload := c.read() // what the plugin decided is still said
			require.Equal(t, frameHTTPReqCall, ty)
			action, err := decodeAction(payload)
			require.NoError(t, err)
			require.Equal(t, http.StatusBadGateway, action.Status)
			_, _, err = c.f.read(nil)
			require.Error(t, err)
		})
	}
}

func TestAConnectionLostWhileAskingIsAnError(t *testing.T) {
	errs := make(chan error, 1)
	path := serve(t, filtering(func(w http.ResponseWriter, r *request) {
		_, err := r.Body()
		errs <- err
	})).path
	c := rawCall(t, path)
	ty, _ := c.read()
	require.Equal(t, frameExtraInfo, ty)
	c.write(frameOf(frameExtraInfo, make([]byte, 100))[:50])
	require.NoError(t, c.f.nc.Close())
	err := <-errs
	require.ErrorIs(t, err, common.ErrConnClosed)
	require.ErrorContains(t, err, "reading APISIX's answer for the request body")
}

func TestAnErrorOfTheBodyEndsTheCall(t *testing.T) {
	path := serve(t).path
	c := dial(t, path)
	noBody := errors.New("body is on fire")
	_, err := c.HTTPReqCall(t.Context(), suiteRequest(prepare(t, c, "", `{"tell":["body"]}`)), &fixedAnswers{bodyErr: noBody})
	require.ErrorIs(t, err, noBody)
	require.True(t, c.Broken())
}
