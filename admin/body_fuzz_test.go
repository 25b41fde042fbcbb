package admin

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAMalformedBodyIsShownInPart(t *testing.T) {
	_, err := parseBody([]byte("{" + strings.Repeat("\xff", 2000)))
	var answer *refusal
	require.ErrorAs(t, err, &answer)
	require.Equal(t, 400, answer.status)
	require.LessOrEqual(t, len(answer.body["req_body"].(string)), 1030)
	_, err = encode(answer.body)
	require.NoError(t, err)
}

// FuzzParseBody checks that nothing that a client can send stops the way from a body to a decoration.
func FuzzParseBody(f *testing.F) {
	for _, seed := range []string{
		``, `{`, `{"field_path":"Query.a","add_value":1e400}`, `{"field_path":"Q","mul_value":-1e-9}`, `[[[[`, `"\ud800\udc00"`,
		`{"id":7,"labels":{"a":null},"field_path":"a.b"}`, `{"a":1,"a":2}`, "\"\xff\"", `1e1000000000`, `-`, `nul`, `{"id":1e-300}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		value, err := parseBody(text)
		if err != nil {
			var answer *refusal
			require.True(t, errors.As(err, &answer))
			return
		}
		object, err := asObject(value)
		if err != nil {
			return
		}
		if checkDecoration(object) != nil {
			return
		}
		d, err := draft("shop", "d1", object)
		require.NoError(t, err)
		_, err = costDecoration(Record{Draft: d})
		require.NoError(t, err)
	})
}
