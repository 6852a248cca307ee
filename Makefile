# gantry: a trace-driven batch workflow executor. "make help" lists the targets.

SHELL := /bin/bash
# Binaries are looked for in bin/, tests and demo included.
GANTRY := bin/gantry
TASK := bin/gantry-task
# Control groups and an engine that answers to root only need root; the compiler does not, so its caches stay the caller's.
AS_ROOT := $(shell [ "$$(id -u)" = 0 ] || ! command -v sudo >/dev/null || echo sudo -E env "PATH=$$PATH")
MAY_DOCKER = $(if $(shell [ -w /var/run/docker.sock ] && echo may),,$(AS_ROOT))
BUILD_IMAGE = $(MAY_DOCKER) $(GANTRY) image build
# SQLite takes gcc a minute at -O2 and a third of that at -O1.
export CGO_CFLAGS ?= -O1
# Compiled packages do not depend on the folder then: a fresh clone takes them from the cache.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)
FUZZTIME ?= 20s
# A program under the race detector sleeps for a second before it ends: so do all that tests start.
export GORACE := atexit_sleep_ms=0
# The first seed of tests of random instances: 16 bits of the commit, above 16 that count instances.
SEED ?= $(shell h=$$(git rev-parse --verify -q HEAD 2>/dev/null | cut -c1-4); echo $$((0x$${h:-0} << 16)))
export GANTRY_TEST_SEED := $(SEED)
# gantry --version prints it behind the number of VERSION.
COMMIT := $(shell git describe --always --abbrev=8 --exclude='*' --dirty 2>/dev/null)
# make install and make uninstall: below $(DESTDIR)$(PREFIX).
PREFIX ?= /usr/local
export PREFIX DESTDIR
# Packages tested at once. Container tests wait for the engine, which leaves a core to a third package.
PACKAGES ?= 3
# Packages that start no goroutine: the race detector finds nothing there and takes several times as long.
ALONE := . ./cmd/gantry/debian ./planner/... ./trace ./trace/generate ./trace/jx ./trace/scenario ./trace/shown \
	./trace/spelling ./cmd/internal/sbatch ./sqlite/report/columns \
	./executor/experiment/metrics ./executor/sim/hostmodel ./executor/container/evidence \
	./executor/sim ./executor/experiment/load ./executor/forecast ./sqlite/report ./sqlite/report/results ./sqlite/report/study ./sqlite/logtest
# Tests that drive programs, which they build without the race detector.
PROGRAMS := $$(go list ./scripts/... ./docs ./examples | grep -v scripts/lint)
# The engine's goroutine waits for requests while time passes by itself, which it does in no test of its own: those of cmd and of runtimes
# run it under the race detector, and those of executor/experiment simulate side by side.
SIMULATED := ./executor
# Tests of cmd in which goroutines share state: make test runs its others without the race detector (scripts/lint/goroutines_test.go).
# GANTRY_TEST_RUN is -run for cmd alone.
RACED := TestRunTakesOneCommand TestAnImageThatIsSlowHoldsUpNobody TestAnInputThatIsSlowHoldsUpNobody \
	TestScratchFilesGoEarly TestServeTakesWorkUntilItIsDrained TestThePageOfARunInContainers
# Packages whose tests do more without -short.
MORE := $$(go list $$(grep -rlE --include='*_test.go' 'testing\.Short\(|seedtest\.|rapid\.|slurmtest\.Long' . | xargs -n1 dirname | sort -u))
empty :=
space := $(empty) $(empty)
UNDER_RACE := ^($(subst $(space),|,$(strip $(RACED))))$$
# Tests with bars that want a quiet host for minutes to hours.
AT_LARGE := go test -count=1 -v -timeout 0
# make check vets.
GO_TEST := go test -vet=off -p $(PACKAGES) -timeout 40m $(if $(AS_ROOT),-exec "$(AS_ROOT)")

.PHONY: static help demo demo-slurm test test-long test-whole test-race test-race-short room setup go compiler engine browser registry readers slurm build install uninstall images check bench load fuzz crash test-v2 release test-release \
	reproduce reproduce-quick reproduce-image figure pages pictures fidelity predictions adversary containers containers-quick emulation-table clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: engine build ## a mosaic of the sky with real programs in Docker containers, installing what is missing
	@scripts/demo

# Gantry is compiled while Docker is installed and started.
ifeq ($(MAKECMDGOALS),demo)
MAKEFLAGS += -j2
engine build: compiler
endif

demo-slurm: setup build ## the same on a Slurm cluster of four virtual nodes on this machine; installs Slurm if it is missing
	@scripts/demo slurm

test: go room setup browser registry slurm build images static ## the tests of each landing, container tests included; sets up everything first; SEED
	$(GO_TEST) -short -skip '$(UNDER_RACE)' ./cmd $(PROGRAMS) $(SIMULATED) $(ALONE)
	GANTRY_TEST_RUN='$(UNDER_RACE)' $(GO_TEST) -short -race $$(go list ./... | grep -vxF "$$(go list $(SIMULATED) $(ALONE) $(PROGRAMS) ./scripts/lint)")

test-long: go room setup browser registry readers slurm build images ## the rest, before a release: 2 hours; resumable; PART, see scripts/test-long; SEED
	@scripts/test-long $(PART)

# Two parts of it. Rounds and pairs of fault points have their own.
test-whole:
	$(GO_TEST) -timeout 0 -skip '^(TestRounds|TestServerRounds|TestEveryFaultPoint)$$' \
		$$(printf '%s\n' $(MORE) | grep -xF "$$(go list ./cmd $(PROGRAMS) $(SIMULATED) $(ALONE))")

test-race:
	$(GO_TEST) -timeout 0 -race $$(printf '%s\n' $(MORE) | grep -vxF "$$(go list ./cmd $(PROGRAMS) $(SIMULATED) $(ALONE))")

# More instances find no race in these.
test-race-short:
	$(GO_TEST) -timeout 0 -race -short ./cmd $(SIMULATED)

room:
	@scripts/ensure-room

# Tests of docs take the binaries that were just built.
test test-long: export GANTRY_TEST_BIN := $(CURDIR)/bin

browser: ## a headless browser, zsh and fish for tests, which are skipped without
	@scripts/ensure browser

registry: ## a registry of images for the tests that pull; they are skipped without
	@scripts/ensure registry

readers: ## pandas, R, DuckDB and hyparquet for the tests that read exports (make test-long); they are skipped without
	@scripts/ensure readers

slurm: ## the packages of Slurm, for the tests that bring a cluster of four virtual nodes up; they are skipped without
	@scripts/slurm install || echo "slurm: it cannot be had here: tests that need Slurm will be skipped"

setup: compiler engine ## a Docker Engine, crun and a C compiler; does nothing where they are

compiler:
	@bash cmd/setup.sh compiler

engine:
	@bash cmd/setup.sh runtime engine

# Says which Go is needed, where that of go.mod is not there and cannot be had. Go 1.21 and later fetch it by themselves.
go:
	@scripts/go-version

build: go ## bin/gantry and bin/gantry-task
	@mkdir -p bin
	go build -buildvcs=false -ldflags "-X gantry.Commit=$(COMMIT)" -o $(GANTRY) ./cmd/gantry
	go build -buildvcs=false -ldflags "-s -w" -o $(TASK) ./cmd/gantry-task

install: build ## both binaries, manual pages and completions below PREFIX (/usr/local) in DESTDIR; asks sudo where it has to
	@scripts/install $(GANTRY) $(TASK)

uninstall: ## remove what make install installs
	@scripts/install --remove

images: setup build ## the images of the examples with real tools
	@$(BUILD_IMAGE) gantry/busybox busybox-static
	@$(BUILD_IMAGE) gantry/montage montage mawk && $(BUILD_IMAGE) gantry/variants bwa samtools bcftools mawk && \
		$(BUILD_IMAGE) gantry/nextflow bash coreutils procps || \
		echo "images: without these, tests of examples/mosaic, examples/variants and of Nextflow's scripts are skipped"

check: static ## format, vet, staticcheck, types on macOS, dead code, spelling, directions of imports, known vulnerabilities, packages with few own tests
	@scripts/coverage

static:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$unformatted" ] || { echo "not formatted (gofmt -w):" $$unformatted >&2; exit 1; }
	go vet ./...
	go tool staticcheck ./...
	@# Of C files -trimpath hides the place, by which deadcode knows functions.
	@dead=$$(GOFLAGS= $$(go tool -n deadcode) -test ./... | grep -v 'test/'); [ -z "$$dead" ] || { echo "dead code:" >&2; echo "$$dead" >&2; exit 1; }
	@git ls-files '*.md' | xargs go tool misspell -error -locale UK -i analyze,catalog,catalogs,destabilize,utilization,color
	@git ls-files | grep -vE '\.(svg|png|sum|md)$$' | xargs go tool misspell -error -i montaeg,monatge,proces,higest,ouput
	go test -count=1 ./scripts/lint
	@scripts/govulncheck.sh

bench: export CGO_CFLAGS = -O2
bench: build images ## the headline benchmarks, as ratios within one run
	@scripts/bench
	go test -run '^$$' -bench 'WHEFTPlan/.*/wheft' -benchtime 5x ./executor

load: build ## a server with 100,000 waiting tasks and 1,000 submissions a minute, on the null runtime; 3 minutes; or one that runs ATTEMPTS, RUNTIME
	$(AT_LARGE) ./scripts/load -large $(if $(ATTEMPTS),-attempts $(ATTEMPTS)) $(if $(RUNTIME),-runtime $(RUNTIME))

fuzz: ## every fuzz target for FUZZTIME (20s)
	@grep -rHoE --include='*_test.go' '^func Fuzz\w+' . | sed 's|/[^/]*:func| |' | (set -e; while read -r pkg target; do \
		echo "$$pkg $$target"; go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg </dev/null; done)

crash: images ## disturb gantry, Docker Engines, a disk and a server at random moments; ROUNDS, SEED, ENGINES, RUNTIME=docker or oci
	$(AS_ROOT) env $(if $(RUNTIME),GANTRY_CRASH_RUNTIME=$(RUNTIME)) GANTRY_CRASH_ENGINES=$(or $(ENGINES),$(shell nproc)) \
		scripts/crash $(or $(ROUNDS),30) $(SEED)

emulation-table: build ## what the task emulator is asked for and what it does, against its bars; 10 minutes on a quiet host
	GANTRY_TASK=$(CURDIR)/$(TASK) $(AT_LARGE) $(if $(AS_ROOT),-exec "$(AS_ROOT)") ./scripts/emulation -large

test-v2: ## container tests in a virtual machine with cgroup v2: a subset of at most 15 minutes, or TESTS=all; DRIVERS
	$(AS_ROOT) env $(if $(TESTS),GANTRY_VM_TESTS="$(TESTS)") $(if $(DRIVERS),GANTRY_VM_DRIVERS="$(DRIVERS)") scripts/vm/test

release: ## static binaries, Debian packages, checksums and lists of modules for amd64 and arm64 in dist/
	@scripts/release/setup
	@scripts/release/build

test-release: ## build a release twice and compare, install its package in a fresh root; takes minutes
	@scripts/release/setup
	@scripts/ensure release
	GANTRY_RELEASE_TESTS=1 go test -count=1 -v -timeout 2h $(if $(AS_ROOT),-exec "$(AS_ROOT)") ./scripts/release

reproduce: build ## all tables and figures of the papers at full scale, resumably, and reproduce/page.html; JOBS
	go run ./scripts/reproduce $(if $(JOBS),-jobs $(JOBS))

reproduce-quick: build ## the same in 10 minutes on two cores: short streams, few repetitions; reproduce-quick/page.html
	go run ./scripts/reproduce -quick $(if $(JOBS),-jobs $(JOBS))

# The image has nothing but these programs and the experiments.
reproduce-image: go compiler engine ## an image that does so without Go and without a network, and dist/reproduce.tar for docker load
	@mkdir -p dist/reproduce/bin
	go build -buildvcs=false -tags "netgo osusergo sqlite_omit_load_extension" \
		-ldflags "-s -w -X gantry.Commit=$(COMMIT) -linkmode external -extldflags -static" -o dist/reproduce/bin/ ./cmd/gantry ./scripts/reproduce
	set -o pipefail; tar -c --owner=0 --group=0 --mode=a+rX examples/experiments -C dist/reproduce bin | $(MAY_DOCKER) docker import \
		-c 'WORKDIR /' -c 'ENV TMPDIR=/out' -c 'ENTRYPOINT ["bin/reproduce", "-quick", "-dir", "out"]' - gantry/reproduce
	$(MAY_DOCKER) docker save gantry/reproduce >dist/reproduce.tar

figure: build ## the experiments behind one figure or table of a paper: PAPER=ccgrid|rm-dcwf|mows|3dsf N=7 (tN is a table); QUICK=1, JOBS
	go run ./scripts/reproduce -paper '$(or $(PAPER),none)' -figure '$(N)' $(if $(QUICK),-quick) $(if $(JOBS),-jobs $(JOBS))

pages: build ## write the pages of examples/experiments again, from make reproduce's results or those in short form
	go run ./scripts/reproduce -write

pictures: browser build ## run examples/pipeline, and take its pictures of pages
	@examples/pipeline/pictures.sh

fidelity: build images ## predict runs, run them in containers, and hold the predictions to bars; 15 minutes on a quiet host
	$(AT_LARGE) $(if $(AS_ROOT),-exec "$(AS_ROOT)") ./scripts/fidelity -large

containers: build images ## the papers' policies on real containers, and examples/containers; 3 hours on a quiet host; resumable
	$(AS_ROOT) go run ./scripts/reproduce -suite examples/containers -dir containers -jobs 1
	$(AS_ROOT) go run ./scripts/reproduce -suite examples/containers -dir containers -write

containers-quick: build images ## the same in 10 minutes: one repetition, few policies; containers-quick/page.html
	$(AS_ROOT) go run ./scripts/reproduce -suite examples/containers -dir containers-quick -quick -jobs 1

adversary: build ## search for the worst instance of each policy against each other; resumable; ARGS=-containers repeats them there
	$(AT_LARGE) ./scripts/adversary -large $(ARGS)

predictions: build images ## hold predictions in containers and on data that others published to bars, and write the tables of examples/predict
	$(AT_LARGE) $(if $(AS_ROOT),-exec "$(AS_ROOT)") ./scripts/predictions -large

clean: ## remove what was built (runs stay)
	rm -rf bin dist
