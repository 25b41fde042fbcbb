package plugins_test

import (
	"strings"
	"testing"
)

// uploads are bodies that clients send, byte for byte but for the line ends.
var uploads = []struct{ client, contentType, body string }{
	{"a browser's FormData, as apollo-upload-client sends it (Chromium)", "multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW",
		`------WebKitFormBoundary7MA4YWxkTrZu0gW
Content-Disposition: form-data; name="operations"

{"operationName":"A","query":"mutation A($f:Upload!){a(f:$f){b}}","variables":{"f":null}}
------WebKitFormBoundary7MA4YWxkTrZu0gW
Content-Disposition: form-data; name="map"

{"1":["variables.f"]}
------WebKitFormBoundary7MA4YWxkTrZu0gW
Content-Disposition: form-data; name="1"; filename="Übersicht (1), it's 50%25 %22new%22;x.png"
Content-Type: image/png

PNG
------WebKitFormBoundary7MA4YWxkTrZu0gW--
`},
	{"a browser's FormData (Firefox)", "multipart/form-data; boundary=---------------------------9051914041544843365972754266",
		`-----------------------------9051914041544843365972754266
Content-Disposition: form-data; name="operations"

{"query":"{a{b}}"}
-----------------------------9051914041544843365972754266
Content-Disposition: form-data; name="map"

{}
-----------------------------9051914041544843365972754266
Content-Disposition: form-data; name="0"; filename=""
Content-Type: application/octet-stream


-----------------------------9051914041544843365972754266--
`},
	{"curl -F", "multipart/form-data; boundary=------------------------cfa322aa0d29c069",
		`--------------------------cfa322aa0d29c069
Content-Disposition: form-data; name="operations"
Content-Type: application/json

{"query":"{a{b}}"}
--------------------------cfa322aa0d29c069
Content-Disposition: form-data; name="map"

{"0":["variables.f"]}
--------------------------cfa322aa0d29c069
Content-Disposition: form-data; name="0"; filename="a %22q%22 ü;x.txt"
Content-Type: text/plain

hi
--------------------------cfa322aa0d29c069--
`},
	{"curl -F before 7.81, a file name with quotes", "multipart/form-data; boundary=------------------------cfa322aa0d29c069",
		`--------------------------cfa322aa0d29c069
Content-Disposition: form-data; name="operations"

{"query":"{a{b}}"}
--------------------------cfa322aa0d29c069
Content-Disposition: form-data; name="0"; filename="a \"q\" \\ x.txt"
Content-Type: text/plain

hi
--------------------------cfa322aa0d29c069--
`},
	{"Node's fetch", "multipart/form-data; boundary=----formdata-undici-093479852183",
		`------formdata-undici-093479852183
Content-Disposition: form-data; name="operations"

{"query":"{a{b}}"}
------formdata-undici-093479852183
Content-Disposition: form-data; name="0"; filename="a %22q%22 ü%0A;x.txt"
Content-Type: text/plain

hi
------formdata-undici-093479852183--
`},
	{"Node's form-data", "multipart/form-data; boundary=--------------------------515890814546601021194782",
		`----------------------------515890814546601021194782
Content-Disposition: form-data; name="operations"

{"query":"{a{b}}"}
----------------------------515890814546601021194782
Content-Disposition: form-data; name="0"; filename="a.txt"
Content-Type: text/plain

hi
----------------------------515890814546601021194782--
`},
	{"Python's requests", "multipart/form-data; boundary=c8858a01add397f29bf19100f86031d3",
		`--c8858a01add397f29bf19100f86031d3
Content-Disposition: form-data; name="operations"

{"query":"{a{b}}"}
--c8858a01add397f29bf19100f86031d3
Content-Disposition: form-data; name="0"; filename="a ü.txt"
Content-Type: text/plain

hi
--c8858a01add397f29bf19100f86031d3--
`},
	{".NET's MultipartFormDataContent", `multipart/form-data; boundary="0a5f2b1e-8f0c-4a7e-9a44-1f0d6e1c7f11"`,
		`--0a5f2b1e-8f0c-4a7e-9a44-1f0d6e1c7f11
Content-Type: text/plain; charset=utf-8
Content-Disposition: form-data; name=operations

{"query":"{a{b}}"}
--0a5f2b1e-8f0c-4a7e-9a44-1f0d6e1c7f11
Content-Disposition: form-data; name=0; filename="=?utf-8?B?w7wudHh0?="; filename*=utf-8''%C3%BC.txt

hi
--0a5f2b1e-8f0c-4a7e-9a44-1f0d6e1c7f11--
`},
	{"OkHttp", "multipart/form-data; boundary=2b7c3b0e-5b0e-4c52-8f5b-1c6f2d1f0a55",
		`--2b7c3b0e-5b0e-4c52-8f5b-1c6f2d1f0a55
Content-Disposition: form-data; name="operations"
Content-Length: 18

{"query":"{a{b}}"}
--2b7c3b0e-5b0e-4c52-8f5b-1c6f2d1f0a55
Content-Disposition: form-data; name="0"; filename="a.txt"
Content-Type: text/plain
Content-Length: 2

hi
--2b7c3b0e-5b0e-4c52-8f5b-1c6f2d1f0a55--
`},
	{"Dart's http", "multipart/form-data; boundary=dart-http-boundary-Yp1.+_x5Q9",
		`--dart-http-boundary-Yp1.+_x5Q9
content-disposition: form-data; name="operations"

{"query":"{a{b}}"}
--dart-http-boundary-Yp1.+_x5Q9
content-type: application/octet-stream
content-disposition: form-data; name="variables.file"; filename="a.txt"

hi
--dart-http-boundary-Yp1.+_x5Q9--
`},
	{"Jakarta Mail", `multipart/form-data; charset=UTF-8; boundary="----=_Part_0_1234567.1700000000"`,
		`------=_Part_0_1234567.1700000000
Content-Type: application/json
Content-Transfer-Encoding: 8bit
Content-Disposition: form-data; name="operations"

{"query":"{a{b}}"}
------=_Part_0_1234567.1700000000--
`},
}

// TestUploadsOfUsualClientsAreRead: what is refused is only what no client sends.
func TestUploadsOfUsualClientsAreRead(t *testing.T) {
	s := startStack(t, stackConfig{})
	route := s.route(t, `{`+plenty+`,"allow_multipart":true}`)
	for _, u := range uploads {
		t.Run(u.client, func(t *testing.T) {
			body := strings.ReplaceAll(u.body, "\n", "\r\n")
			route.send(query{body: body, headers: map[string]string{"content-type": u.contentType}}).costs("2")
		})
	}
}

// TestUploadsThatServersReadDifferentlyAreRefused: of each, some server reads the
// dearer operations, or some server reads none where another does.
func TestUploadsThatServersReadDifferentlyAreRefused(t *testing.T) {
	s := startStack(t, stackConfig{})
	route := s.route(t, `{`+plenty+`,"allow_multipart":true}`)
	const (
		prefix     = "invalid graphql request, "
		noBoundary = prefix + "the multipart body has no boundary"
		malformed  = prefix + "malformed multipart body"
		twoWays    = prefix + "the multipart body has a part with headers that could be read in two ways"
		taken      = prefix + "the multipart body has a part that could be taken for operations"
		cheap      = `{"query":"{a}"}`
		dear       = `{"query":"{a{b{c}}}"}`
		operations = "--B\r\nContent-Disposition: form-data; name=\"operations\"\r\n\r\n" + cheap + "\r\n"
	)
	send := func(contentType, body string) answer {
		return route.send(query{body: body, headers: map[string]string{"content-type": contentType}})
	}
	send("multipart/form-data; boundary=B", operations+"--B--").costs("1")
	inBoth := operations + "--C\r\nContent-Disposition: form-data; name=\"operations\"\r\n\r\n" + dear + "\r\n--C--\r\n--B--\r\n"
	for _, parameters := range []string{
		"boundary=C; boundary*=utf-8''B", "boundary*=utf-8''B; boundary=C", "boundary*0=B; boundary=C", "boundary=B; boundary*0=C",
		"boundary*=utf-8''B", "boundary*0=B", "boundary=B; x=1", "boundary=B; boundary=B", "boundary=B; boundary=C", "boundary=B; Boundary=C",
		"Boundary=B", "boundary =B", "boundary= B", "boundary=B;", "boundary=B; ; charset=utf-8", "boundary='B'; x", `boundary="B`, `boundary=B"`,
		`boundary="B;C"`, `boundary="B C"`, `boundary="\B"`, "boundary=B C", "boundary=B=C", "boundary=B:C", `boundary=""; boundary=B`,
		"boundary=B; charset=utf-8; charset=utf-8", `boundary=B; charset="utf-8`, "xboundary=C; boundary=B", "boundary=" + strings.Repeat("B", 71),
	} {
		t.Run(parameters, func(t *testing.T) {
			send("multipart/form-data; "+parameters, inBoth).badRequest(noBoundary)
		})
	}
	for _, c := range []struct{ headers, message string }{
		{`Content-Disposition: form-data; name="operations"; x=1; x=2`, twoWays},
		{`Content-Disposition: form-data; name="operations"; x=1`, twoWays},
		{`Content-Disposition: form-data; name="operations"; name="x"`, twoWays},
		{`Content-Disposition: form-data; name="x"; name="operations"`, twoWays},
		{`Content-Disposition: attachment; name="operations"`, twoWays},
		{`Content-Disposition: form-data; foo bar; name="operations"`, twoWays},
		{`Content-Disposition: form-data; name="operations";;`, twoWays},
		{`Content-Disposition: form-data; name="operations";`, twoWays},
		{`Content-Disposition: form-data; name*=utf-8''operations`, twoWays},
		{`Content-Disposition: form-data; name="x"; name*=utf-8''operations`, twoWays},
		{`Content-Disposition: form-data; name*0=oper; name*1=ations`, twoWays},
		{`Content-Disposition: form-data; x-name="operations"; name="x"`, twoWays},
		{`Content-Disposition: form-data; filename="name=operations"; name="x"`, twoWays},
		{`Content-Disposition: form-data; name="x"; filename="a; name=operations"`, twoWays},
		{`Content-Disposition: form-data; name="x"; filename="a\"; name=\"operations"`, twoWays},
		{`Content-Disposition: form-data; name="x"; filename="a"; filename="b"`, twoWays},
		{`Content-Disposition: form-data; name="x" name="operations"`, twoWays},
		{`Content-Disposition: form-data; name="x"; filename="a`, twoWays},
		{`Content-Disposition: form-data; name = "operations"`, twoWays},
		{`Content-Disposition: form-data; name='operations'`, twoWays},
		{`Content-Disposition: form-data; name="oper\ations"`, twoWays},
		{`Content-Disposition: form-data; name="oper%61tions"`, twoWays},
		{`Content-Disposition: form-data; name="=?utf-8?B?b3BlcmF0aW9ucw==?="`, twoWays},
		{`Content-Disposition: form-data; name=""`, twoWays},
		{`Content-Disposition: form-data; name`, twoWays},
		{`Content-Disposition: form-data`, twoWays},
		{`Content-Disposition:`, twoWays},
		{`content-disposition : form-data; name="operations"`, twoWays},
		{` Content-Disposition: form-data; name="operations"`, twoWays},
		{"Content-Disposition: form-data;\r\n name=\"operations\"", twoWays},
		{"Content-Disposition: form-data; name=\"x\"\r\nContent-Disposition: form-data; name=\"operations\"", twoWays},
		{"Content-Disposition: form-data; name=\"x\"\nContent-Disposition: form-data; name=\"operations\"", twoWays},
		{"Content-Disposition: form-data; name=\"x\"\rContent-Disposition: form-data; name=\"operations\"", twoWays},
		{"Content-Disposition: form-data; name=\"operations\x00\"", twoWays},
		{"Content-Disposition: form-data; name=\"x\"\r\nContent-Type: multipart/mixed; boundary=C", twoWays},
		{"Content-Disposition: form-data; name=\"x\"\r\nContent-Type: text/plain\r\ncontent-type: text/html", twoWays},
		{"Content-Type: text/plain", twoWays},
		{"X", twoWays},
		{`Content-Disposition: form-data; name="operations"`, prefix + "the multipart body has more than one operations part"},
		{`CONTENT-DISPOSITION: Form-Data; NAME=operations`, prefix + "the multipart body has more than one operations part"},
		{`Content-Disposition: form-data; name="Operations"`, taken},
		{"Content-Disposition: form-data; name=\"operation\u017f\"", taken},
		{`Content-Disposition: form-data; name=" operations "`, taken},
		{`Content-Disposition: form-data; name="operations[query]"`, taken},
		{`Content-Disposition: form-data; name="operations.query"`, taken},
		{`Content-Disposition: form-data; name="query"`, taken},
		{`Content-Disposition: form-data; name="variables[n]"`, taken},
		{`Content-Disposition: form-data; name="_charset_"`, taken},
	} {
		other := "--B\r\n" + c.headers + "\r\n\r\n" + dear + "\r\n"
		for name, body := range map[string]string{" first": other + operations + "--B--\r\n", " last": operations + other + "--B--\r\n"} {
			t.Run(c.headers+name, func(t *testing.T) { send("multipart/form-data; boundary=B", body).badRequest(c.message) })
		}
	}
	hidden := "Content-Disposition: form-data; name=\"operations\"\r\n\r\n" + dear
	for _, c := range []struct{ name, body, message string }{
		{"a preamble", "preamble\r\n" + operations + "--B--\r\n", malformed},
		{"an epilogue", operations + "--B--\r\nepilogue", malformed},
		{"parts behind the last", operations + "--B--\r\n--B\r\n" + hidden + "\r\n--B--\r\n", malformed},
		{"no last delimiter", operations, malformed},
		{"a delimiter without a line end", operations + "--B", malformed},
		{"a delimiter behind a line feed", operations + "--B\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\nx\n--B\r\n" + hidden + "\r\n--B--\r\n", malformed},
		{"a delimiter behind a carriage return", operations + "--B\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\nx\r--B\r\n" + hidden + "\r\n--B--\r\n", malformed},
		{"a delimiter that ends in a line feed", "--B\n" + hidden + "\r\n" + operations + "--B--\r\n", malformed},
		{"a delimiter with white space behind it", "--B \r\n" + hidden + "\r\n" + operations + "--B--\r\n", malformed},
		{"a delimiter with text behind it", operations + "--BC\r\n" + hidden + "\r\n--B--\r\n", malformed},
		{"a delimiter with one dash behind it", operations + "--B-\r\n" + hidden + "\r\n--B--\r\n", malformed},
		{"line feeds only", strings.ReplaceAll(operations+"--B--\r\n", "\r\n", "\n"), malformed},
		{"no empty line between headers and body", "--B\r\nContent-Disposition: form-data; name=\"operations\"\r\n--B--\r\n", malformed},
		{"no headers", operations + "--B\r\n\r\n" + hidden + "\r\n--B--\r\n", twoWays},
	} {
		t.Run(c.name, func(t *testing.T) {
			send("multipart/form-data; boundary=B", c.body).badRequest(c.message)
		})
	}
}
