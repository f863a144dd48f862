// Package popup uses the extension's popup as a person does: it opens the page
// in a tab of a throw-away browser, reads what it says, types a token and
// presses its buttons. Smoke and the tests use it.
package popup

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"

	"pi-chrome/driver/direct"
	"pi-chrome/extension"
)

// every is how often the page is read while something is waited for.
const every = 20 * time.Millisecond

// Popup is an open popup page. Close closes its tab.
type Popup struct{ Page *direct.Page }

// Open opens the popup in a hidden tab.
func Open(ctx context.Context, b *direct.Browser) (*Popup, error) {
	p, err := b.NewPage(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("opening the popup: %w", err)
	}
	res, err := cdp.Call(ctx, p, page.Navigate, page.NavigateParams{URL: "chrome-extension://" + extension.ID + "/popup.html"})
	if err == nil && res.ErrorText != "" {
		err = errors.New(res.ErrorText)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the popup: %w", err), p.Close(ctx))
	}
	return &Popup{Page: p}, nil
}

// Close closes the popup's tab and waits until it is gone.
func (p *Popup) Close(ctx context.Context) error {
	id := string(p.Page.Key().TargetID)
	if err := p.Page.Close(ctx); err != nil {
		return fmt.Errorf("closing the popup: %w", err)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		list, err := p.Page.Browser().Targets(ctx)
		if err != nil {
			return fmt.Errorf("closing the popup: %w", err)
		}
		if !slices.ContainsFunc(list, func(t *target.Info) bool { return string(t.TargetID) == id }) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.New("the popup's tab did not close")
		}
	}
}

// Text is what the popup shows now.
func (p *Popup) Text(ctx context.Context) (string, error) {
	yes := true
	res, err := cdp.Call(ctx, p.Page, runtime.Evaluate, runtime.EvaluateParams{Expression: "document.body ? document.body.innerText : ''", ReturnByValue: &yes})
	if err != nil {
		return "", fmt.Errorf("reading the popup: %w", err)
	}
	var text string
	if res.ExceptionDetails == nil {
		err = jsonv2.Unmarshal(res.Result.Value, &text)
	}
	// Names are shown with hyphens that do not break.
	return strings.ReplaceAll(text, "\u2011", "-"), err
}

// Wait waits until the popup's text matches, and returns the text.
func (p *Popup) Wait(ctx context.Context, want *regexp.Regexp) (string, error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var text string
	var readErr error
	for {
		var now string
		// A page that is being loaded has no text yet.
		if now, readErr = p.Text(ctx); readErr == nil {
			text = now
			if want.MatchString(text) {
				return text, nil
			}
		}
		select {
		case <-tick.C:
		case <-p.Page.Browser().Done():
			return text, errors.New("the browser ended while its popup was read")
		case <-ctx.Done():
			if readErr != nil && ctx.Err() == nil {
				return text, readErr
			}
			return text, fmt.Errorf("the popup does not say %q but:\n%s", want, text)
		}
	}
}

// Pair waits until the popup asks for a token, types it and presses Enter.
func (p *Popup) Pair(ctx context.Context, token string) error {
	if _, err := p.Wait(ctx, regexp.MustCompile("One-time token")); err != nil {
		return err
	}
	if err := p.focus(ctx, "#token"); err != nil {
		return err
	}
	if _, err := cdp.Call(ctx, p.Page, input.InsertText, input.InsertTextParams{Text: token}); err != nil {
		return fmt.Errorf("typing the token: %w", err)
	}
	return p.enter(ctx)
}

// Press presses the button with the id, such as "retry".
func (p *Popup) Press(ctx context.Context, id string) error {
	if err := p.focus(ctx, "#"+id); err != nil {
		return err
	}
	return p.enter(ctx)
}

// Rename gives the profile another label.
func (p *Popup) Rename(ctx context.Context, label string) error {
	if err := p.focus(ctx, "#label"); err != nil {
		return err
	}
	all := input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Key: "a", Commands: []string{"selectAll"}}
	if _, err := cdp.Call(ctx, p.Page, input.DispatchKeyEvent, all); err != nil {
		return fmt.Errorf("choosing the old label: %w", err)
	}
	if _, err := cdp.Call(ctx, p.Page, input.InsertText, input.InsertTextParams{Text: label}); err != nil {
		return fmt.Errorf("typing the label: %w", err)
	}
	return p.enter(ctx)
}

//go:embed focus.js
var focusJS string

// focus gives an element the focus. It is found and focused in one step: the
// popup makes its rows anew when it hears something.
func (p *Popup) focus(ctx context.Context, selector string) error {
	yes := true
	res, err := cdp.Call(ctx, p.Page, runtime.Evaluate, runtime.EvaluateParams{ReturnByValue: &yes,
		Expression: fmt.Sprintf("(%s)(%q)", focusJS, selector)})
	if err != nil {
		return fmt.Errorf("finding %s in the popup: %w", selector, err)
	}
	if string(res.Result.Value) != "true" {
		return fmt.Errorf("%s of the popup cannot have the focus", selector)
	}
	return nil
}

func (p *Popup) enter(ctx context.Context) error {
	for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} {
		key := input.DispatchKeyEventParams{Type: kind, Key: "Enter", Code: "Enter", Text: "\r", WindowsVirtualKeyCode: 13}
		if _, err := cdp.Call(ctx, p.Page, input.DispatchKeyEvent, key); err != nil {
			return fmt.Errorf("pressing Enter in the popup: %w", err)
		}
	}
	return nil
}
