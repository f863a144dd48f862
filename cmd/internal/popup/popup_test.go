package popup

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
)

var pictures = flag.String("pictures", "", "a folder for the pictures of the popup")

// act is one picture of the popup.
type act struct {
	name  string
	scene scene
	setup func(ctx context.Context, p *Popup) // before it is looked at; nil for nothing
	says  string                              // what the popup must say, an expression
}

// TestPopup opens the popup in a real browser in every state that it has, light
// and dark. In each it says what it must, everything has a name for those who do
// not see it, every control is reached by the keyboard, nothing is cut off or
// hard to read, and the console stays empty. With -args -pictures DIR the
// pictures are kept, for eyes.
func TestPopup(t *testing.T) {
	s := startStage(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*patience)
	defer cancel()
	b, folder := s.browser(ctx)
	p, err := Open(ctx, b)
	assert.NilError(t, err)
	identity := func(secret string) {
		eval(t, ctx, p, fmt.Sprintf(`chrome.storage.local.set({piChromeConnectorIdentity: {connectorId: %q, secret: %q}, piChromeLabel: "Work"})`, connectorID, secret))
	}
	connect := func(ctx context.Context, p *Popup) { eval(t, ctx, p, `chrome.runtime.sendMessage({do: "connect"})`) }
	refused := func(code wire.RefusalCode, says string) act {
		return act{name: "refused-" + string(code), scene: scene{refuse: code}, says: says}
	}
	acts := []act{
		{name: "unpaired", scene: scene{away: true}, says: "Pair this profile", setup: func(ctx context.Context, p *Popup) { identity("") }},
		{name: "pairing", scene: scene{}, says: "Offered to pi-chrome", setup: func(ctx context.Context, p *Popup) {
			eval(t, ctx, p, fmt.Sprintf(`chrome.runtime.sendMessage({do: "pair", token: %q})`, token))
		}},
		{name: "wrong-token", scene: scene{stranger: true}, says: "That token does not fit", setup: func(ctx context.Context, p *Popup) {
			eval(t, ctx, p, fmt.Sprintf(`chrome.runtime.sendMessage({do: "pair", token: %q})`, token))
		}},
		{name: "offline", scene: scene{away: true}, says: "Waiting for pi-chrome", setup: func(ctx context.Context, p *Popup) {
			identity(s.secret)
			connect(ctx, p)
		}},
		{name: "zero", scene: scene{told: "zero"}, says: "No session works in this profile"},
		{name: "one", scene: scene{told: "one"}, says: "(?s)Find a flight.*Take over"},
		{name: "many", scene: scene{told: "many"}, says: "(?s)Working.*You have it.*Hand back.*run-01.*Last commands"},
		{name: "stopped", scene: scene{told: "stopped"}, says: "(?s)Everything is stopped.*Stopped"},
		{name: "canceled", scene: scene{told: "canceled"}, says: "You canceled the debugging"},
		{name: "error", scene: scene{told: "error"}, says: "The audit log cannot be written"},
		{name: "ending", scene: scene{told: "ending"}, says: "pi-chrome is ending"},
		{name: "asked", scene: scene{told: "one"}, says: "(?s)Enter the code.*Take over", setup: func(ctx context.Context, p *Popup) {
			eval(t, ctx, p, `chrome.storage.session.set({ask: {id: "1", text: "Enter the code from your phone on the page of the bank."}})`)
		}},
		{name: "not-done", scene: scene{told: "many", fault: &wire.Failure{Kind: "rejected", Code: "tab-not-found", Message: "no session has the tab 11 any more; nothing was done"}},
			says: "No session has the tab 11", setup: func(ctx context.Context, p *Popup) {
				eval(t, ctx, p, `chrome.storage.session.remove("ask")`)
				wait(t, ctx, p, "Hand back")
				assert.NilError(t, p.Press(ctx, "hand-11"))
			}},
		{name: "waiting", scene: scene{told: "waiting"}, says: "Waiting for the extension", setup: func(ctx context.Context, p *Popup) {
			wait(t, ctx, p, "No session works")
			s.mu.Lock()
			s.now.away = true
			s.mu.Unlock()
			s.drop("connector")
		}},
		refused(wire.RefuseVersion, "The releases do not match"),
		refused(wire.RefuseFingerprint, "different contracts"),
		refused(wire.RefuseUnknown, "does not know this profile"),
		refused(wire.RefuseProof, "no longer valid"),
		refused(wire.RefuseDuplicate, "This profile is a copy"),
		refused(wire.RefuseNoPairing, "No pairing is under way"),
		refused(wire.RefuseTokenOld, "The token has expired"),
		refused(wire.RefuseTokenUsed, "The token was used already"),
		refused(wire.RefuseAmbiguous, "Several profiles want to be paired"),
		refused(wire.RefuseShutDown, "It is shutting down"),
		{name: "stranger", scene: scene{stranger: true}, says: "Something else holds the port"},
		{name: "extension", scene: scene{told: "zero"}, says: "The extension has a problem", setup: func(ctx context.Context, p *Popup) {
			s.config(folder, "{")
			connect(ctx, p)
		}},
	}
	// A tab that is not seen has no picture.
	assert.NilError(t, p.Page.Activate(ctx))
	said := listen(t, ctx, p)
	_, err = cdp.Call(ctx, p.Page, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 360, Height: 600, DeviceScaleFactor: 1})
	assert.NilError(t, err)
	for i, a := range acts {
		t.Run(a.name, func(t *testing.T) {
			s.set(a.scene)
			if i > 3 && a.name != "extension" {
				connect(ctx, p)
			}
			if a.setup != nil {
				a.setup(ctx, p)
			}
			wait(t, ctx, p, a.says)
			if a.name == "unpaired" {
				assert.Equal(t, string(eval(t, ctx, p, "document.activeElement.id")), `"token"`, "who opens it to pair has the token at hand")
			}
			for _, scheme := range []string{"light", "dark"} {
				params := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
				_, err := cdp.Call(ctx, p.Page, emulation.SetEmulatedMedia, params)
				assert.NilError(t, err)
				picture(t, ctx, p, a.name+"-"+scheme)
				assert.Check(t, look(t, ctx, p) == "", "%s:\n%s", scheme, look(t, ctx, p))
			}
			named(t, ctx, p)
			reached(t, ctx, p)
			assert.Equal(t, strings.Join(said(), "\n"), "", "the console")
		})
	}
}

func wait(t *testing.T, ctx context.Context, p *Popup, says string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := p.Wait(ctx, regexp.MustCompile(says))
	assert.NilError(t, err)
}

// eval evaluates an expression in the popup and returns its value.
func eval(t *testing.T, ctx context.Context, p *Popup, expression string) jsonv2.Value {
	t.Helper()
	yes := true
	res, err := cdp.Call(ctx, p.Page, runtime.Evaluate, runtime.EvaluateParams{Expression: expression, AwaitPromise: &yes, ReturnByValue: &yes})
	assert.NilError(t, err)
	assert.Assert(t, res.ExceptionDetails == nil, "%s: %+v", expression, res.ExceptionDetails)
	return res.Result.Value
}

func look(t *testing.T, ctx context.Context, p *Popup) string {
	t.Helper()
	script, err := os.ReadFile("testdata/look.js")
	assert.NilError(t, err)
	var faults string
	assert.NilError(t, jsonv2.Unmarshal(eval(t, ctx, p, "("+string(script)+")()"), &faults))
	return faults
}

// listen returns what gives all that the console and Chrome's log were told.
func listen(t *testing.T, ctx context.Context, p *Popup) func() []string {
	t.Helper()
	for _, method := range []string{"Runtime.enable", "Log.enable"} {
		assert.NilError(t, p.Page.Call(ctx, method, struct{}{}, &struct{}{}))
	}
	console, stop1 := p.Page.Subscribe(runtime.ConsoleAPICalled.Method)
	thrown, stop2 := p.Page.Subscribe(runtime.ExceptionThrown.Method)
	entries, stop3 := p.Page.Subscribe(log.EntryAdded.Method)
	t.Cleanup(func() { stop1(); stop2(); stop3() })
	return func() []string {
		var all []string
		for {
			select {
			case raw := <-console:
				all = append(all, string(raw))
			case raw := <-thrown:
				all = append(all, string(raw))
			case raw := <-entries:
				all = append(all, string(raw))
			default:
				return all
			}
		}
	}
}

// picture pictures the whole popup and keeps it where that is wanted.
func picture(t *testing.T, ctx context.Context, p *Popup, name string) {
	t.Helper()
	var height float64
	assert.NilError(t, jsonv2.Unmarshal(eval(t, ctx, p, "document.documentElement.offsetHeight"), &height))
	beyond := true
	res, err := cdp.Call(ctx, p.Page, page.CaptureScreenshot, page.CaptureScreenshotParams{
		Clip: &page.Viewport{Width: 360, Height: height, Scale: 2}, CaptureBeyondViewport: &beyond})
	assert.NilError(t, err)
	if *pictures == "" {
		return
	}
	assert.NilError(t, os.MkdirAll(*pictures, 0o700))
	assert.NilError(t, os.WriteFile(filepath.Join(*pictures, name+".png"), res.Data, 0o600))
}

// unnamed are the roles that need no name: they only hold others, or are text.
var unnamed = []string{"RootWebArea", "StaticText", "InlineTextBox", "generic", "paragraph", "listitem", "ListMarker", "banner", "main", "contentinfo",
	"DescriptionList", "DescriptionListTerm", "DescriptionListDetails", "term", "definition", "code", "LabelText", "none", "status", "time", "form", "image"}

// named checks that everything in the accessibility tree that is to be used or
// to be found has a name of its own.
func named(t *testing.T, ctx context.Context, p *Popup) {
	t.Helper()
	res, err := cdp.Call(ctx, p.Page, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	assert.NilError(t, err)
	text := func(v *accessibility.Value) string {
		var s string
		if v != nil && len(v.Value) > 0 {
			_ = jsonv2.Unmarshal(v.Value, &s) // a value of another type is no name
		}
		return strings.TrimSpace(s)
	}
	seen := map[string]int{}
	for _, n := range res.Nodes {
		role, name := text(n.Role), text(n.Name)
		if n.Ignored || slices.Contains(unnamed, role) {
			continue
		}
		seen[role]++
		assert.Check(t, name != "", "a %s has no name", role)
		if role == "button" || role == "textbox" {
			seen[role+" "+name]++
			assert.Check(t, seen[role+" "+name] == 1, "two %ss are called %q", role, name)
		}
	}
	assert.Assert(t, seen["heading"] > 0 && seen["textbox"] > 0, "%v", seen)
}

// reached goes round the popup with the Tab key, twice, and checks that every
// control that may be used gets the focus.
func reached(t *testing.T, ctx context.Context, p *Popup) {
	t.Helper()
	const usable = `[...document.querySelectorAll("button, input")].filter((e) => e.checkVisibility() && !e.disabled)`
	var names []string
	assert.NilError(t, jsonv2.Unmarshal(eval(t, ctx, p, usable+`.map((e) => e.ariaLabel ?? e.id)`), &names))
	missed := slices.Clone(names)
	for range 2*len(names) + 2 {
		for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} {
			_, err := cdp.Call(ctx, p.Page, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: kind, Key: "Tab", Code: "Tab", WindowsVirtualKeyCode: 9})
			assert.NilError(t, err)
		}
		var at string
		assert.NilError(t, jsonv2.Unmarshal(eval(t, ctx, p, `document.activeElement.ariaLabel ?? document.activeElement.id`), &at))
		missed = slices.DeleteFunc(missed, func(name string) bool { return name == at })
		if len(missed) == 0 {
			break
		}
	}
	assert.Check(t, len(names) > 0 && len(missed) == 0, "the Tab key does not reach %v", missed)
}
