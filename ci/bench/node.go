package main

import (
	"bufio"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"graphql-limit-count/ci/servers"
	"graphql-limit-count/ci/subprocess"
)

// nodeFiles are the rival under Node.js: the packages it needs, with their versions and
// checksums, and the program.
//
//go:embed node/package.json node/package-lock.json node/complexity.cjs
var nodeFiles embed.FS

// nodeWarmUp is how long the rival runs before it is measured, so that all of it is compiled.
const nodeWarmUp = 2 * time.Second

// nodeTurn is long enough for the rival's collections of garbage to take their share of it.
// None is forced between turns, as with our own: that would discard compiled code.
const nodeTurn = 300 * time.Millisecond

// node compares requests with graphql-query-complexity, both one after another and by the
// processor time of the whole process: once from the decoded request on, and once from the
// body on.
func (b *bench) node(ctx context.Context) error {
	folder, err := b.installNode(ctx)
	if err != nil {
		return fmt.Errorf("hit_vs_npm_query_complexity is not measured: %w", err)
	}
	b.heading("Costing a repeated request: a plan that is cached here, parse and complexity under Node.js there", comparisonColumns...)
	query := listing(lists2KB)
	body := requestBody(query, listingVariables)
	get := newRequest(nil, "")
	get.method = http.MethodGet
	get.arguments = url.Values{"query": {query}, "variables": {listingVariables}, "operationName": {"Listing"}}
	for _, one := range []struct {
		name    string
		request *request
		decode  bool
	}{
		{"hit_vs_npm_query_complexity", get, false},
		{"filter_hit_vs_npm_query_complexity", newRequest(body, mediaJSON), true},
	} {
		if err := b.againstNode(ctx, folder, one.name, one.request, nodeSetup{
			Schema: shopSchema, Body: string(body), Weights: map[string]int{"Query.products": 1, "Product.reviews": 2}, Decode: one.decode,
		}); err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
	}
	return nil
}

func (b *bench) againstNode(ctx context.Context, folder, name string, r *request, setup nodeSetup) (err error) {
	f, err := newFilter(urlConf)
	if err != nil {
		return err
	}
	defer f.close()
	rival, err := startNode(ctx, folder, setup)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rival.stop()) }()
	if err := f.agree(r, rival.complexity); err != nil {
		return err
	}
	for start, n := time.Now(), 1; time.Since(start) < nodeWarmUp; n *= 2 {
		if _, err := rival.run(ctx, n); err != nil {
			return err
		}
	}
	s := schedule{budget: b.schedule.budget, turn: nodeTurn}
	c, err := compare(ctx, s, repeatInProcess(f.operation(r)), rival.run)
	if err != nil {
		return err
	}
	b.comparison(name, c)
	return nil
}

// installNode installs the rival into a folder of this run; Node.js from Debian, where
// that is possible and it is missing.
func (b *bench) installNode(ctx context.Context) (string, error) {
	for _, program := range []struct{ name, debianPackage string }{{"node", "nodejs"}, {"npm", "npm"}} {
		if err := servers.Require(ctx, program.name, program.debianPackage); err != nil {
			return "", err
		}
	}
	folder := filepath.Join(b.folder, "node")
	const mode = 0o755
	if err := os.Mkdir(folder, mode); err != nil {
		return "", fmt.Errorf("making a folder for npm: %w", err)
	}
	files, err := nodeFiles.ReadDir("node")
	if err != nil {
		return "", fmt.Errorf("listing the files for npm: %w", err)
	}
	for _, file := range files {
		text, err := nodeFiles.ReadFile("node/" + file.Name())
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, file.Name()), text, mode)
		}
		if err != nil {
			return "", fmt.Errorf("copying the files for npm: %w", err)
		}
	}
	install := exec.CommandContext(ctx, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	install.Dir = folder
	subprocess.EndWithParent(install)
	if out, err := install.CombinedOutput(); err != nil {
		return "", fmt.Errorf("installing graphql-query-complexity with npm: %w: %s", err, out)
	}
	return folder, nil
}

// nodeSetup is the first line that the program reads.
type nodeSetup struct {
	Schema  string         `json:"schema"`
	Body    string         `json:"body"`
	Weights map[string]int `json:"weights"`
	Decode  bool           `json:"decode"`
}

// nodeProcess is the rival, running.
type nodeProcess struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	// complexity is what it computes for the request.
	complexity int
}

// startNode starts the rival, to be stopped. It says more when it fails on standard error.
func startNode(ctx context.Context, folder string, setup nodeSetup) (*nodeProcess, error) {
	command := exec.CommandContext(ctx, "node", "complexity.cjs")
	command.Dir, command.Stderr = folder, os.Stderr
	command.Env = append(os.Environ(), "NODE_ENV=production") // graphql-js checks more without
	subprocess.EndWithParent(command)
	in, err := command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting node: %w", err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting node: %w", err)
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting node: %w", err)
	}
	p := &nodeProcess{command: command, in: in, out: bufio.NewReader(out)}
	first, err := json.Marshal(setup)
	if err == nil {
		p.complexity, err = p.ask(string(first))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("preparing graphql-query-complexity: %w", err), p.stop())
	}
	return p, nil
}

// ask sends a line and reads the number that answers it.
func (p *nodeProcess) ask(line string) (int, error) {
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		return 0, fmt.Errorf("writing to node: %w", err)
	}
	answer, err := p.out.ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("reading from node: %w", err)
	}
	return strconv.Atoi(strings.TrimSpace(answer))
}

// run is the rival's side of a comparison.
func (p *nodeProcess) run(_ context.Context, n int) (time.Duration, error) {
	ns, err := p.ask(strconv.Itoa(n))
	return time.Duration(ns), err
}

// stop ends the rival: it has nothing more to do when its input ends.
func (p *nodeProcess) stop() error {
	if err := errors.Join(p.in.Close(), p.command.Wait()); err != nil {
		return fmt.Errorf("ending node: %w", err)
	}
	return nil
}
