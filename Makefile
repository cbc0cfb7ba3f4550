# Everything that a contributor runs. The modules come from go.work, so a new one
# is listed there and nowhere else.

# Whoever has GOWORK=off in the environment gets the workspace here all the same.
export GOWORK =

MODULES     := $(shell GOWORK= go work edit -json | sed -n 's/.*"DiskPath": "\(.*\)".*/\1/p')
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

# The race detector needs a C compiler. It watches all but the interpreter that executes
# scripts in an embedded miniredis, one at a time: that would take as long as the rest. A
# package that has sync.Map, as miniredis itself, cannot be left out: where its copy of that
# generic code is linked for all, the detector reports races that there are not. So it does where
# the interpreter has its memory by the functions for one size each that Go 1.27 has, since those do
# not say that it is in new use: they are switched off. A Go that cannot do that has all watched.
PLAIN_MALLOC := nosizespecializedmalloc
RACE     := $(shell command -v "$$(go env CC)" >/dev/null && echo -race && \
	GOEXPERIMENT=$(PLAIN_MALLOC) go env GOVERSION >/dev/null 2>&1 && echo -gcflags=github.com/yuin/gopher-lua/...=-race=false)
ifneq ($(findstring gcflags,$(RACE)),)
test vet staticcheck standalone %/.standalone stress: export GOEXPERIMENT := $(GOEXPERIMENT),$(PLAIN_MALLOC)
endif
FUZZTIME ?= 10s

# So many modules are tested at the same time; the tests mostly wait.
JOBS     ?= 7

# each runs the commands $(1) in every module by itself, without the workspace.
define each
@for module in $(MODULES); do \
	echo "== $$module"; \
	( export GOWORK=off; cd $$module && $(1) ) || exit 1; \
done
endef

.PHONY: help test server servers lint fmtcheck vet staticcheck portable nounsafe vulncheck apicheck api deps standalone fmt tidy histories mutants model stress fuzz bench bench-short bench-bars soak screenshot dashboard starvation release readme

help: ## say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

# One step after the other, also with make -j. Rather memory than time for the garbage
# collectors of compilers, linters and tests.
test: export GOGC ?= 400
test: ## everything that has to pass; installs a redis-server if it can
	@$(MAKE) --no-print-directory server
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory deps
	@$(MAKE) --no-print-directory standalone BESIDE="$(if $(RACE),histories mutants) vulncheck"
	@$(MAKE) --no-print-directory readme
	@if [ -z "$(RACE)" ]; then echo "THERE IS NO C COMPILER: tested WITHOUT the race detector."; fi
	@.ci/server report

server: ## see to a redis-server, or say what will not be tested
	@.ci/server ensure

# One module after the other, since some tests measure. SERVERS=valkey-server/sid runs that
# one alone, MODULES=drivers/goredis this module alone, TESTFLAGS=-run=Conformance these tests.
servers: ## the suites on other versions of Redis and Valkey (Debian; hours)
	@MODULES="$(if $(filter command line environment,$(origin MODULES)),$(MODULES))" .ci/servers test $(SERVERS)

lint: fmtcheck vet staticcheck portable nounsafe apicheck ## gofmt, vet, staticcheck, other systems, no unsafe, API

fmtcheck:
	@echo "== gofmt"
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then echo "make fmt would change: $$files"; exit 1; fi

# What has packages compiled in order to know their types, as vet does, has them compiled as the tests
# need them: so these find them in the build cache, if a module by itself has the same versions of what
# it requires as in the workspace.
COMPILING_AS_TESTED = go run -exec "env 'GOFLAGS=$(GOFLAGS) $(RACE)'"

# Also that all compiles in the workspace, tests included.
vet:
	@echo "== go vet"
	@go vet $(RACE) work

staticcheck:
	@echo "== staticcheck"
	@$(COMPILING_AS_TESTED) $(STATICCHECK) work

# What is meant to run there, and the package that starts the servers of tests. Examples,
# bench and the conformance suite have files for one system as well. Types are checked, and
# nothing is compiled: that would take minutes where nothing is cached.
portable:
	@echo "== types on macOS, Windows (32 bits) and FreeBSD"
	@go run ./internal/apicheck/portable windows/386,darwin/arm64,freebsd/amd64 ./locker/... ./cmd/lockctl
	@go run ./internal/apicheck/portable -test darwin/arm64 ./internal/servertest/...

apicheck: ## what is exported is documented, has examples, and is what api/ says
	@echo "== exported API"
	@$(COMPILING_AS_TESTED) ./internal/apicheck

api: ## write what is exported to api/
	@go run ./internal/apicheck -write

# Also in tests, and in files for other systems. C is no way around it.
nounsafe:
	@echo "== no unsafe"
	@found=$$(grep -rlE --include='*.go' '^(import )?[[:space:]]*([A-Za-z_.]+[[:space:]]+)?"(unsafe|C)"|^//go:linkname' . || true); \
	if [ -n "$$found" ]; then echo "no package may import unsafe or C, nor use linkname:"; echo "$$found"; exit 1; fi

# What the modules for users call, and so the applications that use them.
vulncheck: ## known vulnerabilities in what is called, if the database can be reached
	@echo "== known vulnerabilities"
	@$(NICER) .ci/vulncheck $(filter-out ./bench ./docs ./examples ./internal/%,$(MODULES))

# A dry run unless PUSH=1; docs/versioning.md.
release: ## make the release VERSION=v0.1.0 of all modules
	@test -n "$(VERSION)" || { echo "say which: make release VERSION=v0.1.0"; exit 2; }
	@go run ./internal/release $(if $(filter 1,$(PUSH)),-push) $(VERSION)

readme: server ## do what the README says, in a fresh clone, with a real server
	@echo "== the README's commands"
	@out=$$(.ci/readme 2>&1) && echo "$$out" | tail -n 1 || { echo "$$out"; exit 1; }

deps: ## the core imports the standard library only, the conformance suite no driver
	@echo "== dependencies"
	@cd locker && export GOWORK=off && self=$$(go list -m) && \
	found=$$(go list -deps -f '{{if not .Standard}}{{.ImportPath}}{{end}}' ./... | grep -v "^$$self\(/\|$$\)" || true) && \
	if [ -n "$$found" ]; then echo "the core must not import $$found"; exit 1; fi
	@cd conformance && export GOWORK=off && \
	found=$$(go list -deps ./... | grep golocker/drivers/ || true) && \
	if [ -n "$$found" ]; then echo "the conformance suite must not import $$found"; exit 1; fi

# The longest are begun first. What takes all processors for itself comes last, alone.
LONGEST := ./drivers/goredis ./internal/integration ./examples ./drivers/rueidis ./drivers/redigo ./conformance ./locker
GREEDY  := ./internal/robustness

# Where all processors are busy, those who wait for servers come first, since their leases run out
# meanwhile; then compilers; and then the PATIENT, whose tests know hardly any time but that of synctest.
NICE    := nice -n 5
NICER   := nice -n 19
PATIENT := ./locker ./internal/apicheck ./internal/release

# The full test run is this one: users get the modules without the workspace, in
# which a missing requirement would not be noticed.
# Whatever is in BESIDE is made at the same time, begun before the short ones. make lint has vetted all that is tested.
# Packages are built by go list, which compiles them as go build does, but links no programs, which nothing would run.
standalone: ## check go.mod of, build and test every module by itself
	@$(MAKE) --no-print-directory -k -j$(JOBS) $(if $(filter output-sync,$(.FEATURES)),-Otarget) \
		$(patsubst %,%/.standalone,$(filter $(MODULES),$(LONGEST))) $(BESIDE) \
		$(patsubst %,%/.standalone,$(filter-out $(LONGEST) $(GREEDY),$(MODULES)))
	@$(MAKE) --no-print-directory $(patsubst %,%/.standalone,$(filter $(MODULES),$(GREEDY)))

%/.standalone:
	@echo "== $*"
	@cd $* && export GOWORK=off && go mod tidy -diff && $(NICE) go list $(RACE) -export ./... >/dev/null && \
		$(if $(filter $*,$(PATIENT)),$(NICER)) go test -toolexec '$(NICE)' -vet=off $(RACE) -shuffle=on -timeout=20m ./...

# The tests in $(1) that name one of the functions $(2) themselves.
naming = $(or $(shell awk -F '[()]' '/^func |^}/ { test = "" } /^func Test/ { test = substr($$1, 6) } \
	test != "" && /[^A-Za-z]($(2))[^A-Za-z]/ { print test }' $(1)/*_test.go | sort -u | paste -s -d '|' -),$(error no test in $(1) names $(2)))

# The race detector makes these slow, and has little to find in them. Some are run without it only,
# and of the others more.
UNRACED := withoutRaceDetector|underRace|chaosSeeds|histories|rapid[.]Check|eachContended|eachOwed

histories: ## what the model foretells comes true in ten times as many histories, with four times the chaos, and for all kinds of locks
	@echo "== histories"
	@cd locker && GOWORK=off $(NICER) go test -vet=off -shuffle=on -run '^($(call naming,locker,$(UNRACED)))$$' .

mutants: ## the suites find every bug that is put into drivers and locks, and conform where they are unusual
	@echo "== mutants"
	@cd conformance && GOWORK=off $(NICER) go test -vet=off -shuffle=on -run '^($(call naming,conformance,withoutRaceDetector))$$' .
	@cd internal/robustness && GOWORK=off $(NICER) go test -vet=off -shuffle=on -run Seeded ./check

model: ## check the models of the queue and of fencing on a quorum (needs spin and a C compiler)
	@docs/models/run

fmt: ## format
	gofmt -w .

tidy: ## tidy every module's go.mod
	$(call each,go mod tidy)
	go work sync

stress: server ## every test 20 times
	$(call each,go test $(RACE) -shuffle=on -count=20 -timeout=2h ./...)

# What is broken, and with which seed: SOAKFLAGS='-faults=server-stop -seed=7'. The
# README of internal/robustness has them all.
SOAK      ?= 30m
SOAKFLAGS ?=

soak: server ## break servers, lines and processes under the locks for SOAK (30m)
	@cd internal/robustness && GOWORK=off go test -run '^TestSoak$$' -count=1 -timeout=0 -v . \
		-args -soak=$(SOAK) -report=report.txt $(SOAKFLAGS)

starvation: server ## lose 10000 leases while other processes want all processors
	@cd internal/robustness && GOWORK=off go test -run '^TestLostLeases' -count=1 -timeout=1h -v ./starvation \
		-args -leases=10000

fuzz: server ## every fuzz target for FUZZTIME (10s)
	@grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | while IFS=: read -r file func; do \
		echo "== $$file: $$func"; \
		( cd "$$(dirname "$$file")" && \
			GOWORK=off go test -run '^$$' -fuzz "^$${func#func }\$$" -fuzztime $(FUZZTIME) . ) || exit 1; \
	done

screenshot: ## the picture of the debug page in docs/images (needs Chromium)
	@.ci/screenshot docs/images/debug-page.png

dashboard: ## the picture of the dashboard there (needs Chromium, Prometheus and npm)
	@.ci/dashboard docs/images/dashboard.png

# So that somebody else's servers are not in the way: BENCHFLAGS='-port 27000'.
BENCHFLAGS ?=

# measure runs with the arguments $(2), and leaves samples, tables and bars in
# bench/results under the name $(1). If a scenario fails, what it has not measured is
# missing there, and so does make.
define measure
@mkdir -p bench/results
@cd bench && GOWORK=off go build -o results/bench .
@cd bench/results && rm -f $(1).jsonl && status=0; \
	./bench $(2) $(BENCHFLAGS) -o $(1).jsonl -table $(1).md || status=$$?; \
	./bench -bars $(1).jsonl -table $(1)-bars.md && exit $$status
endef

bench: server ## compare with other lock libraries, all of it (an hour, Linux)
	$(call measure,full)

# The cells of bench/internal/bars/list.go, and what they are compared with.
BARS := -scenario free,parallel,contend,procs,held,quorum,waiters \
	-only 'floor/*,golocker/*,redsync/*+failfast' \
	-match 'goroutines=1,goroutines=16,goroutines=128,goroutines=1024,procs=32,locks=100000,waiters=1000'

bench-bars: server ## only what golocker's own bars need (half an hour, Linux)
	$(call measure,bars,$(BARS))

bench-short: server ## a selection of the comparison (two minutes, Linux)
	$(call measure,short,-short)
