package extplugin

import (
	"net/http"
	"testing"

	"github.com/api7/ext-plugin-proto/go/A6"
	"github.com/api7/ext-plugin-proto/go/A6/Err"
	"github.com/api7/ext-plugin-proto/go/A6/HTTPReqCall"
	"github.com/stretchr/testify/require"
)

// overlapping returns an HTTPReqCall of n headers that all have the same value of
// the size given: small on the wire, n times as large when copied.
func overlapping(t *testing.T, token uint32, n, size int) []byte {
	b := newBuilder()
	value := b.CreateByteString(make([]byte, size))
	name := b.CreateString("a")
	A6.TextEntryStart(b)
	A6.TextEntryAddName(b, name)
	A6.TextEntryAddValue(b, value)
	shared := A6.TextEntryEnd(b)
	HTTPReqCall.ReqStartHeadersVector(b, n)
	for range n {
		b.PrependUOffsetT(shared)
	}
	headers := b.EndVector(n)
	HTTPReqCall.ReqStart(b)
	HTTPReqCall.ReqAddConfToken(b, token)
	HTTPReqCall.ReqAddHeaders(b, headers)
	frame, err := finishFrame(b, frameHTTPReqCall, HTTPReqCall.ReqEnd(b))
	require.NoError(t, err)
	return frame
}

func TestEntriesThatShareMemoryAreNotCopiedWithoutBound(t *testing.T) {
	path := serve(t, filtering(func(w http.ResponseWriter, r *request) {
		r.Header().View()
		w.WriteHeader(http.StatusTeapot)
	})).path
	token := prepare(t, dial(t, path), "", `{}`)
	c := dialRaw(t, path)
	c.write(overlapping(t, token, 16, 1<<10))
	ty, _ := c.read()
	require.Equal(t, frameHTTPReqCall, ty, "a writer may share strings")

	c.write(overlapping(t, token, 2000, 1<<20)) // 2 GB of headers in a frame of 1 MB
	requireErrorFrame(t, c, Err.CodeBAD_REQUEST)
}
