# couch2hudi. `make` alone lists the targets.
#
# `make test` needs Go and a C compiler (for -race), `make test-oracle` also
# Python 3.9-3.11, Java 17, Maven and, for the containers, root on Debian.
# Everything that is fetched or built for the checks lies in $(CACHE).

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

CACHE ?= $(CURDIR)/.cache
BIN := $(CACHE)/bin
RESULTS ?= $(CACHE)/results
ORACLE_DIR ?= $(CACHE)/oracle
DOCKER_DIR ?= $(CACHE)/docker

GOLANGCI_VERSION := v2.15.0
LINT := $(BIN)/golangci-lint-$(GOLANGCI_VERSION)
STAGE := $(BIN)/stage
RUN = $(STAGE) -results $(RESULTS)

PKGS ?= ./...
UNIT_PKGS ?= $(PKGS)
FUZZTIME ?= 60s
FUZZSMOKE ?= 3s
BENCH ?= .
BENCHTIME ?= 1s
TEST_FLAGS ?=
RACE_FLAGS ?= -short
FAULT_FLAGS ?=

RECIPES ?=
STORE ?= s3
STORE_PKGS ?= ./pipeline ./table ./writer ./reader ./compaction ./rebucket ./index/... ./hudi/timeline ./catalog
STORE_FLAGS ?= -short

export ORACLE_DIR DOCKER_DIR

.PHONY: help build demo examples test test-oracle test-full check bench fuzz fixtures lint oracle docker clean \
	fresh-results vet unit store-faults race fuzz-smoke kill memory oracle-tests

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## bin/couch2hudi
	CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o bin/couch2hudi ./cmd/couch2hudi

demo: build ## everything on one machine: a stand-in for CouchDB, ingest, incremental read
	bin/couch2hudi demo

test: fresh-results vet lint unit store-faults race fuzz-smoke ## all that needs only Go, in stages
	@[ -n '$(KEEP_RESULTS)' ] || $(RUN) -sum

test-oracle: fresh-results kill memory stores oracle docker oracle-tests examples ## real Spark, Flink, Hive's readers, hudi-rs and containers against our tables
	@[ -n '$(KEEP_RESULTS)' ] || $(RUN) -sum

test-stores: ## the tests of tables on STORE: mem, file, s3 or hdfs (stand-ins), or the URL of a folder of yours; STORE_PKGS, STORE_FLAGS
	TEST_STORE='$(STORE)' go test -count=1 -tags stores -timeout 120m $(STORE_FLAGS) $(STORE_PKGS)

test-full: ## both, with large sizes and longer fuzzing
	E2E_FULL=1 $(MAKE) test FUZZSMOKE=30s FAULT_FLAGS='-fault.stride 5 -fault.storms 20'
	E2E_FULL=1 $(MAKE) test-oracle

check: ## quick: lint, the import graph, vet
	go vet ./...
	go vet -tags oracle,stores ./e2e/... ./pipeline ./internal/teststore
	$(MAKE) --no-print-directory lint-only
	go test ./internal/tidy/...

bench: ## go benchmarks; pipeline.BenchmarkWhole is the whole way, against the feed read to nowhere
	go test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -benchmem $(PKGS)

fuzz: ## each fuzz target for FUZZTIME (60s); PKGS=./hudi/logfile narrows
	PKGS='$(PKGS)' .ci/fuzz $(FUZZTIME)

fixtures: ## copy golden tables and vectors from the folder FIXTURES into testdata
	@test -n '$(FIXTURES)' || { echo 'make fixtures FIXTURES=DIR, where DIR has golden/ and vectors/; see testdata/README.md'; exit 2; }
	testdata/fetch.sh '$(FIXTURES)'

oracle: $(STAGE) ## install Spark, Flink, Hive's readers, a Kafka broker, Hudi's bundles and hudi-rs into ORACLE_DIR (.cache/oracle)
	@$(RUN) -name oracle-setup -- e2e/oracle/setup.sh $(ORACLE_DIR)

examples: $(STAGE) build oracle ## the recipes of examples/ on tables made here, each checked; RECIPES="NAME..." picks
	@go build -o $(BIN)/couchfaked ./e2e/couchfaked
	@$(RUN) -name examples -- env COUCH2HUDI=$(CURDIR)/bin/couch2hudi COUCHFAKED=$(BIN)/couchfaked $(ORACLE_DIR)/venv/bin/python examples/run.py $(RECIPES)

docker: $(STAGE) ## a private Docker engine in DOCKER_DIR for the container tests
	@$(RUN) -name docker-setup -- e2e/compose/engine.sh start $(DOCKER_DIR)

clean: ## remove what was built; the oracles stay (make clean-all removes .cache too)
	rm -rf bin demo-table $(BIN)/stage $(RESULTS)
	go clean -testcache

.PHONY: clean-all lint-only
clean-all: clean
	e2e/compose/engine.sh stop $(DOCKER_DIR)
	rm -rf $(CACHE)

# ---- stages: each prints its seconds and adds a line to $(RESULTS)

fresh-results: $(STAGE)
	@[ -n '$(KEEP_RESULTS)' ] || rm -f $(RESULTS)

vet: $(STAGE)
	@$(RUN) -name vet -- go vet $(PKGS)
	@$(RUN) -name vet-oracle -- go vet -tags oracle,stores ./e2e/... ./pipeline ./internal/teststore

lint: $(STAGE) $(LINT) ## golangci-lint, built at a pinned version
	@$(RUN) -name lint -- $(LINT) run --build-tags oracle,stores $(PKGS)

lint-only: $(LINT)
	$(LINT) run --build-tags oracle,stores $(PKGS)

unit: $(STAGE)
	@$(RUN) -name unit -json -- go test -json -count=1 -timeout 20m $(TEST_FLAGS) $(UNIT_PKGS)

# The whole line over S3 and HDFS in memory, whose every request goes wrong.
store-faults: $(STAGE)
	@$(RUN) -name store-faults -json -- go test -json -count=1 -tags stores -timeout 30m ./pipeline -run '^Test(Store|HDFS)' $(FAULT_FLAGS)

# Not the tests that start the binary, which is built without the detector, nor
# those of the source text, which run no code of ours.
race: $(STAGE)
	@$(RUN) -name race -json -- go test -json -count=1 -timeout 20m -race $(RACE_FLAGS) $$(go list $(PKGS) | grep -v -e /e2e/kill$$ -e /e2e/memory$$ -e /internal/tidy$$)

fuzz-smoke: $(STAGE)
	@$(RUN) -name fuzz-smoke -- env PKGS='$(PKGS)' .ci/fuzz $(FUZZSMOKE)

kill: $(STAGE) # the binary killed 180 times, at least 3 times in each step of a commit and of each service
	@$(RUN) -name kill -json -- go test -json -count=1 -timeout 20m ./e2e/kill -kill.full

memory: $(STAGE) # the binary's memory with a million documents and 50 of 8 MB
	@$(RUN) -name memory -json -log -- go test -json -count=1 -timeout 20m ./e2e/memory -memory.full

# The tests of tables on the drivers of other stores, by stand-ins in their own process.
# On S3 each request goes over HTTP: there the short form is what runs whole lines.
STORES_RUN_S3 := ^(TestSimulation|TestCrashSweep|TestFaultStorm|TestFencing|TestCurrent|TestCompaction.*|TestRecover.*|TestRollback)$$
.PHONY: stores test-stores
stores: $(STAGE)
ifeq ($(E2E_FULL),)
	@$(RUN) -name stores-hdfs -json -- env TEST_STORE=hdfs go test -json -count=1 -tags stores -short -timeout 20m ./pipeline ./table
	@$(RUN) -name stores-s3 -json -- env TEST_STORE=s3 go test -json -count=1 -tags stores -short -timeout 20m -run '$(STORES_RUN_S3)' ./pipeline ./table
else
	@$(RUN) -name stores-hdfs -json -- env TEST_STORE=hdfs go test -json -count=1 -tags stores -timeout 60m $(STORE_PKGS)
	@$(RUN) -name stores-s3 -json -- env TEST_STORE=s3 go test -json -count=1 -tags stores -short -timeout 60m ./pipeline ./table ./compaction ./index/... ./hudi/timeline ./catalog
endif

# Not the tests that have stages of their own.
oracle-tests: $(STAGE)
	@status=0; $(RUN) -name oracle-tests -json -- go test -json -count=1 -tags oracle -timeout $(if $(E2E_FULL),150m,45m) $$(go list ./e2e/... | grep -v -e /e2e/kill$$ -e /e2e/memory$$) || status=1; \
	e2e/compose/engine.sh stop $(DOCKER_DIR); exit $$status

# ---- tools

$(STAGE): $(wildcard e2e/stage/*.go)
	@mkdir -p $(BIN)
	@go build -o $@ ./e2e/stage

$(LINT):
	@mkdir -p $(BIN)
	GOBIN=$(BIN) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv $(BIN)/golangci-lint $@
