# Every target is a step of .ci/run or of CONTRIBUTING.md, and the other way
# round. `make` alone lists them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The tools, pinned here and nowhere else.
GOLANGCI_LINT_VERSION := v2.15.0

GOLANGCI_LINT := bin/golangci-lint-$(GOLANGCI_LINT_VERSION)

# How long one package's tests, and one fuzz target, may take.
TEST_TIMEOUT ?= 20m
FUZZTIME     ?= 5s

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/caddy, Caddy with agent_runs in it
	go build -o bin/caddy ./cmd/caddy

.PHONY: demo
demo: ## serve the demo: a scripted agent and a page to try it in
	go run ./cmd/caddy agent-runs --demo

# One package at a time: some start dozens of processes, and crowd out each
# other's.
.PHONY: test
test: ## run all tests under the race detector
	go test -race -p 1 -timeout $(TEST_TIMEOUT) ./...
	cd internal/bench/plot && go test ./...

# A failure is tried again once: an input that was found is a seed by then and
# fails again, a worker that a busy machine starved does not.
.PHONY: fuzz
fuzz: ## fuzz every target for FUZZTIME (5s)
	@found=0; \
	fuzz() { go test -run '^$$' -fuzz "^$$1\$$" -fuzztime $(FUZZTIME) "$$2" </dev/null; }; \
	while IFS=: read -r file target; do \
		found=1; \
		echo "fuzzing $$target in $${file%/*}"; \
		fuzz "$$target" "$${file%/*}" || fuzz "$$target" "$${file%/*}"; \
	done < <(grep -roE --include='*_test.go' --exclude-dir=node_modules '^func Fuzz[A-Za-z0-9_]+' . | sed 's/func //' | sort); \
	[ $$found = 1 ] || { echo "no fuzz target was found"; exit 1; }

.PHONY: vet
vet: ## run go vet
	go vet ./...

.PHONY: fmt
fmt: $(GOLANGCI_LINT) ## format all Go files (gofumpt, goimports)
	$(GOLANGCI_LINT) fmt

.PHONY: fmt-check
fmt-check: ## fail if a file is not gofmt-ed
	@unformatted=$$(gofmt -l $$(find . -name '*.go' -not -path '*/node_modules/*')); \
	[ -z "$$unformatted" ] || { echo "not formatted, run make fmt:"; echo "$$unformatted"; exit 1; }

.PHONY: lint
lint: $(GOLANGCI_LINT) ## run the pinned linters, the layer rules among them
	$(GOLANGCI_LINT) run

.PHONY: bench-quick
bench-quick: ## compare with plain reverse_proxy: CPU, latency, memory (3 minutes)
	go run ./internal/bench quick

.PHONY: bench
bench: ## all benchmarks, then the long comparison into docs/performance.md
	go test -run '^$$' -bench . -benchmem ./runregistry/... ./proxy/... ./authz/...
	go run ./internal/bench full -write docs/performance.md

.PHONY: ci
ci: fmt-check vet lint build test fuzz ## everything that must pass before a change lands

.PHONY: clean
clean: ## remove what was built
	rm -rf bin

# The first build takes some minutes; later ones come from Go's build cache.
$(GOLANGCI_LINT):
	@echo "building golangci-lint $(GOLANGCI_LINT_VERSION), which takes some minutes the first time"
	GOBIN=$(CURDIR)/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	@mv bin/golangci-lint $@
