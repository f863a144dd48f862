package driver

import (
	"context"
	"errors"
	"strings"

	"pi-chrome/driver/op"
)

// chromeErrors maps what Chrome says to a code. The texts are Chrome's own
// and change between releases, so each is matched by a part of it.
var chromeErrors = []struct {
	part string
	code op.Code
	hint string
}{
	{"Another debugger is already attached", op.DebuggerBusy, "another extension debugs this tab; close its panel or use another tab"},
	{"Cannot access a chrome:// URL", op.ProtectedTabURL, "Chrome's own pages cannot be driven; navigate to a web page"},
	{"Cannot access a chrome-extension:// URL of different extension", op.DebuggerBusy, coveredHint},
	{"Cannot attach to this target", op.ProtectedTabURL, "this page cannot be driven"},
	{"Cannot access contents of", op.ProtectedTabURL, "a policy keeps extensions away from this page"},
	{"Host access is restricted by policy", op.ProtectedTabURL, "the browser's policy keeps debuggers away from its hosts; ask its administrator"},
	{"Debugger is not attached", op.DebuggerDetached, "try again: the tab is attached anew"},
	{"Detached while handling command", op.DebuggerDetached, "take a snapshot and look before trying again"},
	{"No tab with given id", op.TabGone, "the tab is closed; list the tabs"},
	{"No tab with id", op.TabGone, "the tab is closed; list the tabs"},
	{"Target closed", op.TabGone, "the tab is closed; list the tabs"},
	{"Inspected target navigated or closed", op.DocumentChanged, "the page navigated meanwhile; take a snapshot"},
	{"Cannot find context with specified id", op.DocumentChanged, "the page navigated meanwhile; take a snapshot"},
	{"Cannot find execution context", op.DocumentChanged, "the page navigated meanwhile; take a snapshot"},
	{"uniqueContextId not found", op.DocumentChanged, "the page navigated meanwhile; take a snapshot"},
	{"No frame for given id found", op.DocumentChanged, "the frame is gone; take a snapshot"},
	{"Session with given id not found", op.DocumentChanged, "the frame is gone; take a snapshot"},
	{"Could not find node with given id", op.StaleActionRef, "take a snapshot and use its refs"},
	{"No node with given id found", op.StaleActionRef, "take a snapshot and use its refs"},
	{"Node with given id does not belong to the document", op.StaleActionRef, "take a snapshot and use its refs"},
	{"Node is detached from document", op.StaleActionRef, "take a snapshot and use its refs"},
	{"Could not compute box model", op.TargetInvisible, "the element has no box; take a snapshot"},
	{"Node does not have a layout object", op.TargetInvisible, "the element has no box; take a snapshot"},
}

// coveredHint is what to do about another extension's frame.
const coveredHint = "another extension shows a frame in this page: have its list or pop-up closed (Escape in it, a click elsewhere, or the extension turned off for the site), then send the command again"

// classify finds the code and the hint for an error that is not yet an
// *op.Error.
func classify(err error) (op.Code, string) {
	switch {
	case errors.Is(err, errCrashed):
		return op.RendererCrashed, "navigate to load the page again"
	case errors.Is(err, context.DeadlineExceeded):
		return op.DeadlineExceeded, "the page may be busy; wait, or give a longer timeoutMs"
	case errors.Is(err, context.Canceled):
		return op.Canceled, "the caller canceled it"
	}
	if errors.Is(err, op.ErrCovered) {
		return op.DebuggerBusy, coveredHint
	}
	if p, ok := errors.AsType[*op.ProtocolError](err); ok {
		for _, c := range chromeErrors {
			if strings.Contains(p.Message, c.part) {
				return c.code, c.hint
			}
		}
	}
	switch {
	case errors.Is(err, op.ErrOffline):
		return op.ConnectorOffline, "open that browser again, then send the command again; pi-chrome doctor explains more"
	case errors.Is(err, op.ErrTabGone):
		return op.TabGone, "list the tabs, or open a new one"
	case errors.Is(err, op.ErrDetached):
		return op.DebuggerDetached, "try again: the tab is attached anew"
	case errors.Is(err, op.ErrNotDelivered):
		return op.ConnectorOffline, "try again when the browser is back"
	case errors.Is(err, op.ErrReplyLost):
		return op.BrowserOperation, "the browser's answer was lost; send it again"
	}
	return op.BrowserOperation, "take a snapshot to see how the page stands"
}

// isCode reports whether err, once classified, has the code.
func isCode(err error, code op.Code) bool {
	if err == nil {
		return false
	}
	if e, ok := errors.AsType[*op.Error](err); ok {
		return e.Code == code
	}
	c, _ := classify(err)
	return c == code
}

// plain is an error's text for a person: Chrome's own words where there are
// any.
func plain(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "it took too long (" + err.Error() + ")"
	case errors.Is(err, context.Canceled):
		return "it was canceled"
	case errors.Is(err, op.ErrCovered):
		return op.ErrCovered.Error()
	}
	return err.Error()
}
