package plugins

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzUploadsAreReadAsByMimeMultipart: of a body that is read, the standard library
// finds the same operations, and no other part of that name.
func FuzzUploadsAreReadAsByMimeMultipart(f *testing.F) {
	const operations = "--B\r\nContent-Disposition: form-data; name=\"operations\"\r\n\r\n{\"query\":\"{a}\"}\r\n"
	for _, parameters := range []string{
		"boundary=B", ` boundary="B" ; charset=utf-8`, "boundary=C; boundary*=utf-8''B", "boundary*0=B; boundary=C", "boundary=B;", "Boundary=B",
	} {
		f.Add([]byte(operations+"--B--\r\n"), parameters)
	}
	for _, headers := range []string{
		`Content-Disposition: form-data; name="0"; filename="a \"q\" \\ x.txt"; filename*=utf-8''%C3%BC.txt`,
		"content-type: text/plain\r\ncontent-disposition: Form-Data; name=0; filename=a", `Content-Disposition: form-data; name="operations"; x=1; x=2`,
		`Content-Disposition: form-data; name="operations"; name="x"`, `Content-Disposition: attachment; name="operations"`,
		`Content-Disposition: form-data; foo bar; name="operations"`, `Content-Disposition: form-data; name="operations";;`,
		`content-disposition : form-data; name="operations"`, "Content-Disposition: form-data;\r\n name=operations",
	} {
		f.Add([]byte(operations+"--B\r\n"+headers+"\r\n\r\nx\r\n--B--"), "boundary=B")
	}
	f.Fuzz(func(t *testing.T, body []byte, parameters string) {
		found, err := multipartOperations(body, parameters)
		if err != nil {
			var fault *requestError
			require.ErrorAs(t, err, &fault)
			return
		}
		_, values, err := mime.ParseMediaType(mediaMultipart + ";" + parameters)
		require.NoError(t, err)
		parts := multipart.NewReader(bytes.NewReader(body), values["boundary"])
		var want [][]byte
		for {
			part, err := parts.NextRawPart()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			require.NotEmpty(t, part.FormName())
			if strings.EqualFold(part.FormName(), partOperations) {
				text, err := io.ReadAll(part)
				require.NoError(t, err)
				want = append(want, text)
			}
		}
		require.Equal(t, [][]byte{found}, want)
	})
}
