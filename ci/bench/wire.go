package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"graphql-limit-count/ci/runner"
	"graphql-limit-count/ci/shop"
	"graphql-limit-count/internal/extplugin"
	"graphql-limit-count/plugins"
)

const (
	// wireConnections is how many connections an APISIX worker keeps.
	wireConnections = 32
	// wireBody is a usual GraphQL request's size, in bytes.
	wireBody = 500
	// wireTurn is a turn of a comparison between processes, each with garbage of its own.
	wireTurn = 400 * time.Millisecond
	// wireBudget is how much longer than others such a comparison takes.
	wireBudget = 3

	adminKey = "bench"
	// stockServer is --server for the stock runner.
	stockServer = "go-runner"
)

// wireKey names a route that is bound to the service, in APISIX's form.
const wireKey = "route&service#" + benchRoute + "&" + benchService + "#ext-plugin-pre-req#1&1"

// wireQuery is what the calls ask for: a query of the demo shop with two weighted lists.
const wireQuery = `query Shelf($first: Int!, $reviews: Int = 5) {
  products(first: $first) {
    nodes { id name reviews(first: $reviews) { nodes { id body author { name } } } }
  }
}`

// wireRequestBody is the body of the calls, filled up with a variable that is of no account.
func wireRequestBody() []byte {
	body := func(filling int) []byte {
		return requestBody(wireQuery, `{"first": 25, "reviews": 10, "text": "`+strings.Repeat("x", filling)+`"}`)
	}
	return body(wireBody - len(body(0)))
}

// wire compares requests over a unix socket: with the stock runner, which serves the same
// plugin in the same binary, and with a bare exchange of equal frames.
func (b *bench) wire(ctx context.Context) (err error) {
	binary, err := b.buildProduct(ctx)
	if err != nil {
		return err
	}
	upstream, err := shop.Start(ctx, "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer upstream.Close()
	ours, err := b.startRunner(ctx, binary, "", upstream.URL())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ours.stop()) }()
	stock, err := b.startRunner(ctx, binary, stockServer, upstream.URL())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stock.stop()) }()
	floor, err := b.startPingpong(ctx, ours)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, floor.stop()) }()
	if err := b.compareWires(ctx, ours, stock, floor); err != nil {
		return err
	}
	return b.growConnections(ctx, ours.endpoint)
}

func (b *bench) compareWires(ctx context.Context, ours, stock *runnerProcess, floor *pingpongProcess) error {
	b.heading(fmt.Sprintf("Requests over the unix socket: %d connections, bodies of %d bytes", wireConnections, wireBody), comparisonColumns...)
	s := schedule{budget: wireBudget * b.schedule.budget, turn: wireTurn}
	var rates []string
	for _, rival := range []struct {
		name string
		peer endpoint
	}{
		{"rpc_vs_stock_runner", stock.endpoint},
		{"rpc_vs_pingpong", floor.endpoint},
	} {
		c, err := compareLoads(ctx, s, ours.endpoint, rival.peer)
		if err != nil {
			return fmt.Errorf("%s: %w", rival.name, err)
		}
		b.comparison(rival.name, c)
		rates = append(rates, fmt.Sprintf("%s: %.0f requests a second here, %.0f there", rival.name,
			float64(time.Second)/c.ours.median, float64(time.Second)/c.peer.median))
	}
	b.note("\n%s.", strings.Join(rates, "; "))
	return nil
}

// compareLoads compares two servers, each with connections of its own.
func compareLoads(ctx context.Context, s schedule, ours, peer endpoint) (c comparison, err error) {
	near, err := ours.connect(ctx, wireConnections)
	if err != nil {
		return comparison{}, err
	}
	defer near.close()
	far, err := peer.connect(ctx, wireConnections)
	if err != nil {
		return comparison{}, err
	}
	defer far.close()
	return compare(ctx, s, near.run, far.run)
}

// endpoint is where a server listens, and what it is called with.
type endpoint struct {
	socket string
	conf   string
	// kind is what a call must be answered with.
	kind extplugin.Kind
}

// wireConf is the plugin's configuration, introspecting the upstream at a URL.
func wireConf(upstream string) string {
	return `{"count":9007199254740991,"time_window":3600,"cost_strategy":"node_quantifier","introspection_endpoint":"` + upstream + `"}`
}

// load is connections to a server, ready to call it.
type load struct {
	clients []*extplugin.Client
	tokens  []uint32
	kind    extplugin.Kind
	body    []byte
}

// connect opens so many connections and makes a call on each.
func (e endpoint) connect(ctx context.Context, connections int) (*load, error) {
	l := &load{kind: e.kind, body: wireRequestBody()}
	for range connections {
		client, err := extplugin.Dial(ctx, e.socket)
		if err != nil {
			l.close()
			return nil, err
		}
		l.clients = append(l.clients, client)
		token, err := client.PrepareConf(ctx, wireKey, []extplugin.NamedConf{{Name: plugins.Name, Value: e.conf}})
		if err == nil {
			l.tokens = append(l.tokens, token)
			err = l.call(client, token)
		}
		if err != nil {
			l.close()
			return nil, err
		}
	}
	return l, nil
}

func (l *load) close() {
	for _, client := range l.clients {
		_ = client.Close() // nothing is under way
	}
}

// run makes n calls in all, from all connections at once.
func (l *load) run(_ context.Context, n int) (time.Duration, error) {
	failures := make([]error, len(l.clients))
	start := time.Now()
	var all sync.WaitGroup
	for i, client := range l.clients {
		calls := n / len(l.clients)
		if i < n%len(l.clients) {
			calls++
		}
		all.Go(func() {
			for ; calls > 0 && failures[i] == nil; calls-- {
				failures[i] = l.call(client, l.tokens[i])
			}
		})
	}
	all.Wait()
	return time.Since(start), errors.Join(failures...)
}

// call makes one call.
func (l *load) call(client *extplugin.Client, token uint32) error {
	action, err := client.HTTPReqCall(context.Background(), wireRequest(token), wireAnswers(l.body))
	if err == nil && action.Kind != l.kind {
		err = fmt.Errorf("a call was answered with %+v", action)
	}
	return err
}

// wireHeaders are those of a usual client.
var wireHeaders = []extplugin.KV{
	{Name: "host", Value: "shop.example.com"},
	{Name: "user-agent", Value: "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"},
	{Name: "accept", Value: "application/json"},
	{Name: "accept-encoding", Value: "gzip, deflate, br"},
	{Name: "content-type", Value: mediaJSON},
	{Name: "content-length", Value: "500"},
	{Name: "authorization", Value: "Bearer 0123456789abcdef0123456789abcdef"},
	{Name: "origin", Value: "https://shop.example.com"},
}

func wireRequest(token uint32) extplugin.Request {
	return extplugin.Request{
		ID: 1, Token: token, SrcIP: clientAddress, Method: http.MethodPost, Path: "/graphql", Headers: wireHeaders,
	}
}

// wireAnswers is what APISIX knows of a request: the body, and whose it is.
type wireAnswers []byte

// Var answers for variables.
func (a wireAnswers) Var(name string) ([]byte, bool) {
	switch name {
	case "route_id":
		return routeValue, true
	case "service_id":
		return serviceValue, true
	default:
		return nil, false
	}
}

// Body answers for the body.
func (a wireAnswers) Body() ([]byte, error) { return a, nil }

// buildProduct builds the product's binary as a release is built.
func (b *bench) buildProduct(ctx context.Context) (string, error) {
	source, err := productFolder()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(b.folder, "graphql-limit-count")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, "./cmd/graphql-limit-count")
	build.Dir = source
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=") // those of this module are not its
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the product: %w: %s", err, out)
	}
	return binary, nil
}

// runnerProcess is the product's binary, serving.
type runnerProcess struct {
	*runner.Process
	endpoint
}

// startRunner starts the binary with the shop's decorations, to be stopped.
func (b *bench) startRunner(ctx context.Context, binary, server, upstream string) (*runnerProcess, error) {
	folder, err := os.MkdirTemp(b.folder, "runner")
	if err != nil {
		return nil, fmt.Errorf("making a folder for a runner: %w", err)
	}
	p := &runnerProcess{endpoint: endpoint{
		socket: filepath.Join(folder, "socket"), conf: wireConf(upstream), kind: extplugin.Rewrite,
	}}
	var log bytes.Buffer // read only after the process has ended
	p.Process, err = runner.Start(ctx, runner.Config{
		Binary: binary, Server: server, Socket: p.socket, DataDir: folder,
		AdminAddr: "127.0.0.1:0", AdminKey: adminKey, Log: &log,
	})
	if err == nil {
		if err = p.decorate(ctx); err != nil {
			err = errors.Join(err, p.stop())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w; the runner says: %s", err, log.Bytes())
	}
	return p, nil
}

func (p *runnerProcess) stop() error {
	if err := p.Stop(); err != nil {
		return fmt.Errorf("stopping a runner: %w", err)
	}
	return nil
}

// decorate puts the shop's decorations into the runner's store and waits until they count.
func (p *runnerProcess) decorate(ctx context.Context) error {
	for i, d := range shopDecorations() {
		text, err := json.Marshal(d)
		if err != nil {
			return fmt.Errorf("encoding a decoration: %w", err)
		}
		url := fmt.Sprintf("%s/apisix/admin/services/%s/graphql_cost_decorations/%d", p.AdminURL(), benchService, i+1)
		if err := put(ctx, url, text); err != nil {
			return fmt.Errorf("putting a decoration: %w", err)
		}
	}
	return p.awaitCost(ctx)
}

func put(ctx context.Context, url string, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("X-API-KEY", adminKey)
	request.Header.Set("Content-Type", mediaJSON)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return err
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("the runner answers %s: %s", response.Status, text)
	}
	return nil
}

const (
	// wireCost is what a call is charged: one list of 25 products, 25 of reviews at 2 each.
	wireCost = "52"
	// costTimeout is a generous bound for decorations to be in force.
	costTimeout = 10 * time.Second
	costPoll    = 50 * time.Millisecond
)

// awaitCost calls until the decorations count.
func (p *runnerProcess) awaitCost(ctx context.Context) error {
	client, err := extplugin.Dial(ctx, p.socket)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	token, err := client.PrepareConf(ctx, wireKey, []extplugin.NamedConf{{Name: plugins.Name, Value: p.conf}})
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(costTimeout); ; time.Sleep(costPoll) {
		action, err := client.HTTPReqCall(ctx, wireRequest(token), wireAnswers(wireRequestBody()))
		if err != nil {
			return err
		}
		for _, h := range action.RespHeaders {
			if h.Name == "X-Graphql-Query-Cost" && h.Value == wireCost {
				return nil
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("a call is not charged %s, as the decorations say: %+v", wireCost, action)
		}
	}
}
