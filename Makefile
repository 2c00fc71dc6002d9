# Building and testing need Go and make only; race tests need a C compiler too.
# Other tools are installed into .cache by the targets that use them.

GO       ?= go
CACHE    := $(CURDIR)/.cache
TOOLS    := $(CACHE)/bin
# A tag names a release. Other builds have the release that the sources say, and the commit.
RELEASE  := $(shell sed -n 's/^const release = "\(.*\)"$$/\1/p' services/switchyard/cli/version.go)
COMMIT   := $(shell git describe --always --dirty --exclude '*' 2>/dev/null)
VERSION  ?= $(or $(shell git describe --tags --exact-match --dirty 2>/dev/null),$(RELEASE)$(addprefix +,$(COMMIT)))
LDFLAGS  := -s -w -X github.com/switchyard/switchyard/services/switchyard/cli.Version=$(VERSION)
FUZZTIME ?= 3s

# All targets compile alike, so that none compiles again what another has. What is linked has
# nothing for debuggers (-s -w), so nothing is compiled for them; and of net and os/user all have
# what the static binary has, with cgo and without.
LEAN := -trimpath -tags=netgo,osusergo -gcflags=all=-dwarf=false
export GOFLAGS := $(LEAN)

# GOGC: compilers would spend a third of their time collecting garbage. It is not exported, as
# what is built would run with it.
BUILD := GOGC=400 $(GO) build -ldflags '$(LDFLAGS)'

BUF_VERSION           := v1.70.0
PROTOC_GEN_GO_VERSION := v1.36.12
LINT_VERSION          := v2.15.0
DEADCODE_VERSION      := v0.52.0
# buf, compiled for Linux on x86_64.
BUF_WHEEL := buf-bin==$(BUF_VERSION:v%=%) --hash=sha256:578be2b7f2cbb91e1dabc713e6b9d11086d99535f4efbf6102a908bb660afb5c

BUF           := $(TOOLS)/buf-$(BUF_VERSION)
PROTOC_GEN_GO := $(TOOLS)/protoc-gen-go-$(PROTOC_GEN_GO_VERSION)/protoc-gen-go
LINT          := $(TOOLS)/golangci-lint-$(LINT_VERSION)
DEADCODE      := $(TOOLS)/deadcode-$(DEADCODE_VERSION)

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/switchyard, one static binary
	CGO_ENABLED=0 $(BUILD) -o bin/switchyard ./services/switchyard

.PHONY: lab
lab: ## Build bin/switchyard-lab, the laboratory: what measures, which "switchyard NAME" runs
	CGO_ENABLED=0 $(BUILD) -o bin/switchyard-lab ./loadtest/switchyard-lab

# NVIDIA's compiler and headers, and the kernels made with them. Both are made again
# when what they follow from changes; neither is committed.
CUDA        := $(CACHE)/cuda
CUDA_IMAGES := kernels/cuda/images/built
# Which GPUs kernels are compiled for, such as sm_90a; empty: all (kernels/cuda/build/compile.py).
CUDA_TARGETS ?=
CUDA_ENV     = CGO_ENABLED=1 CGO_CFLAGS="-O2 -I$(CUDA)/nvidia/cuda_runtime/include -Wno-deprecated-declarations" CGO_LDFLAGS="-L$(CUDA)/lib"

.PHONY: build-cuda
build-cuda: $(CUDA_IMAGES) ## Build bin/switchyard-cuda, which computes experts on GPUs (needs a C compiler and pip; minutes, once)
	$(CUDA_ENV) $(BUILD) -tags cuda,netgo,osusergo -o bin/switchyard-cuda ./services/switchyard
	kernels/cuda/build/check bin/switchyard-cuda

.PHONY: lab-cuda
lab-cuda: $(CUDA_IMAGES) ## Build bin/switchyard-lab-cuda, the laboratory of bin/switchyard-cuda
	$(CUDA_ENV) $(BUILD) -tags cuda,netgo,osusergo -o bin/switchyard-lab-cuda ./loadtest/switchyard-lab

.PHONY: test-cuda
test-cuda: ## Test all of CUDA that needs no GPU, on a fake one and with the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race ./kernels/cuda/... ./pkg/compute/device/cuda ./pkg/process/gpus
	CGO_ENABLED=1 CGO_CFLAGS="-O2 -Wno-deprecated-declarations" $(GO) test -race -tags cuda ./kernels/cuda/nvml
	CGO_ENABLED=1 $(GO) test -race -run GPU ./services/switchyard/... ./loadtest/...

.PHONY: test-cuda-driver
test-cuda-driver: $(CUDA) ## Test the bindings of NVIDIA's libraries on ones in C (fetches NVIDIA's headers, once)
	$(CUDA_ENV) $(GO) test -tags cuda ./kernels/cuda/real ./kernels/cuda/nvml

# The tests look for files beside their package.
GPU_TESTS := cd pkg/compute/device/cuda && $(CURDIR)/bin/gpu-tests

.PHONY: build-gpu-tests
build-gpu-tests: $(CUDA_IMAGES) ## Build bin/gpu-tests, the tests and benchmarks that need a GPU, also for machines without Go
	$(CUDA_ENV) $(GO) test -c -tags cuda,netgo,osusergo -ldflags '-s -w' -o bin/gpu-tests ./pkg/compute/device/cuda

.PHONY: test-gpu
test-gpu: build-gpu-tests ## Run the CUDA kernels on this machine's first GPU against the CPU; without one it fails
	@export SWITCHYARD_GPU_TESTS=1; cd pkg/compute/device/cuda && for name in $$($(CURDIR)/bin/gpu-tests -test.list TestReal | grep '^TestReal' | grep -v Wgmma) TestRealWgmma; do \
		$(CURDIR)/bin/gpu-tests -test.v -test.run "^$$name\$$" || exit 1; \
	done

.PHONY: bench-gpu
bench-gpu: build-gpu-tests ## Time the CUDA kernels on it, beside what it does at most and what others make of it
	$(GPU_TESTS) -test.run '^$$' -test.bench GPU -test.timeout 30m
	$(MAKE) bench-gpu-baseline

.PHONY: bench-gpu-baseline
bench-gpu-baseline: ## Time on it what torch, Triton and transformers make of the same, as far as python3 has them
	python3 -B kernels/cuda/baseline/baseline.py

$(CUDA): kernels/cuda/build/wheels.txt kernels/cuda/build/fetch
	kernels/cuda/build/fetch $< $@

$(CUDA_IMAGES): $(CUDA) kernels/cuda/build/compile.py $(wildcard kernels/cuda/src/*.cu kernels/cuda/src/*.cuh)
	python3 kernels/cuda/build/compile.py $(CUDA) kernels/cuda/src $@ $(CUDA_TARGETS)
	@touch $@

.PHONY: demo
demo: build ## Serve the demo model in one process and ask it something; opens no port
	bin/switchyard demo

# More tests and packages at a time than cores: most of a pipeline's test is waiting. The
# packages that wait longest come first, so that the others run meanwhile.
PARALLEL ?= 4
JOBS     ?= 4
PIPELINES := ./services/switchyard ./services/switchyard/cluster/... ./loadtest/cluster/... ./services/tokenizer/delivery ./services/tokenizer/intake ./pkg/transport/bus
PACKAGES  := $(PIPELINES) ./... ./loadtest/...

# GOGC: tests, too, would spend a third of their time collecting garbage, as a served model's
# process keeps little of it. Vet is a part of lint.
# RUN and ONLY say which tests of which package, where not all are wanted.
TEST := GOGC=400 $(GO) test -vet=off -ldflags '-s -w' -p $(JOBS) -parallel $(PARALLEL) $(if $(RUN),-count=1 -run '$(RUN)')

.PHONY: golden
golden: ## Make the golden checkpoints whole, below .cache/golden, for "switchyard verify"
	@CGO_ENABLED=0 $(GO) test -count=1 -run TestDir ./pkg/compute/goldens

.PHONY: freeze
freeze: build lab golden ## Hold the built program to what outsiders rely on: commands, JSON fields, exit codes
	CGO_ENABLED=0 SWITCHYARD_FREEZE=1 $(TEST) -count=1 ./loadtest/contract

.PHONY: test
test: ## Run the tests; with BENCH=1 each benchmark once, too
	CGO_ENABLED=0 $(TEST) $(if $(BENCH),-exec $(CURDIR)/.ci/with-benchmarks) $(or $(ONLY),$(PACKAGES))

# As on a processor without AVX-512, so that no test rests on the machine that it was written on.
OLD_PROCESSOR := $(if $(filter x86_64,$(shell uname -m)),GODEBUG=cpu.avx512f=off)

.PHONY: test-old-processor
test-old-processor: ## Run the kernels' tests as on a processor without AVX-512
	CGO_ENABLED=0 $(OLD_PROCESSOR) $(TEST) $(or $(ONLY),./kernels/...)

.PHONY: test-kernels
test-kernels: ## Run the CUDA kernels on the processor against the oracle (needs g++; no GPU)
	CGO_ENABLED=1 $(GO) test -count=1 -tags emulate -bench GPU -benchtime 1x ./kernels/cuda/emulate ./pkg/compute/device/cuda

# Only packages whose code or tests start goroutines or lock: in others nothing can race. Load
# tests run other processes, which are not raced, bench runs pipelines that cluster/ races, and the
# arena simulates in goroutines that share nothing. Of
# tests whose cases differ in what is computed alone, testkit.Some takes one: "make test" has
# compared all, and what can race is the same. Whole pipelines come first and without the others,
# whose computing would keep them from answering in time, and few at a time: each of sixteen would
# be late for its own parts, and do again what was late.
UNRACED = $(foreach d,chaos clients contract deploy door fleet jaeger overload pages scaling soak upgrade bench arena switchyard-lab,./loadtest/$d/%)
RACED = $(filter-out $(UNRACED),$(filter $(patsubst github.com/switchyard/switchyard%,.%/,$(shell $(GO) list ./... ./loadtest/...)),$(sort $(dir $(shell grep -rlE --include='*.go' --exclude-dir=.cache '^\s*"sync(/atomic)?"$$|sync/errgroup"|\bgo func|^\s*go [a-z]' .)))))

.PHONY: race race-build race-pipelines race-parts
race: race-pipelines race-parts ## Run the tests with the race detector (needs a C compiler)
race-build:
	CGO_ENABLED=1 GOGC=400 $(GO) build -race $$($(GO) list -f '{{if and .GoFiles (ne .Name "main")}}{{.ImportPath}}{{end}}' ./services/... ./pkg/... ./kernels/... ./loadtest/...)
# Pipelines are raced without AVX-512: what computes is no matter here, and "make test" has it.
race-pipelines:
	CGO_ENABLED=1 $(OLD_PROCESSOR) $(TEST) -race -p 2 -parallel 2 -timeout 15m $(or $(ONLY),$(PIPELINES))
race-parts:
	CGO_ENABLED=1 $(TEST) -race -timeout 15m $(or $(ONLY),$(filter-out $(PIPELINES:%=%/) ./services/switchyard/cluster/% ./loadtest/cluster/%,$(RACED)))

.PHONY: lint
lint: $(LINT) ## Check the style and for likely mistakes
	GOGC=400 CGO_ENABLED=0 $(LINT) run ./... ./loadtest/...

# All that is built of the sources.
BINARIES := ./services/switchyard ./loadtest/switchyard-lab ./pkg/transport/kafka/embedded/broker

.PHONY: deadcode
deadcode: $(DEADCODE) ## Fail if no binary calls a function that is not listed in .ci/deadcode.allow
	@.ci/deadcode $(DEADCODE) $(BINARIES)

# Only packages with benchmarks, since each package's program is linked.
BENCHED = $(sort $(dir $(shell grep -rl --include='*_test.go' --exclude-dir=.cache '^func Benchmark' .)))

.PHONY: bench
bench: ## Run every benchmark once, so that none rots
	CGO_ENABLED=0 $(TEST) -run '^$$' -bench . -benchtime 1x $(BENCHED)

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (3s); with FUZZLIMIT, as many as begin in so many seconds
	@CGO_ENABLED=0 GO="$(GO)" .ci/fuzz "$(FUZZTIME)" "$(FUZZLIMIT)"

.PHONY: generate
generate: $(BUF) $(PROTOC_GEN_GO) ## Generate Go code from schemas/
	cd schemas && PATH="$(dir $(PROTOC_GEN_GO)):$$PATH" $(BUF) generate

.PHONY: check-generate
check-generate: $(BUF) $(PROTOC_GEN_GO) ## Fail if schemas/ breaks its rules or the committed code is stale
	cd schemas && $(BUF) lint
	@BUF="$(BUF)" PLUGINS="$(dir $(PROTOC_GEN_GO))" .ci/check-generate

# Types alone: to compile it all for another system takes minutes and finds the same mistakes.
.PHONY: cross
cross: ## Check the types for darwin/arm64, and build the kernels for linux/arm64: no other code is by processor
	CGO_ENABLED=0 $(TEST) -run Darwin ./internal/typecheck
	CGO_ENABLED=0 GOOS=linux GOARCH=arm64 $(GO) build ./kernels/...

.PHONY: trace-test
trace-test: build ## Build a real Jaeger (minutes, once) and find a request's trace in it
	loadtest/jaeger/build
	CGO_ENABLED=0 SWITCHYARD_JAEGER=1 $(GO) test -count=1 -v ./loadtest/jaeger

# Apache Kafka and what it depends on; the version is in the POM too.
KAFKA_JARS := $(CACHE)/kafka-4.1.0

.PHONY: kafka-test
kafka-test: $(KAFKA_JARS) ## Run the tests of Kafka's transport on Apache Kafka too (needs Java 17; Maven, once)
	CGO_ENABLED=0 SWITCHYARD_KAFKA_JARS=$(KAFKA_JARS) $(GO) test -count=1 -v -run Conformance ./pkg/transport/kafka

$(KAFKA_JARS):
	@.ci/kafka-jars $@

# The folder with published tokenizers and texts in many languages (docs/benchmarks.md).
SWITCHYARD_DATA ?= $(abspath ../shared/data)

.PHONY: tokenizer-test
tokenizer-test: ## Compare all token ids of a corpus with those of the reference libraries (needs SWITCHYARD_DATA; minutes)
	CGO_ENABLED=0 SWITCHYARD_DATA=$(SWITCHYARD_DATA) SWITCHYARD_WHOLE_CORPUS=1 $(GO) test -count=1 -timeout 60m -v -run 'Nasty|Corpus' ./pkg/request/tokenizer

.PHONY: chaos
chaos: ## Kill and suspend services and the NATS server in the middle of requests, and want the same tokens (18 minutes)
	CGO_ENABLED=0 SWITCHYARD_CHAOS=$${SWITCHYARD_CHAOS:-1} $(GO) test -count=1 -timeout 45m -v $(if $(RUN),-run '$(RUN)') ./loadtest/chaos

# What goes wrong in the targets below; docs/chaos.md has all settings.
SEED    ?= 1
MINUTES ?= 30
EVERY   ?= 3s
OUT     ?= .cache/chaos
SERVERS ?=
LEADER  ?=
SEEDED   = mkdir -p $(OUT) && SWITCHYARD_CHAOS_SEED=$(SEED) SWITCHYARD_CHAOS_MINUTES=$(MINUTES) SWITCHYARD_CHAOS_EVERY=$(EVERY) \
	SWITCHYARD_CHAOS_SERVERS=$(SERVERS) SWITCHYARD_CHAOS_LEADER=$(LEADER) SWITCHYARD_CHAOS_OUT=$(abspath $(OUT)) SWITCHYARD_CHAOS

.PHONY: chaos-long
chaos-long: ## Faults of all kinds by SEED, for MINUTES (30), one EVERY 3s on average (SERVERS=3 LEADER=30s: the NATS leader is killed each 30 s); reports go to OUT
	$(SEEDED)=long $(GO) test -count=1 -timeout 12h -v -run TestSeededFaults ./loadtest/chaos

.PHONY: chaos-each
chaos-each: ## One fault at a time for MINUTES (30), with pauses of EVERY (3s): what each kind costs
	$(SEEDED)=each $(GO) test -count=1 -timeout 12h -v -run TestEachFaultAlone ./loadtest/chaos

# Paths are made absolute, as the test runs in a folder of its own.
SERVED = NATS='$(NATS)' EXEC=$(abspath $(EXEC)) CREDS=$(abspath $(CREDS)) TLS_CA=$(abspath $(TLS_CA))

.PHONY: chaos-served
chaos-served: ## Judge the answers of services that you run, at NATS=URL, for MINUTES (30); EXEC=PROGRAM does the faults
	@test -n "$(NATS)" || { echo "give the URL of a server with services: make chaos-served NATS=nats://127.0.0.1:4222" >&2; exit 2; }
	$(SEEDED)=served $(addprefix SWITCHYARD_CHAOS_,$(SERVED)) $(GO) test -count=1 -timeout 12h -v -run 'TestServed$$' ./loadtest/chaos

.PHONY: cluster-test
cluster-test: ## Kill, suspend, empty, cut off and fill up servers of a NATS cluster in the middle of requests, and want the same tokens (20 minutes)
	SWITCHYARD_CLUSTER=1 $(GO) test -count=1 -timeout 40m -v -run TestCluster ./loadtest/chaos

.PHONY: upgrade-test
upgrade-test: ## Replace the services of earlier commits by these, and back, in the middle of requests (30 minutes; SWITCHYARD_UPGRADE=short: 4)
	SWITCHYARD_UPGRADE=$${SWITCHYARD_UPGRADE:-1} $(GO) test -count=1 -timeout 60m -v -run TestUpgrade ./loadtest/upgrade

.PHONY: overload-test
overload-test: ## Offer three times what the pipeline can do, ten tenants of whom one sends most; and a backlog of three tenants with weights (11 minutes)
	SWITCHYARD_OVERLOAD=$${SWITCHYARD_OVERLOAD:-2m} $(GO) test -count=1 -timeout 1h -v ./loadtest/overload

.PHONY: scaling-test
scaling-test: ## Compare "up" with its control loop and without, live: SWITCHYARD_SCALING pairs of runs (5; 12 minutes, on an idle machine)
	SWITCHYARD_SCALING=$${SWITCHYARD_SCALING:-5} $(GO) test -count=1 -timeout 2h -v ./loadtest/scaling

.PHONY: door-test
door-test: ## A gateway under 1,000 streams, slow readers, half-open connections and kills, and beside a NATS client (9 minutes)
	SWITCHYARD_DOOR=1 $(GO) test -count=1 -timeout 30m -v ./loadtest/door

.PHONY: agents-test
agents-test: build ## Coding agents of npm and pip, unchanged, through turns with tools against a gateway (fetches them; 10 minutes)
	loadtest/clients/agents

.PHONY: soak
soak: ## Kill services while the token log passes its bound again and again (20 minutes)
	SWITCHYARD_SOAK_LOG=$${SWITCHYARD_SOAK_LOG:-20m} $(GO) test -count=1 -timeout 2h -v -run TestFullLog ./loadtest/soak

.PHONY: soak-short
soak-short: ## The same for four minutes
	SWITCHYARD_SOAK_LOG=4m $(GO) test -count=1 -v -run TestFullLog ./loadtest/soak

.PHONY: pages
pages: ## Cancel a thousand requests in a minute, and time their pages; short answers in small memory (3 minutes)
	SWITCHYARD_PAGES=1 $(GO) test -count=1 -timeout 30m -v ./loadtest/pages

.PHONY: soak-day
soak-day: ## A day of load with a log that keeps a minute (12 minutes), then 1,000 cancellations
	SWITCHYARD_SOAK_DAY=$${SWITCHYARD_SOAK_DAY:-12m} SWITCHYARD_SOAK_CANCELS=1000 \
		$(GO) test -count=1 -timeout 2h -v -run 'TestDay|TestCancels' ./loadtest/soak

.PHONY: ci
ci: ## Everything that continuous integration runs
	.ci/run

.PHONY: clean
clean: ## Remove what was built, tools included
	rm -rf bin .cache

# A tool's file name has its version, so that a new one is installed and an old
# one is left alone.
$(BUF):
	@.ci/install github.com/bufbuild/buf/cmd/buf@$(BUF_VERSION) $@ '$(BUF_WHEEL)'

$(PROTOC_GEN_GO):
	@.ci/install google.golang.org/protobuf/cmd/protoc-gen-go@$(PROTOC_GEN_GO_VERSION) $@

$(DEADCODE):
	@.ci/install golang.org/x/tools/cmd/deadcode@$(DEADCODE_VERSION) $@

$(LINT):
	@.ci/install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION) $@
