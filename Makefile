# The two commands of the README are `make demo` and `make test`.

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo development)
GO      ?= go
# Packages under test at once, each with its own servers: what two cores carry.
PARALLEL ?= 2

# The benchmarks are a module of their own. It requires what this one does, as it is now, and the rivals.
IN_BENCH = ci/bench/with-product.sh

.PHONY: build test demo lint bench microbench e2e cover clean

build: ## one static binary at bin/graphql-limit-count
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/graphql-limit-count ./cmd/graphql-limit-count

test: ## everything, with the race detector; starts and stops its own servers
	$(GO) test -race -count 1 -p $(PARALLEL) -timeout 14m ./...
	$(GO) test -count 1 -run 'RulesReadPlainly|HostileSchemaIsBounded|ACachedRequestAllocatesLittle' ./cost ./plugins
	$(IN_BENCH) $(GO) test -count 1 ./...

demo: build ## upstream, gateway and runner with sample requests; ONESHOT=1 exits after them
	./bin/graphql-limit-count demo $(if $(ONESHOT),--oneshot)

lint: ## gofmt, go vet, staticcheck
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	  if [ -n "$$unformatted" ]; then echo "gofmt would change:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	staticcheck=$$($(GO) tool -n staticcheck) && $(IN_BENCH) $(GO) vet ./... && $(IN_BENCH) "$$staticcheck" ./...

bench: ## against peers, and growth with size (docs/benchmarks.md); BENCH_SECONDS for each comparison, BENCH_FLAGS as `go run . -h` in ci/bench says
	$(IN_BENCH) $(GO) run . $(if $(BENCH_SECONDS),-seconds $(BENCH_SECONDS)) $(BENCH_FLAGS)

microbench: ## the benchmarks of the packages, with allocations
	$(GO) test -run '^$$' -bench . -benchmem -p 1 ./...

e2e: ## the end-to-end suite against the APISIX named by APISIX_GATEWAY_URL, APISIX_ADMIN_URL, APISIX_ADMIN_KEY
	@if [ -z "$$APISIX_GATEWAY_URL" ]; then echo "set APISIX_GATEWAY_URL, APISIX_ADMIN_URL, APISIX_ADMIN_KEY and APISIX_RUNNER_SOCKET (see ci/apisix/docker-compose.yaml)"; exit 1; fi
	$(GO) test -count 1 -timeout 10m -v ./ci/e2e/...

cover: ## statement coverage by package
	$(GO) test -cover -p $(PARALLEL) ./...

clean:
	rm -rf bin
