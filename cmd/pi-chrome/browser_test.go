package main

import (
	"context"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	page "pi-chrome/cmd/internal/popup"
	"pi-chrome/driver/direct"
)

// browsers are the browsers that a script started, by name.
type browsers map[string]*direct.Browser

type browsersKey struct{}

func browsersOf(ts *testscript.TestScript) browsers {
	return ts.Value(browsersKey{}).(browsers)
}

type displayKey struct{}

// startDisplay gives the browsers that the script starts from now on windows, on
// a display of their own.
func startDisplay(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: display")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	d, err := direct.StartDisplay(ctx)
	ts.Check(err)
	ts.Defer(func() { ts.Check(d.Close()) })
	*ts.Value(displayKey{}).(**direct.Display) = d
}

// startBrowser starts a browser with the extension of a folder, as a person
// would have loaded it. It ends with the script, or with `endbrowser NAME`.
//
// Its profile is thrown away, or is the folder PROFILE, which stays.
//
//	browser NAME DIR [PROFILE]
func startBrowser(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: browser NAME DIR [PROFILE]")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	o := direct.Options{ExtensionDir: ts.MkAbs(args[1])}
	if len(args) == 3 {
		o.UserDataDir = ts.MkAbs(args[2])
	}
	if d := *ts.Value(displayKey{}).(**direct.Display); d != nil {
		o.Headful, o.Env = true, d.Env()
	}
	b, err := direct.Launch(ctx, &o)
	ts.Check(err)
	ts.Defer(func() { _ = b.Close() }) // the script may have ended it
	browsersOf(ts)[args[0]] = b
}

// endBrowser closes a browser as its user does, or kills it.
//
//	endbrowser NAME [killed]
func endBrowser(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: endbrowser NAME [killed]")
	}
	b := browsersOf(ts)[args[0]]
	if len(args) == 2 {
		p, err := os.FindProcess(b.PID())
		ts.Check(err)
		ts.Check(p.Kill())
	}
	ts.Check(b.Close())
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
	p, err := page.Open(ctx, browsersOf(ts)[args[0]])
	ts.Check(err)
	defer func() { _ = p.Close(ctx) }() // the browser may have ended
	if len(args) == 3 {
		ts.Check(p.Pair(ctx, args[2]))
	}
	_, err = p.Wait(ctx, re)
	ts.Check(err)
}

// usePopup opens the popup and does one thing in it: gives the profile another
// name, or presses a button by its id. It then waits until the text matches.
//
//	usepopup NAME rename LABEL REGEXP
//	usepopup NAME press BUTTON REGEXP
func usePopup(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: usepopup NAME rename|press WHAT REGEXP")
	}
	re, err := regexp.Compile(args[3])
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	p, err := page.Open(ctx, browsersOf(ts)[args[0]])
	ts.Check(err)
	defer func() { _ = p.Close(ctx) }() // the browser may have ended
	// Its buttons are there once it shows a state.
	_, err = p.Wait(ctx, regexp.MustCompile(`Profile\s+[0-9a-f]{8}`))
	ts.Check(err)
	if args[1] == "rename" {
		ts.Check(p.Rename(ctx, args[2]))
	} else {
		ts.Check(p.Press(ctx, args[2]))
	}
	_, err = p.Wait(ctx, re)
	ts.Check(err)
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
