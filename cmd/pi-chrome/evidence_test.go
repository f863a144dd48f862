package main_test

import (
	"bytes"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"image/png"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
	"pi-chrome/cmd/internal/demo"
	"pi-chrome/cmd/internal/guide"
)

// provoked says which test provokes each error code for real: a file, and the
// function or table of cases in it, where it is no script. It names the code.
var provoked = map[string]string{
	"StaleActionRef":           "driver/pagecases/input_refs.go inputRefRefuses",
	"ActionVerbMismatch":       "driver/pagecases/find.go findRefsWork",
	"InvalidActionTarget":      "driver/pagecases/input_click.go clickRefuses",
	"ActionTargetNotFound":     "driver/pagecases/input_click.go clickRefuses",
	"ClickIntercepted":         "driver/pagecases/input_click.go clickRefuses",
	"StaleObservationRef":      "driver/read_test.go TestReadGoesStale",
	"StaleObservationFrontier": "driver/snapshot_test.go TestFrontierGoesStale",
	"StaleContentRef":          "driver/read_test.go TestReadGoesStale",
	"AmbiguousOwnedTarget":     "cmd/internal/relaytest/tabs_test.go groups",
	"AmbiguousTabTarget":       "bridge/target_test.go TestExplicitTarget",
	"TabNotFound":              "bridge/target_test.go TestExplicitTarget",
	"TabListFailed":            "bridge/target_test.go TestTabsThatCannotBeListed",
	"ProtectedTabURL":          "driver/pagecases/navigate.go navigateCases",
	"AutomationTargetRequired": "cmd/internal/relaytest/tabs_test.go activates",
	"AutomationTargetLimit":    "bridge/target_test.go TestLimitsOfOwnedTabs",
	"AllocationPending":        "bridge/target_test.go TestALostAnswerIsFoundAgainWithoutACrash",
	"AutomationOwnershipLost":  "bridge/target_test.go TestOwnershipAfterABrowserRestart",
	"ChromeWindowRequired":     "bridge/target_test.go TestNoWindowForANewTab",
	"InvalidAutomationState":   "bridge/target_test.go TestTwoTabsWithOneMarkAreNotUsed",
	"MissingSessionKey":        "bridge/session_mailbox_test.go TestAdmissionRefusals",
	"ConnectorBusy":            "bridge/session_mailbox_test.go TestAtMost64CommandsOfABrowser",
	"BrowserOperation":         "bridge/tab_test.go TestRefusedAttach",
	"NavigationFailed":         "driver/pagecases/navigate.go navigateCases",
	"NavigationDownload":       "driver/pagecases/navigate.go navigateCases",
	"NavigationInterrupted":    "driver/interrupted_test.go TestNavigateTakenOver",
	"DocumentChanged":          "driver/pagecases/evaluate.go evaluateCases",
	"HistoryUnavailable":       "driver/pagecases/history.go historyCases",
	"BackgroundMode":           "cmd/internal/relaytest/tabs_test.go activates",
	"AskPending":               "cmd/internal/relaytest/tabs_test.go asks",
	"DialogOpen":               "driver/pagecases/dialog.go dialogPolicyAnswers",
	"DebuggerBusy":             "bridge/tab_test.go TestDebuggerOfAnotherExtension",
	"DebuggerDetached":         "bridge/session_mailbox_test.go TestWhatAHandlersErrorMeans",
	"DebuggerQuarantined":      "bridge/lease_test.go TestQuarantine",
	"DebuggerCanceled":         "bridge/lease_test.go TestCancelOutlivesTheOwner",
	"RendererCrashed":          "driver/pagecases/crash.go crash",
	"TabGone":                  "bridge/chromium_test.go TestRealExtension",
	"TabChanged":               "cmd/internal/relaytest/claim_test.go claims",
	"AuthorizationChanged":     "bridge/session_authorize_test.go TestALockOvertakesAnAuthorization",
	"OriginDenied":             "cmd/internal/relaytest/policy_test.go policies",
	"PolicyDenied":             "bridge/policy_test.go TestVerbsAndPaceOfAPolicy",
	"RateLimited":              "bridge/policy_test.go TestVerbsAndPaceOfAPolicy",
	"TabHeld":                  "cmd/internal/relaytest/tabs_test.go conflicts",
	"EvaluationFailed":         "driver/pagecases/evaluate.go evaluateCases",
	"RequestNotFound":          "driver/pagecases/network.go networkCases",
	"CaptureLimit":             "driver/pagecases/screenshot.go screenshotCases",
	"KeyUnknown":               "driver/pagecases/input_press.go pressInput",
	"NotEditable":              "driver/pagecases/input_fill.go fillRefuses",
	"ValueRefused":             "driver/pagecases/input_fill.go fillRefuses",
	"TargetUnstable":           "driver/pagecases/input_click.go clickRefuses",
	"TargetInvisible":          "driver/pagecases/input_scroll.go scrollIntoView",
	"DeadlineExceeded":         "driver/pagecases/history.go historyCases",
	"Canceled":                 "bridge/client/client_test.go TestCanceledCallerReturnsAtOnce",
	"InvalidInput":             "bridge/session_mailbox_test.go TestAdmissionRefusals",
	"UnknownTool":              "bridge/client/client_test.go TestDialStartsAnOwnerOnce",
	"Unsupported":              "driver/pagecases/input_upload.go uploadChoosers",
	"SessionLocked":            "bridge/session_mailbox_test.go TestLockWinsEveryRace",
	"ConnectorNotBound":        "bridge/session_mailbox_test.go TestNoBrowserPaired",
	"ConnectorOffline":         "cmd/internal/relaytest/faults_test.go browserClosed",
	"WebLeaseUnavailable":      "bridge/web_test.go TestWebRoute",
	"BrowserRequired":          "bridge/session_mailbox_test.go TestBrowserChoice",
	"BridgeUnavailable":        "bridge/client/client_test.go TestNoOwnerAndNoWayToStartOne",
	"BridgeStopped":            "bridge/client/client_test.go TestOwnerKilledMidCommand",
	"BrowserNotFound":          "cmd/pi-chrome/testdata/script/sandbox_run.txtar",
	"PortTaken":                "bridge/client/client_test.go TestForeignListeners",
	"CredentialUnreadable":     "bridge/client/client_test.go TestUnreadableCredential",
	"StateUnreadable":          "bridge/client/client_test.go TestAnOwnerThatCannotStartSaysWhy",
	"VersionMismatch":          "bridge/client/client_test.go TestANewerProgramTakesOver",
	"CommandTimeout":           "bridge/session_mailbox_test.go TestDeadlines",
	"ResultTooLarge":           "bridge/journal_test.go TestALargeResultIsKeptAsDigest",
	"PairingUnavailable":       "bridge/pairing_test.go TestFolderTokenWithSeveralProfiles",
	"ScreenshotFailure":        "cmd/internal/artifact/artifact_test.go TestPublishTiles",
	"Internal":                 "bridge/target_test.go TestATargetIsNotResolvedAgain",
}

// failures are the failures of the bridge as the seeds name them, each with
// the code, kind or refusal that tells it here, and the test that provokes it.
var failures = map[string][2]string{
	"BridgeStopped":                 {"op.BridgeStopped", "bridge/client/client_test.go TestOwnerKilledMidCommand"},
	"BridgeUnavailable":             {"op.BridgeUnavailable", "bridge/client/client_test.go TestNoOwnerAndNoWayToStartOne"},
	"ConnectorNotBound":             {"op.ConnectorNotBound", "bridge/session_mailbox_test.go TestNoBrowserPaired"},
	"ConnectorOffline":              {"op.ConnectorOffline", "cmd/internal/relaytest/faults_test.go browserClosed"},
	"ConnectorBindingMismatch":      {"op.BrowserRequired", "bridge/session_mailbox_test.go TestBrowserChoice"},
	"ConnectorAlreadyBound":         {"wire.RefuseDuplicate", "cmd/internal/relaytest/refuse_test.go wrongProofs"},
	"CommandTimeout":                {"op.CommandTimeout", "bridge/session_mailbox_test.go TestDeadlines"},
	"CommandOutcomeUnknown":         {"op.OutcomeUnknown", "cmd/internal/relaytest/faults_test.go browserClosed"},
	"CommandRejected":               {"op.Rejected", "cmd/internal/relaytest/relay_test.go pageTests"},
	"ProtocolFailure":               {"wire.RefuseMalformed", "bridge/server_test.go TestOwnerHandshakeRefusals"},
	"BridgeBindFailed":              {"op.PortTaken", "bridge/server_test.go TestListenOnATakenPort"},
	"BridgeOwnerUnreachable":        {"op.PortTaken", "bridge/client/client_test.go TestForeignListeners"},
	"ConnectorAuthenticationFailed": {"wire.RefuseProof", "cmd/internal/relaytest/refuse_test.go wrongProofs"},
	"PairingUnavailable":            {"op.PairingUnavailable", "bridge/pairing_test.go TestFolderTokenWithSeveralProfiles"},
	"ScreenshotFailure":             {"op.ScreenshotFailure", "cmd/internal/artifact/artifact_test.go TestPublishTiles"},
	"WebConnectorLeaseUnavailable":  {"op.WebLeaseUnavailable", "bridge/web_test.go TestWebRoute"},
	"AuthorizationFailure":          {"op.SessionLocked", "bridge/session_mailbox_test.go TestLockWinsEveryRace"},
}

// body returns the text of a function or a table of cases, or of a script whole.
func body(t *testing.T, names []string, place string) string {
	t.Helper()
	name, fn, _ := strings.Cut(place, " ")
	if !slices.Contains(names, name) {
		t.Errorf("%s is not in the tree", name)
		return ""
	}
	text := string(read(t, name))
	if fn == "" {
		return text
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, 0)
	assert.NilError(t, err)
	for _, d := range file.Decls {
		found := false
		switch d := d.(type) {
		case *ast.FuncDecl:
			found = d.Name.Name == fn
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				v, ok := spec.(*ast.ValueSpec)
				found = found || ok && v.Names[0].Name == fn
			}
		}
		if found {
			return text[set.Position(d.Pos()).Offset:set.Position(d.End()).Offset]
		}
	}
	t.Errorf("%s declares no %s", name, fn)
	return ""
}

// errorCodes are the codes of driver/op by the names of their constants.
func errorCodes(t *testing.T) map[string]string {
	t.Helper()
	codes := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\t(\w+)\s+Code = "([^"]+)"`).FindAllStringSubmatch(string(read(t, "driver/op/codes.go")), -1) {
		codes[m[1]] = m[2]
	}
	assert.Assert(t, len(codes) > 60, "%d codes", len(codes))
	return codes
}

// TestRepoCodesAreProvoked holds that each error code has a test that brings it
// about. A new code needs a row.
func TestRepoCodesAreProvoked(t *testing.T) {
	names := tracked(t)
	codes := errorCodes(t)
	for name, code := range codes {
		place, ok := provoked[name]
		if !ok {
			t.Errorf("no test is named for the code %s: add a row for op.%s", code, name)
			continue
		}
		text := body(t, names, place)
		if !regexp.MustCompile(`\bop\.`+name+`\b`).MatchString(text) && !strings.Contains(text, code) {
			t.Errorf("%s does not name op.%s", place, name)
		}
	}
	for name := range provoked {
		if _, ok := codes[name]; !ok {
			t.Errorf("op.%s is no code any more", name)
		}
	}
	for failure, told := range failures {
		code := strings.TrimPrefix(told[0], "op.")
		if text := body(t, names, told[1]); codes[code] != "" && strings.Contains(text, codes[code]) {
			continue
		} else if !regexp.MustCompile(`\b` + regexp.QuoteMeta(told[0]) + `\b`).MatchString(text) {
			t.Errorf("%s: %s does not name %s", failure, told[1], told[0])
		}
	}
}

// TestRepoCodesAreExplained holds that docs/troubleshooting.md says of each
// code, and of nothing else, what it means, whether it had an effect and what
// to do; that it does not call harmless what the code tells as unknown; and
// that it explains each refusal of the extension.
func TestRepoCodesAreExplained(t *testing.T) {
	const document = "docs/troubleshooting.md"
	text := string(read(t, document))
	errorPart, refusalPart, ok := strings.Cut(text, "\n## When the extension is refused\n")
	assert.Assert(t, ok, "%s has no part about refusals", document)

	entries := map[string]string{}
	heads := regexp.MustCompile(`(?m)^### (.*)\n`).FindAllStringSubmatchIndex(errorPart, -1)
	for _, h := range heads {
		code := errorPart[h[2]:h[3]]
		entry, _, _ := strings.Cut(errorPart[h[1]:], "\n#")
		if entries[code] != "" {
			t.Errorf("%s has two entries for %s", document, code)
		}
		entries[code] = strings.Join(strings.Fields(entry), " ")
	}
	shape := regexp.MustCompile(`^\S.*[.!?)] \*\*Effect:\*\* \S.*[.] \*\*Do:\*\* \S.*[.]$`)
	known := map[string]bool{}
	unknown := toldAsUnknown(t)
	for name, code := range errorCodes(t) {
		known[code] = true
		switch entry := entries[code]; {
		case entry == "":
			t.Errorf("%s has no entry for %s", document, code)
		case !shape.MatchString(entry):
			t.Errorf("%s does not say of %s what it means, its **Effect:** and what to **Do:**", document, code)
		case unknown[name] != "" && !strings.Contains(entry, "outcome-unknown"):
			t.Errorf("%s tells %s as outcome-unknown; the entry of %s does not", unknown[name], code, document)
		}
	}
	for code := range entries {
		if !known[code] {
			t.Errorf("%s explains %s, which is no code", document, code)
		}
	}

	refusals := map[string]bool{}
	for _, code := range wire.RefusalCodes {
		refusals[string(code)] = true
	}
	_, table, _ := strings.Cut(string(read(t, "extension/popup_text.js")), "const refusals = {\n")
	table, _, _ = strings.Cut(table, "\n};")
	for _, m := range regexp.MustCompile(`(?m)^  "?([a-z-]+)"?: \{$`).FindAllStringSubmatch(table, -1) {
		refusals[m[1]] = true
	}
	assert.Assert(t, len(refusals) > len(wire.RefusalCodes), "the popup has no code of its own")
	explained := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*?`) \\| .+ \\| .+ \\|$").FindAllStringSubmatch(refusalPart, -1) {
		for code := range strings.SplitSeq(strings.ReplaceAll(row[1], "`", ""), ", ") {
			explained[code] = true
			if !refusals[code] {
				t.Errorf("%s explains the refusal %s, which there is not", document, code)
			}
		}
	}
	for code := range refusals {
		if !explained[code] {
			t.Errorf("%s does not explain the refusal %s", document, code)
		}
	}

	// What the program finds in the document is all of it.
	var found []string
	for _, trouble := range guide.Troubles() {
		found = append(found, trouble.Code)
	}
	all := slices.Sorted(maps.Keys(known))
	all = append(all, slices.Collect(maps.Keys(refusals))...)
	slices.Sort(all)
	assert.DeepEqual(t, found, slices.Compact(all))
}

// TestRepoPictureOfARun holds that the README shows docs/demo.svg, that this is
// a drawing of a whole run of the demo as it is now, with its picture, and that
// it stays small. make docs draws it.
func TestRepoPictureOfARun(t *testing.T) {
	const picture = "docs/demo.svg"
	assert.Assert(t, strings.Contains(string(read(t, "README.md")), "]("+picture+")"), "the README does not show %s", picture)
	drawn := read(t, picture)
	assert.Assert(t, len(drawn) < 300_000, "%s has %d bytes", picture, len(drawn))
	var text strings.Builder
	for dec := xml.NewDecoder(bytes.NewReader(drawn)); ; {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		assert.NilError(t, err, picture)
		if data, ok := token.(xml.CharData); ok {
			text.Write(data)
			text.WriteByte('\n')
		}
	}
	steps := regexp.MustCompile(`d\.begin\("([^"%\\]+)`).FindAllStringSubmatch(string(read(t, "cmd/internal/demo/demo.go")), -1)
	assert.Assert(t, len(steps) >= 7, "%d steps", len(steps))
	for _, step := range append(steps, []string{"", demo.PictureStep}, []string{"", " verified in "}) {
		assert.Assert(t, strings.Contains(text.String(), step[1]), "%s does not show %q: make docs draws it anew", picture, step[1])
	}
	encoded := regexp.MustCompile(`"data:image/png;base64,([^"]+)"`).FindSubmatch(drawn)
	assert.Assert(t, encoded != nil, "%s has no picture of the page", picture)
	raw, err := base64.StdEncoding.DecodeString(string(encoded[1]))
	assert.NilError(t, err)
	page, err := png.DecodeConfig(bytes.NewReader(raw))
	assert.NilError(t, err)
	assert.Assert(t, page.Width >= 800 && page.Height >= 400, "the picture of the page is %d × %d", page.Width, page.Height)
}

// toldAsUnknown are the codes that the program gives to errors with a possible
// effect, each with a place that does so.
func toldAsUnknown(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for dir, files := range sources(t) {
		for _, file := range files {
			if file.test || slices.Contains(support, dir) {
				continue
			}
			ast.Inspect(file.syntax, func(node ast.Node) bool {
				call, ok := node.(*ast.CallExpr)
				if !ok || len(call.Args) == 0 {
					return true
				}
				called, isSelector := call.Fun.(*ast.SelectorExpr)
				if !isSelector || !slices.Contains([]string{"Unknown", "unanswered"}, called.Sel.Name) {
					return true
				}
				if code, ok := call.Args[0].(*ast.SelectorExpr); ok {
					found[code.Sel.Name] = file.at(call.Pos())
				}
				return true
			})
		}
	}
	assert.Assert(t, len(found) > 10, "%d codes are told as outcome-unknown", len(found))
	return found
}

// TestRepoInvariantsAreNamed holds that each invariant of the design is named
// by a test that would fail without it: in the comment of its function.
func TestRepoInvariantsAreNamed(t *testing.T) {
	named := map[int][]string{}
	mark := regexp.MustCompile(`Invariants? ([0-9, and]+?) of the design`)
	note := func(where, text string) {
		for _, m := range mark.FindAllStringSubmatch(text, -1) {
			for _, n := range regexp.MustCompile(`\d+`).FindAllString(m[1], -1) {
				number, err := strconv.Atoi(n)
				assert.NilError(t, err)
				named[number] = append(named[number], where)
			}
		}
	}
	for dir, files := range sources(t) {
		for _, file := range files {
			if !file.test && dir != "driver/pagecases" {
				continue
			}
			for _, d := range file.syntax.Decls {
				if d, ok := d.(*ast.FuncDecl); ok && d.Doc != nil {
					note(fmt.Sprint(file.name, " ", d.Name.Name), d.Doc.Text())
				}
			}
		}
	}
	for _, name := range tracked(t) {
		if strings.HasPrefix(name, "extension/test/") && path.Ext(name) == ".js" {
			for _, m := range regexp.MustCompile(`(?m)^//(.*)\ntest\("(.*?)"`).FindAllStringSubmatch(string(read(t, name)), -1) {
				note(name+" "+m[2], m[1])
			}
		}
	}
	for n := 1; n <= 10; n++ {
		if len(named[n]) == 0 {
			t.Errorf("no test names invariant %d: say \"Invariant %d of the design.\" in its comment", n, n)
		}
		t.Logf("%d: %s", n, strings.Join(named[n], ", "))
	}
}
