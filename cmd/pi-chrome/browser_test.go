package main

import (
	"context"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/rogpeppe/go-internal/testscript"

	"pi-chrome/driver/direct"
	"pi-chrome/extension"
)

// browsers are the browsers that a script started, by name.
type browsers map[string]*direct.Browser

type browsersKey struct{}

func browsersOf(ts *testscript.TestScript) browsers {
	return ts.Value(browsersKey{}).(browsers)
}

// startBrowser starts a browser with the extension of a folder, as a person
// would have loaded it. It ends with the script, or with `endbrowser NAME`.
//
//	browser NAME DIR
func startBrowser(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: browser NAME DIR")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	b, err := direct.Launch(ctx, &direct.Options{ExtensionDir: ts.MkAbs(args[1])})
	ts.Check(err)
	ts.Defer(func() { _ = b.Close() }) // the script may have ended it
	browsersOf(ts)[args[0]] = b
}

func endBrowser(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: endbrowser NAME")
	}
	ts.Check(browsersOf(ts)[args[0]].Close())
}

// popup opens the extension's popup in the browser and waits until its text
// matches; with a token it is typed there first, as a person would.
//
//	popup NAME REGEXP [TOKEN]
func popup(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: popup NAME REGEXP [TOKEN]")
	}
	re, err := regexp.Compile(args[1])
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	p, err := browsersOf(ts)[args[0]].NewPage(ctx, nil)
	ts.Check(err)
	defer func() { _ = p.Close(ctx) }() // the browser may have ended
	_, err = cdp.Call(ctx, p, page.Navigate, page.NavigateParams{URL: "chrome-extension://" + extension.ID + "/popup.html"})
	ts.Check(err)
	if len(args) == 3 {
		waitPopup(ctx, ts, p, regexp.MustCompile("One-time token"))
		typeToken(ctx, ts, p, args[2])
	}
	waitPopup(ctx, ts, p, re)
}

func typeToken(ctx context.Context, ts *testscript.TestScript, p *direct.Page, token string) {
	doc, err := cdp.Call(ctx, p, dom.GetDocument, dom.GetDocumentParams{})
	ts.Check(err)
	field, err := cdp.Call(ctx, p, dom.QuerySelector, dom.QuerySelectorParams{NodeID: doc.Root.NodeID, Selector: "#token"})
	ts.Check(err)
	_, err = cdp.Call(ctx, p, dom.Focus, dom.FocusParams{NodeID: field.NodeID})
	ts.Check(err)
	_, err = cdp.Call(ctx, p, input.InsertText, input.InsertTextParams{Text: token})
	ts.Check(err)
	for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} {
		_, err = cdp.Call(ctx, p, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: kind, Key: "Enter", Code: "Enter", Text: "\r", WindowsVirtualKeyCode: 13})
		ts.Check(err)
	}
}

func waitPopup(ctx context.Context, ts *testscript.TestScript, p *direct.Page, re *regexp.Regexp) {
	text := ""
	for !re.MatchString(text) {
		if ctx.Err() != nil {
			ts.Fatalf("the popup does not say %q:\n%s", re, text)
		}
		r, err := cdp.Call(ctx, p, runtime.Evaluate, runtime.EvaluateParams{Expression: "document.body.innerText", ReturnByValue: new(true)})
		if err == nil && r.Result != nil {
			text = strings.ReplaceAll(string(r.Result.Value), "\u2011", "-")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// waitMatch waits until a file that another program writes matches, and puts
// the match, without spaces, into a variable.
//
//	waitmatch NAME FILE REGEXP
func waitMatch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: waitmatch NAME FILE REGEXP")
	}
	re, err := regexp.Compile(args[2])
	ts.Check(err)
	deadline := time.Now().Add(20 * time.Second)
	for {
		// The file may not be there yet.
		data, _ := os.ReadFile(ts.MkAbs(args[1]))
		if m := re.Find(data); m != nil {
			ts.Setenv(args[0], strings.ReplaceAll(string(m), " ", ""))
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s does not match %q:\n%s", args[1], re, data)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
