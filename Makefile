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
# What takes longest begins first, so that nothing runs on alone at the end.
LONGEST := ./driver ./cmd/internal/relaytest ./cmd/pi-chrome

.PHONY: help demo test check race faults load bench fuzz ext docs golden random quickrace needs chromium display node build laws install uninstall release reproducible vet-all packages

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: chromium build ## search, buy and picture in the bundled shop, through the extension
	$(BUILD)/pi-chrome demo

test: needs ## all tests: Go with a real browser, and the extension's own
	$(GOTEST) -timeout 37m $(LONGEST) ./...
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
	$(GOTEST) -race -timeout 80m $(LONGEST) ./...

quickrace: # the packages without a browser under the race detector
	$(GOTEST) -race -timeout 10m $(QUICK)

random: chromium ## every page case on the direct lane, roles and names of every page, and the long form of the random pages and of the faults on every call
	PI_CHROME_THOROUGH=1 go test ./driver -run 'TestCases|TestRoleAndNameAreChromes|TestRandomPages|TestFailNth$$|TestChangesAreExact|TestSnapshotsDoNotGrow' -parallel 6 -timeout 90m

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

docs: chromium build ## write docs/operations.md anew from the operations, and docs/demo.svg from a run of the demo
	$(BUILD)/pi-chrome operations --markdown >$(BUILD)/operations.md
	mv $(BUILD)/operations.md docs/operations.md
	@rm -rf $(BUILD)/demo
	$(BUILD)/pi-chrome demo --out $(BUILD)/demo --svg $(BUILD)/demo.svg
	mv $(BUILD)/demo.svg docs/demo.svg

golden: needs ## write the golden files anew and show what changed; proves nothing
	$(GOTEST) ./driver/... ./bridge/... ./cmd/... -update
	git diff --stat

build: # the one binary
	go build -o $(BUILD)/pi-chrome ./cmd/pi-chrome

# A release is a function of the commit and of Go's version: no path, no user
# and no clock gets in. Its stamp, the time of the commit, tells an owner which
# of two builds of one version is the newer.
TARGETS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
STAMP   ?= $(shell TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null)
RELEASE := CGO_ENABLED=0 GOFLAGS=-mod=readonly go build -trimpath -buildvcs=false \
	-ldflags "-s -w -buildid= -X $$(go list -m)/cmd/internal/owner.stamp=$(STAMP)"
SHA256  := $(shell command -v sha256sum >/dev/null && echo sha256sum || echo shasum -a 256)

PREFIX ?= $(HOME)/.local
DEST   := $(DESTDIR)$(PREFIX)
# Where the shells and man look below a prefix.
MAN  := $(DEST)/share/man/man1/pi-chrome.1
BASH := $(DEST)/share/bash-completion/completions/pi-chrome
ZSH  := $(DEST)/share/zsh/site-functions/_pi-chrome
FISH := $(DEST)/share/fish/vendor_completions.d/pi-chrome.fish

install: ## the program, its manual page and completions below PREFIX=~/.local
	@mkdir -p $(BUILD) $(DEST)/bin $(dir $(MAN) $(BASH) $(ZSH) $(FISH))
	$(RELEASE) -o $(BUILD)/release/pi-chrome ./cmd/pi-chrome
	install -m 755 $(BUILD)/release/pi-chrome $(DEST)/bin/pi-chrome
	@$(BUILD)/release/pi-chrome man >$(MAN)
	@$(BUILD)/release/pi-chrome completion bash >$(BASH)
	@$(BUILD)/release/pi-chrome completion zsh >$(ZSH)
	@$(BUILD)/release/pi-chrome completion fish >$(FISH)
	@case ":$$PATH:" in *":$(PREFIX)/bin:"*) ;; *) echo "$(PREFIX)/bin is not on your PATH: add it to use pi-chrome by name";; esac

uninstall: ## remove what install put below PREFIX; state and extension folder stay
	rm -f $(DEST)/bin/pi-chrome $(MAN) $(BASH) $(ZSH) $(FISH)

release: | node ## the program for six systems, the Pi package and their checksums, into dist/
	@[ -z "$$(git status --porcelain 2>/dev/null)" ] || echo "the tree has changes: this is not the commit of $(STAMP)" >&2
	@rm -rf dist && mkdir -p dist
	@for target in $(TARGETS); do \
		export GOOS=$${target%/*} GOARCH=$${target#*/}; \
		file=dist/pi-chrome-$$GOOS-$$GOARCH; [ $$GOOS != windows ] || file=$$file.exe; \
		echo "$$file"; $(RELEASE) -o $$file ./cmd/pi-chrome; \
	done
	@cd dist && npm pack --offline --silent ../bridge/pi
	@cd dist && $(SHA256) pi-chrome-* >SHA256SUMS && cat SHA256SUMS

# The second build takes nothing from the first: other folder, empty cache.
reproducible: ## build a release twice, in two folders, and compare them
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	for copy in one other/deeper; do \
		mkdir -p "$$dir/$$copy"; \
		git ls-files -z --cached --others --exclude-standard | tar -c --null -T - | tar -x -C "$$dir/$$copy"; \
	done; \
	(cd "$$dir/one" && $(RELEASE) -o ../first ./cmd/pi-chrome); \
	(cd "$$dir/other/deeper" && GOCACHE="$$dir/cache" $(RELEASE) -o ../../second ./cmd/pi-chrome); \
	cmp "$$dir/first" "$$dir/second"; \
	if grep -qa -e "$$dir" -e "$(CURDIR)" "$$dir/first"; then echo "the program names the folder that it was built in" >&2; exit 1; fi; \
	$(SHA256) <"$$dir/first" | sed 's/-$$/the same twice/'

vet-all: ## go vet, with the tests, for every system of a release
	@for target in $(TARGETS); do \
		echo "go vet for $$target"; \
		CGO_ENABLED=0 GOOS=$${target%/*} GOARCH=$${target#*/} go vet ./...; \
	done

needs: chromium display node $(PI) $(MCP) ## install what the tests use and this machine lacks

# Branded Chrome does not load an unpacked extension from the command line, so
# it does not count here.
chromium: ## install Debian's Chromium when there is no Chromium nor Chrome for Testing
	@[ -n "$${PI_CHROME_BROWSER:-}" ] || command -v chromium >/dev/null || command -v chromium-browser >/dev/null || \
		command -v google-chrome-for-testing >/dev/null || command -v chrome-for-testing >/dev/null || \
		$(MAKE) --no-print-directory packages PACKAGES="chromium fonts-dejavu-core"

# The tests start their own X server and window manager and end them.
display: # for the tests with windows
	@{ command -v Xvfb && command -v openbox && command -v xdotool && command -v xmessage; } >/dev/null || $(MAKE) --no-print-directory packages PACKAGES="xvfb openbox xdotool x11-utils"

node:
	@{ command -v node && command -v npm; } >/dev/null || $(MAKE) --no-print-directory packages PACKAGES="nodejs npm"

packages: # of Debian, by PACKAGES
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
