package extplugin

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	preReqKey  = "route&service#r1&s1#ext-plugin-pre-req#1&2"
	postReqKey = "route&consumer#r1&jack#ext-plugin-post-req#1&2"
)

// askVar has a filter ask for a variable and returns what it was told as JSON, and
// what APISIX was asked for. APISIX answers "asked".
func askVar(t *testing.T, path, key, name string, req Request) (told string, asked []string) {
	c := dial(t, path)
	conf, err := json.Marshal(script{Vars: []string{name}})
	require.NoError(t, err)
	req.Token = prepare(t, c, key, string(conf))
	if req.Method == "" {
		req.Method = http.MethodPost
	}
	answers := &fixedAnswers{vars: map[string]string{name: "asked"}}
	got, err := c.HTTPReqCall(t.Context(), req, answers)
	require.NoError(t, err)
	var values map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(got.Body, &values))
	return string(values[name]), answers.asked
}

func TestVarsAnsweredWithoutAsking(t *testing.T) {
	path := serve(t).path
	headers := func(kvs ...string) Request {
		var req Request
		for i := 0; i < len(kvs); i += 2 {
			req.Headers = append(req.Headers, KV{Name: kvs[i], Value: kvs[i+1]})
		}
		return req
	}
	many := Request{}
	for i := range maxListedHeaders {
		many.Headers = append(many.Headers, KV{Name: fmt.Sprintf("x-%d", i), Value: "v"})
	}
	const asked = `"asked"`
	for _, tc := range []struct {
		name, key, variable string
		req                 Request
		want                string
	}{
		{"the route is named by the key", preReqKey, "route_id", Request{}, `"r1"`},
		{"the service is named by the key", preReqKey, "service_id", Request{}, `"s1"`},
		{"a route of its own has no service", "route#r1#ext-plugin-pre-req#1", "service_id", Request{}, `null`},
		{"a consumer does not make a service", postReqKey, "service_id", Request{}, `null`},
		{"the consumer is named by the key", postReqKey, "consumer_name", Request{}, `"jack"`},
		{"a key without a consumer does not mean that there is none", preReqKey, "consumer_name", Request{}, asked},
		{"the consumer group is named by the key", "route&consumer&consumer_group#r&c&g#ext-plugin-post-req#1",
			"consumer_group_id", Request{}, `"g"`},
		{"a global rule has to ask for the route", "global_rule#1#ext-plugin-pre-req#1", "route_id", Request{}, asked},
		{"a global rule has to ask for the service", "global_rule#1#ext-plugin-pre-req#1", "service_id", Request{}, asked},
		{"without a key the route is asked", "", "route_id", Request{}, asked},
		{"an IPv4 client", preReqKey, "remote_addr", Request{SrcIP: net.IP{192, 0, 2, 7}}, `"192.0.2.7"`},
		{"an IPv6 client", preReqKey, "remote_addr", Request{SrcIP: net.ParseIP("2001:db8::1")}, `"2001:db8::1"`},
		{"an IPv4 client of an IPv6 socket stays mapped, as nginx writes it", preReqKey, "remote_addr",
			Request{SrcIP: net.IPv4(192, 0, 2, 7).To16()}, `"::ffff:192.0.2.7"`},
		{"a client without an address is asked", preReqKey, "remote_addr", Request{}, asked},
		{"an address of strange length is asked", preReqKey, "remote_addr", Request{SrcIP: net.IP{1, 2, 3}}, asked},
		{"the method", preReqKey, "request_method", Request{Method: http.MethodPatch}, `"PATCH"`},
		{"the path before anything is rewritten", preReqKey, "uri", Request{Path: "/p"}, `"/p"`},
		{"the path may have been rewritten before post-req", postReqKey, "uri", Request{Path: "/p"}, asked},
		{"a header", preReqKey, "http_x_api_key", headers("x-api-key", "k"), `"k"`},
		{"a header's name in any case and writing", preReqKey, "http_X-Api_Key", headers("X-API-Key", "k"), `"k"`},
		{"a header with an empty value is there", preReqKey, "http_x_a", headers("x-a", ""), `""`},
		{"a header that is absent", preReqKey, "http_x_a", headers("x-b", "1"), `null`},
		{"a repeated header is nginx's to join", preReqKey, "http_x_a", headers("x-a", "1", "x-a", "2"), asked},
		{"a header in two writings is nginx's to join", preReqKey, "http_x_a", headers("x-a", "", "x_a", "2"), asked},
		{"a header that may have been cut off is asked", preReqKey, "http_x_a", many, asked},
		{"a header of a list that may have been cut off is asked", preReqKey, "http_x_1", many, asked},
		{"the host before anything is rewritten", preReqKey, "http_host", headers("host", "h"), `"h"`},
		{"the host may have been rewritten before post-req", postReqKey, "http_host", headers("host", "h"), asked},
		{"other headers are the same after rewriting", postReqKey, "http_x_a", headers("x-a", "1"), `"1"`},
		{"an argument", preReqKey, "arg_a", Request{Args: []KV{{Name: "a", Value: "1"}}}, `"1"`},
		{"the first of repeated arguments", preReqKey, "arg_a", Request{Args: []KV{{Name: "a", Value: "1"}, {Name: "a", Value: "2"}}}, `"1"`},
		{"an empty argument is there", preReqKey, "arg_a", Request{Args: []KV{{Name: "a"}}}, `""`},
		{"an argument without = is what APISIX makes of it", preReqKey, "arg_a", Request{Args: []KV{{Name: "a", NoValue: true}}}, `"true"`},
		{"an argument's name is matched exactly", preReqKey, "arg_a", Request{Args: []KV{{Name: "A", Value: "1"}}}, `null`},
		{"anything else is asked", preReqKey, "request_id", Request{}, asked},
		{"a cookie is asked", preReqKey, "cookie_a", headers("cookie", "a=1"), asked},
	} {
		t.Run(tc.name, func(t *testing.T) {
			told, questions := askVar(t, path, tc.key, tc.variable, tc.req)
			require.Equal(t, tc.want, told)
			if tc.want == asked {
				require.Equal(t, []string{tc.variable}, questions)
			} else {
				require.Empty(t, questions)
			}
		})
	}
}
