# Targets for people and for CI; `make` lists them.

SHELL := /bin/bash
GO    ?= go
LINT  := .cache/golangci-lint

# Other packages' servers share the machine, so a test binary may take long.
TEST_TIMEOUT ?= 45m
# TEST_PACKAGES is how many packages are tested at a time: one more than there
# are processors, as tests wait for servers, too.
TEST_PACKAGES ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: deps
deps: ## Install the servers that tests need (as root, on Debian and Ubuntu), or say what is missing
	@.ci/deps
	@$(GO) run ./integration/cmd/brokers -fetch

# The newer servers come from Debian's next release; elsewhere tests run on what is
# installed. REDIS is 6.2, 8.0 or valkey-8.1, RABBITMQ is 4.0; empty is that of PATH.
DEBIAN := $(shell grep -sx ID=debian /etc/os-release)
SUITE   = DELAYBRIDGE_REQUIRE_SERVERS=1 GORACE="$(GORACE) atexit_sleep_ms=0" \
	$(GO) test -race -vet=off -p $(TEST_PACKAGES) -timeout $(TEST_TIMEOUT)
AMQP    = ./sinks/amqp ./interceptors/amqp

.PHONY: test
test: deps ## Run all tests, with the race detector, against real servers; a missing one is a failure
	@# The longest goes first, so that nothing waits for it alone at the end. The
	@# linters vet. The store's suite runs on Redis 6.2 in the same run.
	REDIS=$(if $(DEBIAN),8.0) $(SUITE) ./integration ./...
	$(if $(DEBIAN),RABBITMQ=4.0 $(SUITE) -skip AsPlugin $(AMQP))

.PHONY: test-servers
test-servers: deps ## Run the suites of store and AMQP on every server that they are made for (Debian)
	@# Redis 6.2 knows no cluster as the tests start it.
	REDIS=6.2 $(SUITE) -skip 'Cluster|MoveOfASlot|FrozenMaster' ./core/redisstore
	REDIS= $(SUITE) ./core/redisstore
	REDIS=8.0 $(SUITE) ./core/redisstore
	REDIS=valkey-8.1 $(SUITE) ./core/redisstore
	RABBITMQ= $(SUITE) $(AMQP)
	RABBITMQ=4.0 $(SUITE) $(AMQP)

.PHONY: quick
quick: ## Run the tests that need no server to be installed; tests with servers run where there are any
	CI= $(GO) test -short -timeout $(TEST_TIMEOUT) ./...

.PHONY: lint
lint: $(LINT) .cache/proto/buf ## Check style, import direction, protocols and common mistakes
	@.ci/proto -check
	$(GO) vet ./...
	$(LINT) run ./...

$(LINT): .ci/tools/go.mod .ci/tools/go.sum
	cd .ci/tools && $(GO) build -o ../../$(LINT) github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: proto
proto: .cache/proto/buf ## Check the protocols of plugins and gRPC, and generate their code
	@.ci/proto

.cache/proto/buf: .ci/tools/proto/go.mod .ci/tools/proto/go.sum
	mkdir -p $(@D)
	cd .ci/tools/proto && $(GO) build -o ../../../.cache/proto/ tool

.PHONY: fmt
fmt: ## Format the code
	gofmt -l -w $$(git ls-files --cached --others --exclude-standard '*.go')

# go test fuzzes one target of one package at a time.
FUZZTIME ?= 30s

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (30s), one after the other; what fails is kept in testdata/fuzz
	@failed=; \
	for dir in $$(git grep -l --untracked '^func Fuzz' -- '*_test.go' | xargs -n1 dirname | sort -u); do \
		targets=$$($(GO) test -list '^Fuzz' "./$$dir" | grep '^Fuzz') || failed="$$failed $$dir"; \
		for target in $$targets; do \
			echo "== $$dir $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "./$$dir" || failed="$$failed $$dir:$$target"; \
		done; \
	done; \
	[ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

HTTP_FUZZTIME ?= 30m

.PHONY: fuzz-http
fuzz-http: ## Send requests made from the OpenAPI document to a bridge for HTTP_FUZZTIME (30m), from a new seed
	HTTP_FUZZTIME=$(HTTP_FUZZTIME) $(GO) test -count=1 -v -timeout 24h -run '^TestSchemathesis$$' ./integration/clients

.PHONY: bench
bench: ## Measure speed and memory beside the raw limit of this machine; takes a quarter of an hour
	$(GO) test -run '^$$' -bench . -benchmem ./core/... ./interceptors/...
	$(GO) run ./integration/bench

# SEEDS is how many seeds each row of the full profile gets; SEED is the first.
SEEDS ?= 20
SEED  ?= 1
# JOBS is how many runs go on at a time. They wait more than they work.
JOBS  ?= 2

.PHONY: faults
faults: ## Try bridges and Redis under faults, each for some seconds; takes three minutes
	$(GO) run ./integration/faults -seed $(SEED) -jobs $(JOBS)

.PHONY: faults-full
faults-full: ## Try every fault with SEEDS=20 seeds each; takes hours
	$(GO) run ./integration/faults -all -seed $(SEED) -seeds $(SEEDS) -jobs $(JOBS)

.PHONY: soak
soak: ## Run two bridges for half an hour with a fault a minute, and see whether anything grows
	$(GO) run ./integration/faults -row 42 -soak 30m -seed $(SEED)

.PHONY: mutants
mutants: ## Plant faults in copies of the code and see whether the fault harness finds them
	$(GO) run ./integration/faults -mutants -seed $(SEED)

.PHONY: brokers
brokers: ## Start Redis, Kafka, RocketMQ and RabbitMQ, print a configuration for them, end them on Ctrl-C
	$(GO) run ./integration/cmd/brokers

.PHONY: dev
dev: ## Run delaybridge alone: messages in memory, deliveries on the terminal
	$(GO) run ./cmd/delaybridge dev

# Where Go can make it, the binary is position independent, and what the loader has
# relocated is read-only. It needs the system's loader then: HARDENING= is for images
# without one.
PIE       := linux/386 linux/amd64 linux/arm linux/arm64 linux/loong64 linux/ppc64le linux/riscv64 linux/s390x \
	darwin/amd64 darwin/arm64 freebsd/amd64 windows/amd64 windows/arm64
HARDENING ?= $(if $(filter $(shell $(GO) env GOOS)/$(shell $(GO) env GOARCH),$(PIE)),-buildmode=pie -ldflags=-bindnow)
OUT       ?= bin/delaybridge

# The version comes from the commit and its tag, which Go stamps by itself.
.PHONY: build
build: ## Build bin/delaybridge
	$(GO) build -buildvcs=auto -trimpath $(HARDENING) -o $(OUT) ./cmd/delaybridge

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin .cache
