package plugins_test

import (
	"fmt"
	"strings"
	"testing"

	"graphql-limit-count/internal/extplugin"
)

// The digests of {a}, made with md5sum, sha1sum, sha256sum and base64.
const (
	md5OfA       = "e78fce131adae0cfdae0b6a6d0ccead2"
	sha1OfA      = "ee67387284b2c797b6efaaf28451b94b242401c7"
	sha256OfA    = "460c3a93211614ac783c0f1d1bbbcb45a6da87d6421b5c0771772588f1015ff8"
	base64OfA    = "Rgw6kyEWFKx4PA8dG7vLRabah9ZCG1wHcXcliPEBX/g="
	base64URLOfA = "Rgw6kyEWFKx4PA8dG7vLRabah9ZCG1wHcXcliPEBX_g"
	md5Base64OfA = "54/OExra4M/a4Lam0Mzq0g=="
)

// TestAQueryBesideANameOfAnotherDocumentIsRefused: upstreams that keep documents run the one
// that is named.
func TestAQueryBesideANameOfAnotherDocumentIsRefused(t *testing.T) {
	s := startStack(t, stackConfig{})
	route := s.route(t, `{`+plenty+`,"allowed_methods":["POST","GET"],"max_batch":2}`)
	another := func(member string) string {
		for _, spelled := range []string{"id", "queryId"} {
			if strings.EqualFold(member, spelled) {
				member = spelled
			}
		}
		return "invalid graphql request, json body[" + member + "] names another document than the query"
	}
	for _, name := range []string{"x", "products", "1234567890", "-1", md5OfA[1:], sha256OfA[:63] + "x", "sha256:" + md5OfA[:31], "AAAA", "\u00e4"} {
		for _, member := range []string{"id", "documentId", "queryId", "doc_id", "ID", "QUERYID"} {
			route.send(inJSON(fmt.Sprintf(`{"query":"{a}",%q:%q}`, member, name))).badRequest(another(member))
			route.send(inJSON(fmt.Sprintf(`[{"query":"{a}"},{%q:%q,"query":"{a}"}]`, member, name))).badRequest(another(member))
		}
		for _, extensions := range []string{
			`{"persistedQuery":{"version":1,"sha256Hash":%q}}`, `{"persistedQuery":{"md5Hash":%q}}`, `{"persisted\u0051uery":{"x":%q}}`,
			`{"persistedQuery":{"sha256Hash":"` + sha256OfA + `","sha256Hash":%q}}`, `{"persistedQuery":{"a":%q},"persistedQuery":{}}`,
		} {
			route.send(inJSON(fmt.Sprintf(`{"query":"{a}","extensions":`+extensions+`}`, name))).badRequest(another("extensions"))
		}
	}
	route.send(inJSON(`{"query":"{a}","documentId":"7"}`)).badRequest(another("documentId"))
	for _, value := range []string{"1234567890", "-1", "1.5", "1e3", "true", "false", `["x"]`, `{"x":1}`, "[]"} {
		for _, member := range []string{"id", "documentId", "queryId", "doc_id"} {
			route.send(inJSON(fmt.Sprintf(`{"query":"{a}",%q:%s}`, member, value))).badRequest(another(member))
		}
	}
	route.send(inJSON(`{"query":"{a}","doc_id":7}`)).badRequest(another("doc_id"))
	route.send(inJSON(`{"query":"{a}","extensions":{"persistedQuery":{"sha256Hash":["x"]}}}`)).badRequest(another("extensions"))
	route.send(inJSON(`{"query":"{a}","extensions":"{\"persistedQuery\":{}}"}`)).badRequest("invalid graphql request, json body[extensions] is a string")
	route.send(inJSON(`{"query":"{a}","id":"1","ID":"1"}`)).badRequest("invalid graphql request, json body[ID] is repeated")
	route.send(inJSON(`{"query":"{a}","extensions":{},"extensions":{}}`)).badRequest("invalid graphql request, json body[extensions] is repeated")
	get := func(name, value string) query {
		return query{method: "GET", args: []extplugin.KV{{Name: "query", Value: "{a}"}, {Name: name, Value: value}}}
	}
	route.send(get("id", "x")).badRequest("invalid graphql request, id in the URL names another document than the query")
	route.send(get("extensions", `{"persistedQuery":{"sha256Hash":"x"}}`)).badRequest("invalid graphql request, extensions in the URL names another document than the query")
	route.send(get("QueryID", "x")).badRequest("invalid graphql request, queryId in the URL names another document than the query")
	route.send(get("id[]", "x")).badRequest("invalid graphql request, id in the URL names another document than the query")
	route.send(get("extensions", `/**/{"persistedQuery":{"sha256Hash":"x"}}`)).badRequest("invalid graphql request, extensions in the URL names another document than the query")
	route.send(get("extensions", `{"persistedQuery":`)).badRequest("invalid graphql request, extensions in the URL names another document than the query")
	route.send(get("extensions", `{"persistedQuery":{"sha256Hash":"`+sha256OfA+`"}}`)).costs("1")
	route.send(get("documentId", "sha256:"+sha256OfA)).costs("1")
}

func TestAQueryBesideItsOwnNameIsCosted(t *testing.T) {
	s := startStack(t, stackConfig{})
	route := s.route(t, `{`+plenty+`}`)
	for _, name := range []string{md5OfA, sha1OfA, sha256OfA, "sha256:" + sha256OfA, base64OfA, base64URLOfA, md5Base64OfA, ""} {
		for _, member := range []string{"id", "documentId"} {
			route.send(inJSON(fmt.Sprintf(`{%q:%q,"query":"{a}"}`, member, name))).costs("1")
		}
	}
	for _, rest := range []string{
		`"id":"7"`, `"id":"123456789"`, // as react-relay-network-modern counts
		`"id":7`, `"id":null`, `"extensions":null`, `"extensions":"persistedQuery"`, `"extensions":[{"persistedQuery":{"x":"y"}}]`,
		`"extensions":{"clientLibrary":{"name":"@apollo/client","version":"4.0.0"}}`, `"extensions":{"persistedQuery":null}`,
		`"extensions":{"persistedQuery":{"version":1,"sha256Hash":"` + sha256OfA + `"}}`, `"extensions":{"other":{"persistedQuery":{"x":"y"}}}`,
	} {
		route.send(inJSON(`{"query":"{a}",` + rest + `}`)).costs("1")
	}
}

// TestADigestWithoutItsQueryIsAskedFor: clients of persisted queries send the digest alone
// first, and the query as well once they read one of these.
func TestADigestWithoutItsQueryIsAskedFor(t *testing.T) {
	s := startStack(t, stackConfig{})
	route := s.route(t, `{`+plenty+`,"allowed_methods":["POST","GET"]}`)
	const extensions = `{"persistedQuery":{"version":1,"sha256Hash":"` + sha256OfA + `"}}`
	const answer = `{"message":"invalid graphql request, %s","errors":[{"message":"PersistedQueryNotSupported","extensions":{"code":"PERSISTED_QUERY_NOT_SUPPORTED"}}]}`
	for _, body := range []string{`{"extensions":` + extensions + `}`, `{"query":null,"extensions":` + extensions + `,"variables":{}}`} {
		route.send(inJSON(body)).refused(400, fmt.Sprintf(answer, "json body[query] is nil"))
	}
	route.send(query{method: "GET", args: []extplugin.KV{{Name: "extensions", Value: extensions}}}).refused(400, fmt.Sprintf(answer, "the URL has no query"))
	route.send(inJSON(`{"extensions":{}}`)).badRequest("invalid graphql request, json body[query] is nil")
}
