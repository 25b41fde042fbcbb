package main

import (
	"crypto/tls"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"graphql-limit-count/admin"
	"graphql-limit-count/ci/shop"
	"graphql-limit-count/cost"
)

const (
	cliAdminKey  = "the admin key of these tests"
	cliViewerKey = "the viewer key of these tests"
)

// knownSchema is a schema source that knows one schema.
type knownSchema struct {
	admin.SchemaSource
	schema *cost.Schema
}

func (k knownSchema) Known(string) *cost.Schema { return k.schema }

// cli runs decorations commands against a served admin endpoint.
type cli struct {
	t      *testing.T
	url    string
	caFile string
}

// serveAdmin serves the admin endpoint with a store of its own. The shop's schema is known.
func serveAdmin(t *testing.T, serve func(http.Handler) *httptest.Server) *cli {
	t.Helper()
	store, err := admin.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "decorations.db"), admin.SQLiteConfig{Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	schema, err := cost.ParseSchema([]byte(shopSDL))
	require.NoError(t, err)
	keys, err := admin.OpenKeys(admin.KeysConfig{Admin: cliAdminKey, Viewer: cliViewerKey})
	require.NoError(t, err)
	handler, err := admin.NewHandler(admin.Config{
		Store: store, Models: admin.NewModels(store, zap.NewNop()), SchemaSource: knownSchema{schema: schema},
		Keys: keys, Logger: zap.NewNop(),
	})
	require.NoError(t, err)
	server := serve(handler)
	t.Cleanup(server.Close)
	c := &cli{t: t, url: server.URL}
	if server.Certificate() != nil {
		c.caFile = file(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	}
	t.Setenv("GRAPHQL_LIMIT_COUNT_ADMIN_KEY", cliAdminKey)
	return c
}

// run runs one of the commands that talk to the endpoint.
func (c *cli) run(input, command string, arguments ...string) outcome {
	line := append([]string{"decorations", command, "--url", c.url}, arguments...)
	if c.caFile != "" {
		line = append(line, "--ca-file", c.caFile)
	}
	return execute(input, line...)
}

func (c *cli) requireRun(want outcome, input, command string, arguments ...string) {
	c.t.Helper()
	require.Equal(c.t, want, c.run(input, command, arguments...))
}

const shopYAML = `decorations:
  - field_path: Query.products
    mul_arguments: [first]
  - field_path: Product.reviews
    id: reviews
    mul_arguments: [first]
`

func TestDecorationsArePushedAndPulled(t *testing.T) {
	c := serveAdmin(t, httptest.NewServer)
	c.requireRun(outcome{stdout: "service_id: shop\ndecorations: []\n"}, "", "pull", "--service", "shop")
	name := file(t, "decorations.yaml", shopYAML)

	const added = `+ Product.reviews  id: "reviews"  mul_arguments: ["first"]
+ Query.products  id: "Query.products"  mul_arguments: ["first"]
2 added, 0 changed, 0 removed, 0 unchanged
`
	c.requireRun(outcome{stdout: added + "nothing was written (--dry-run)\n"}, "", "push", name, "--service", "shop", "--dry-run")
	c.requireRun(outcome{stdout: "service_id: shop\ndecorations: []\n"}, "", "pull", "--service", "shop")
	c.requireRun(outcome{stdout: added}, "", "push", name, "--service", "shop")

	pulled := c.run("", "pull", "--service", "shop")
	require.NoError(t, pulled.err)
	require.Equal(t, `service_id: shop
decorations:
  - field_path: Product.reviews
    id: reviews
    mul_arguments: [first]
  - field_path: Query.products
    id: Query.products
    mul_arguments: [first]
`, pulled.stdout)
	c.requireRun(outcome{stdout: "0 added, 0 changed, 0 removed, 2 unchanged\n"}, pulled.stdout, "diff", "-")
	c.requireRun(outcome{stdout: "0 added, 0 changed, 0 removed, 2 unchanged\n"}, pulled.stdout, "push", "-")
	c.requireRun(outcome{stdout: "0 added, 0 changed, 0 removed, 2 unchanged\n"}, "", "push", name, "--service", "shop")
}

func TestDiffIsWhatPushChanges(t *testing.T) {
	c := serveAdmin(t, httptest.NewServer)
	require.NoError(t, c.run(shopYAML, "push", "-", "--service", "shop").err)
	wanted := "service_id: shop\ndecorations:\n- {field_path: Query.products, mul_arguments: [first], assumed_size: 20}\n- field_path: Review\n"
	const changes = `- Product.reviews  id: "reviews"  mul_arguments: ["first"]
~ Query.products
    assumed_size: (none) -> 20
+ Review
1 added, 1 changed, 1 removed, 0 unchanged
`
	difference := c.run(wanted, "diff", "-", "--key", cliViewerKey)
	require.Equal(t, outcome{stdout: changes, err: errSilent}, difference, "a viewer may compare")
	pushed := c.run(wanted, "push", "-")
	require.NoError(t, pushed.err)
	require.Equal(t, strings.ReplaceAll(changes, "+ Review\n", "+ Review  id: \"Review\"\n"), pushed.stdout)
	c.requireRun(outcome{stdout: "0 added, 0 changed, 0 removed, 2 unchanged\n"}, wanted, "diff", "-")
}

func TestPushTellsWhatTheSchemaDoesNotHave(t *testing.T) {
	c := serveAdmin(t, httptest.NewServer)
	pushed := c.run("[{\"field_path\": \"Query.product\", \"id\": \"p\"}]", "push", "-", "--service", "shop")
	require.Equal(t, outcome{stdout: "+ Query.product  id: \"p\"\n1 added, 0 changed, 0 removed, 0 unchanged\n",
		stderr: "warning: Query.product: type Query has no field product\n"}, pushed)
}

func TestPushTranslates(t *testing.T) {
	c := serveAdmin(t, httptest.NewServer)
	sdl := file(t, "schema.graphqls", strings.Replace(shopSDL, "products(first: Int): Products", `products(first: Int): Products @listSize(slicingArguments: ["first"], assumedSize: 10, sizedFields: ["nodes"]) @cost(weight: "3")`, 1))
	pushed := c.run("", "push", sdl, "--service", "shop")
	require.Equal(t, outcome{
		stdout: "+ Query.products  id: \"Query.products\"  add_value: 3  mul_arguments: [\"first\"]  assumed_size: 10\n1 added, 0 changed, 0 removed, 0 unchanged\n",
		stderr: "line 1: Query.products: everything below the field is multiplied, not only below nodes\n",
	}, pushed)
	kong := `{"data": [{"type_path": "Product.reviews", "mul_arguments": ["first"], "add_constant": 1, "service": {"id": "s1"}}, {"type_path": "Other", "service": {"id": "s2"}}]}`
	difference := c.run(kong, "diff", "-", "--service", "shop", "--kong-service", "s1")
	require.Equal(t, "- Query.products  id: \"Query.products\"  add_value: 3  mul_arguments: [\"first\"]  assumed_size: 10\n"+
		"+ Product.reviews  mul_arguments: [\"first\"]\n1 added, 0 changed, 1 removed, 0 unchanged\n", difference.stdout)
	require.EqualError(t, c.run(kong, "push", "-", "--service", "shop").err, "-: read Kong's decorations: they belong to 2 services, choose one of s1, s2")
	nothing := c.run(`type Query { a: Int @cost(weight: "-1") }`, "push", "-", "--service", "shop")
	require.EqualError(t, nothing.err, "-: nothing in it could be mapped")
	require.Equal(t, "line 1: Query.a: not mapped: the weight \"-1\" is negative, and add_value cannot be\n", nothing.stderr)
}

func TestDecorationsCommandsSayWhatIsWrong(t *testing.T) {
	c := serveAdmin(t, httptest.NewServer)
	require.NoError(t, c.run(shopYAML, "push", "-", "--service", "shop").err)
	key := file(t, "admin.key", cliAdminKey+"\n")
	good := file(t, "good.yaml", shopYAML)
	for _, c2 := range []struct {
		rule, input string
		line        []string
		want        string
	}{
		{"no service", "", []string{"pull"}, "no service: give --service"},
		{"two services", "service_id: a\ndecorations: []", []string{"push", "-", "--service", "b"}, "the file is of service a, --service is b"},
		{"no file", "", []string{"push"}, "accepts 1 arg(s), received 0"},
		{"a file that is not there", "", []string{"push", "nowhere.yaml", "--service", "shop"}, "read the decorations: open nowhere.yaml: no such file or directory"},
		{"a typing error", "- field_path: A\n  mul_argument: [x]", []string{"push", "-", "--service", "shop"},
			`-: read decorations: line 2: decoration of "A": additional properties forbidden, found mul_argument`},
		{"an unknown format", "[]", []string{"push", "-", "--service", "shop", "--format", "toml"}, `-: format "toml" is none of [auto yaml json sdl kong]`},
		{"a wrong key", "", []string{"pull", "--service", "shop", "--key", "wrong"}, "pull the decorations of service shop: the admin endpoint answers 401: failed to check token: wrong apikey"},
		{"two keys", "", []string{"pull", "--service", "shop", "--key", "a", "--key-file", key}, "give either --key or --key-file"},
		{"a key file that is not there", "", []string{"pull", "--service", "shop", "--key-file", "nowhere"}, "read the admin key: open nowhere: no such file or directory"},
		{"a viewer that pushes", "", []string{"push", good, "--service", "shop", "--key", cliViewerKey}, "push decorations to service shop: the admin endpoint answers 401: failed to check token: invalid method for role viewer"},
		{"an id that is taken", "- {id: reviews, field_path: A}\n- field_path: Product.reviews", []string{"push", "-", "--service", "shop"},
			"push decorations to service shop: the admin endpoint answers 400: id reviews is given to A but is that of the decoration of Product.reviews, which has none in the document"},
	} {
		t.Run(c2.rule, func(t *testing.T) {
			got := c.run(c2.input, c2.line[0], c2.line[1:]...)
			require.ErrorContains(t, got.err, c2.want)
			require.Empty(t, got.stdout)
			require.NotContains(t, got.err.Error(), cliAdminKey)
		})
	}
	require.NoError(t, c.run("", "pull", "--service", "shop", "--key-file", key).err)
	t.Setenv("GRAPHQL_LIMIT_COUNT_ADMIN_KEY", "")
	require.EqualError(t, c.run("", "pull", "--service", "shop").err, "no key: give --key-file, --key or $GRAPHQL_LIMIT_COUNT_ADMIN_KEY")
	var failed trouble
	require.ErrorAs(t, c.run("- {id: reviews, field_path: A}\n- field_path: Product.reviews", "diff", "-", "--service", "shop", "--key", cliAdminKey).err, &failed,
		"what push would refuse is no difference")
	for _, address := range []string{"ftp://127.0.0.1", "127.0.0.1:9181", "http://user:secret@127.0.0.1", "http://%zz"} {
		err := execute("", "decorations", "pull", "--service", "shop", "--key", "k", "--url", address).err
		require.ErrorContains(t, err, "admin endpoint: ")
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestDecorationsOverTLS(t *testing.T) {
	c := serveAdmin(t, func(h http.Handler) *httptest.Server {
		server := httptest.NewUnstartedServer(h)
		server.Config.ErrorLog = zap.NewStdLog(zap.NewNop()) // of the handshake that fails below
		server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		server.StartTLS()
		return server
	})
	require.NoError(t, c.run(shopYAML, "push", "-", "--service", "shop").err)
	c.caFile = ""
	require.ErrorContains(t, c.run("", "pull", "--service", "shop").err, "certificate")
	require.True(t, strings.HasPrefix(c.url, "https://"))
	plain := strings.Replace(c.url, "https://", "http://", 1)
	large := shopYAML + "# " + strings.Repeat("x", 1<<20) + "\n"
	for _, command := range [][]string{{"pull", "--service", "shop"}, {"push", "-", "--service", "shop"}, {"diff", "-", "--service", "shop"}} {
		err := execute(large, append([]string{"decorations", command[0], "--url", plain}, command[1:]...)...).err
		require.ErrorContains(t, err, "the admin endpoint speaks https, and its URL begins with http://")
	}
	require.ErrorContains(t, execute("", "decorations", "pull", "--service", "shop", "--url", "127.0.0.1:9181").err,
		"the URL has no scheme, http:// or https:// is missing before the host")
	c.caFile = file(t, "empty.pem", "")
	require.ErrorContains(t, c.run("", "pull", "--service", "shop").err, "holds none in PEM")
}

func TestTheKeyIsNotCarriedElsewhere(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	t.Cleanup(elsewhere.Close)
	server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	t.Cleanup(server.Close)
	err := execute("", "decorations", "pull", "--service", "shop", "--key", "k", "--url", server.URL).err
	require.ErrorContains(t, err, "pull the decorations of service shop: the admin endpoint answers 307: ")
}

func TestSuggestionsArePushedUnchanged(t *testing.T) {
	c := serveAdmin(t, httptest.NewServer)
	schema := file(t, "shop.graphql", shopSDL)
	suggested := execute("", "decorations", "suggest", "--schema", schema, "--service", "shop", "--assumed-size", "20")
	require.Equal(t, outcome{stdout: "# 3 decorations suggested for " + schema + `. Review them, then push this file:
#   graphql-limit-count decorations push FILE
service_id: shop
decorations:
  # pages with first; 20 is assumed where none is given
  - field_path: Product.reviews
    mul_arguments: [first]
    assumed_size: 20
  # pages with first; 20 is assumed where none is given
  - field_path: Query.products
    mul_arguments: [first]
    assumed_size: 20
  # pages with first; first is 25 by default
  - field_path: Query.topProducts
    mul_arguments: [first]
    assumed_size: 25
`}, suggested)
	pushed := c.run(suggested.stdout, "push", "-")
	require.NoError(t, pushed.err)
	require.Empty(t, pushed.stderr, "nothing that the schema does not have")
	require.Contains(t, pushed.stdout, "3 added, 0 changed, 0 removed, 0 unchanged\n")
	decorations := file(t, "decorations.yaml", suggested.stdout)
	require.Equal(t, outcome{stdout: "raw 51\ncharged 52\n"},
		execute(fiftyByTwenty, "cost", "-", "--strategy", "node_quantifier", "--schema", schema, "--decorations", decorations))
}

func TestSuggestAsksAnUpstream(t *testing.T) {
	upstream, err := shop.Start(t.Context(), "127.0.0.1:0", shop.WithAuthorization("Bearer x", shop.GuardAll))
	require.NoError(t, err)
	t.Cleanup(upstream.Close)
	suggested := execute("", "decorations", "suggest", "--endpoint", upstream.URL()+"?token=secret", "--header", "Authorization: Bearer x", "--each-mutation")
	require.Equal(t, outcome{stdout: "# 5 decorations suggested for " + upstream.URL() + `. Review them, then push this file:
#   graphql-limit-count decorations push FILE --service ID
decorations:
  # writes: costs 10 itself
  - field_path: Mutation.noop
    add_value: 10
    assumed_size: 1
  # pages with first; 100 is assumed where none is given
  - field_path: Product.reviews
    mul_arguments: [first]
    assumed_size: 100
  # pages with first; 100 is assumed where none is given
  - field_path: Query.products
    mul_arguments: [first]
    assumed_size: 100
  # pages with first; first is 25 by default
  - field_path: Query.topProducts
    mul_arguments: [first]
    assumed_size: 25
  # pages with first; 100 is assumed where none is given
  - field_path: User.orders
    mul_arguments: [first]
    assumed_size: 100
`}, suggested)
	require.ErrorContains(t, execute("", "decorations", "suggest", "--endpoint", upstream.URL()).err, "introspect the upstream: it answers 401: ")
	for _, c := range []struct {
		line []string
		want string
	}{
		{nil, "give either --schema or --endpoint"},
		{[]string{"--schema", "a", "--endpoint", "b"}, "give either --schema or --endpoint"},
		{[]string{"--schema", "nowhere"}, "read the schema: open nowhere: no such file or directory"},
		{[]string{"--schema", "-"}, "standard input: parse schema: the schema declares no types"},
		{[]string{"--endpoint", upstream.URL(), "--header", "secret"}, "--header 1 is not of the form 'Name: value'"},
		{[]string{"--schema", "-", "--assumed-size", "0"}, "--assumed-size must be above 0, and --mutation-cost not below"},
	} {
		require.EqualError(t, execute("", append([]string{"decorations", "suggest"}, c.line...)...).err, c.want)
	}
}
