SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

# Pinned tools. They are used by version and are no part of go.mod.
STATICCHECK  := honnef.co/go/tools/cmd/staticcheck@v0.8.2
TYPESCRIPT   := typescript@7.0.2
CHROME_TYPES := @types/chrome@0.3.7
# The real Pi, for the tests of its package: the newest one for the Node that
# Debian has, and the newest of all with a Node of its own.
PI_NODE20    := @earendil-works/pi-coding-agent@0.74.2
PI_LATEST    := @earendil-works/pi-coding-agent@1.6.0 node@24.20.0
# Clients of the MCP server, for its tests. The inspector needs a newer Node
# than Debian has, and takes that of the newest Pi.
MCP_CLIENTS  := @modelcontextprotocol/sdk@1.32.2 @modelcontextprotocol/inspector@2.12.0

BUILD := .build
TSC   := $(BUILD)/node/node_modules/.bin/tsc
NPM   := npm install --silent --no-audit --no-fund --no-package-lock --no-save --prefix
PI    := $(BUILD)/pi-node20/node_modules/.bin/pi $(BUILD)/pi-latest/node_modules/.bin/pi
MCP   := $(BUILD)/mcp/node_modules/.bin/mcp-inspector
SUDO  := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
# Headless browsers share the machine with each other: more packages at once
# make the time limits of the tests mean less.
GOTEST := go test -p 2

.PHONY: help demo test check race faults load bench fuzz ext docs golden random quickrace needs chromium display node build laws

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: chromium build ## search, buy and picture in the bundled shop, through the extension
	$(BUILD)/pi-chrome demo

test: needs ## all tests: Go with a real browser, and the extension's own
	$(GOTEST) -timeout 14m ./...
	node --test extension/test/*.test.js

check: ext ## formatting, vet, staticcheck, types of the JavaScript, laws of the repository
	@files="$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go'))"; \
	if [ -n "$$files" ]; then echo "gofmt would change:"; echo "$$files"; exit 1; fi
	go vet ./...
	go run $(STATICCHECK) ./...
	$(MAKE) --no-print-directory laws

laws: # imports, sizes, links and the like; the test behind it says which
	go test -count=1 -run '^TestRepo' ./cmd/pi-chrome

# The packages without a browser, whose time does not depend on one.
QUICK := ./cdpmodel/... ./driver/op ./bridge/wire ./bridge/client ./cmd/internal/artifact ./cmd/internal/cli ./cmd/internal/install ./cmd/internal/owner ./extension ./fixtures

race: needs ## all Go tests under the race detector
	$(GOTEST) -race -timeout 40m ./...

quickrace: # the packages without a browser under the race detector
	$(GOTEST) -race -timeout 10m $(QUICK)

random: chromium ## the long form of the random pages and of the faults on every call
	PI_CHROME_THOROUGH=1 go test ./driver -run 'TestRandomPages|TestFailNth$$|TestChangesAreExact|TestSnapshotsDoNotGrow' -parallel 6 -timeout 90m

SEED ?= 1
RUNS ?= 1
faults: chromium ## break worker, sockets, browsers, owner and disk under 2,000 commands; SEED=n RUNS=k
	@mkdir -p $(BUILD)
	go test ./cmd/internal/faults -run '^TestFaultCampaign$$' -count 1 -timeout 120m -v -args \
		-faults.seed $(SEED) -faults.runs $(RUNS) -faults.commands 2000 -faults.report $(CURDIR)/$(BUILD)/faults.md

MINUTES ?= 10
load: chromium ## 32 sessions with 4 tabs each for MINUTES=10, 10,000 programs that come and go, 1,000 workers that start again
	go test ./cmd/internal/faults -run '^TestTwoProfiles$$/^load$$' -count 1 -timeout 120m -v -args \
		-load.sessions 32 -load.tabs 4 -load.time $(MINUTES)m -load.connects 10000 -load.restarts 1000

bench: chromium ## the numbers: relay, snapshot, capture, click, status
	go test -run '^$$' -bench . -benchmem -timeout 20m ./cmd/... ./driver/... ./bridge/... ./cdpmodel/...

fuzz: ## every fuzz target for ten seconds
	@go test -list '^Fuzz' ./... | awk '/^Fuzz/ { names[n++] = $$1 } /^ok/ { for (i = 0; i < n; i++) print $$2, names[i]; n = 0 }' | \
	while read -r package name; do \
		echo "$$package $$name"; \
		go test -run '^$$' -fuzz "^$$name\$$" -fuzztime 10s -fuzzminimizetime 1s "$$package" </dev/null || exit 1; \
	done

# A page script is one function expression, which is no program by itself: it
# is read in brackets. The brackets add no line, so that places stay right.
ext: $(TSC) $(PI) ## types of the extension and the Pi package, syntax of the page scripts
	$(TSC) --project extension/tsconfig.json --typeRoots $(BUILD)/node/node_modules/@types
	$(TSC) --project bridge/pi/tsconfig.json
	@rm -rf $(BUILD)/js && mkdir -p $(BUILD)/js
	@for file in driver/js/*.js; do { printf '('; cat "$$file"; echo ')'; } >"$(BUILD)/js/$${file##*/}"; done
	$(TSC) --noEmit --allowJs --noCheck --target es2024 --lib esnext,dom --types "" $(BUILD)/js/*.js

docs: ## write docs/operations.md anew from the operations
	@mkdir -p $(BUILD)
	go run ./cmd/pi-chrome operations --markdown >$(BUILD)/operations.md
	mv $(BUILD)/operations.md docs/operations.md

golden: needs ## write the golden files anew and show what changed; proves nothing
	$(GOTEST) ./driver/... ./bridge/... ./cmd/... -update
	git diff --stat

build: # the one binary
	go build -o $(BUILD)/pi-chrome ./cmd/pi-chrome

needs: chromium display node $(PI) $(MCP) ## install what the tests use and this machine lacks

# Branded Chrome does not load an unpacked extension from the command line, so
# it does not count here.
chromium: ## install Debian's Chromium when there is no Chromium nor Chrome for Testing
	@[ -n "$${PI_CHROME_BROWSER:-}" ] || command -v chromium >/dev/null || command -v chromium-browser >/dev/null || \
		$(MAKE) --no-print-directory install PACKAGES="chromium fonts-dejavu-core"

# The tests start their own X server and window manager and end them.
display: # for the tests with windows
	@{ command -v Xvfb && command -v openbox && command -v xdotool && command -v xmessage; } >/dev/null || $(MAKE) --no-print-directory install PACKAGES="xvfb openbox xdotool x11-utils"

node:
	@{ command -v node && command -v npm; } >/dev/null || $(MAKE) --no-print-directory install PACKAGES="nodejs npm"

.PHONY: install
install:
	@command -v apt-get >/dev/null || { echo "missing: $(PACKAGES); install them and try again" >&2; exit 1; }
	$(SUDO) apt-get update -qq </dev/null
	$(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(PACKAGES) </dev/null

$(TSC): Makefile | node
	$(NPM) $(BUILD)/node $(TYPESCRIPT) $(CHROME_TYPES)
	@touch $@

$(MCP): Makefile | node
	$(NPM) $(BUILD)/mcp $(MCP_CLIENTS)
	@touch $@

$(BUILD)/pi-node20/node_modules/.bin/pi: Makefile | node
	$(NPM) $(BUILD)/pi-node20 $(PI_NODE20)
	@touch $@

$(BUILD)/pi-latest/node_modules/.bin/pi: Makefile | node
	$(NPM) $(BUILD)/pi-latest $(PI_LATEST)
	@touch $@
