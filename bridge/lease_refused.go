package bridge

import (
	"context"
	"slices"
	"strings"
	"time"

	"pi-chrome/cdpmodel"
	"pi-chrome/driver/op"
)

// maxAttachRefusals bounds what a connector remembers of them.
const maxAttachRefusals = 16

// AttachCause is why Chrome did not attach the debugger, as far as it can be
// mended.
type AttachCause string

// The causes that are remembered for a diagnosis.
const (
	CauseOtherDebugger  AttachCause = "other-debugger"  // somebody else's is attached
	CauseOtherExtension AttachCause = "other-extension" // the page holds a frame of another extension
	CausePolicy         AttachCause = "policy"          // Chrome names a policy of a managed browser
	// CauseRestricted is Chrome's word for a page that it lets nobody debug,
	// said of an ordinary web page: a policy, or a warning page in its place.
	CauseRestricted AttachCause = "restricted"
	CauseFileAccess AttachCause = "file-access" // a file, and the extension may not see files
)

// AttachRefusal is one tab whose debugger Chrome did not attach. It is
// forgotten when an attach works or the tab is closed.
type AttachRefusal struct {
	At          time.Time   `json:"at"` // the latest time
	ConnectorID string      `json:"connectorId"`
	Label       string      `json:"label"` // of the profile
	TabID       int         `json:"tabId"`
	Cause       AttachCause `json:"cause"`
	Message     string      `json:"message"` // what the command was told
}

// noteRefusal counts a refused attach, and remembers one with a cause.
func (c *Connector) noteRefusal(tabID int, cause AttachCause, why *op.Error) {
	c.relay.meter.attaches.add(string(why.Code), "")
	if cause == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := AttachRefusal{At: time.Now(), ConnectorID: c.binding.ConnectorID, Label: c.binding.Label, TabID: tabID, Cause: cause, Message: why.Message}
	c.dropRefusalsLocked(tabID)
	c.refused = slices.Insert(c.refused, 0, r)
	c.refused = c.refused[:min(len(c.refused), maxAttachRefusals)]
}

// forgetRefusals drops what is remembered of a tab.
func (c *Connector) forgetRefusals(tabID int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropRefusalsLocked(tabID)
}

func (c *Connector) dropRefusalsLocked(tabID int) {
	c.refused = slices.DeleteFunc(c.refused, func(r AttachRefusal) bool { return r.TabID == tabID })
}

// AttachRefusals are the tabs that Chrome did not let us debug, the latest
// first, at most 16.
func (c *Connector) AttachRefusals() []AttachRefusal {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.refused)
}

// attachRefused explains Chrome's refusal. The cause is "" for one that is
// nothing to mend, such as a page of Chrome's own.
func (t *Tab) attachRefused(ctx context.Context, p *op.ProtocolError) (*op.Error, cdpmodel.LeaseRefusal, AttachCause) {
	id := t.Key().TabID
	has := func(s string) bool { return strings.Contains(strings.ToLower(p.Message), s) }
	protected := func(why, hint string) *op.Error {
		return op.Reject(op.ProtectedTabURL, "tab %d cannot be debugged: %s", id, why).WithHint("%s", hint).WithDetail("tabId", id).WithCause(p)
	}
	switch {
	case has("already attached"):
		return debuggerBusy(id, p), cdpmodel.RefusedAttached, CauseOtherDebugger
	case has("no tab with"):
		return tabGone(id), cdpmodel.RefusedGone, ""
	case has("polic"):
		return protected("a policy of this managed browser forbids it ("+p.Message+")",
			"Ask the browser's administrator about the policies ExtensionSettings runtime_blocked_hosts and DeveloperToolsAvailability."), cdpmodel.RefusedOther, CausePolicy
	case isCovered(p):
		return op.Reject(op.DebuggerBusy, "tab %d cannot be debugged: %s", id, op.ErrCovered).
			WithHint("Close the other extension's overlay in that tab, such as a password manager's, and send the command again.").
			WithDetail("tabId", id).WithCause(p), cdpmodel.RefusedOther, CauseOtherExtension
	case has("attach to this target"):
		// Chrome says this one sentence of its own pages, of hosts that a
		// policy blocks, of warning pages and of files.
		switch url := t.url(ctx); {
		case strings.HasPrefix(url, "https:"), strings.HasPrefix(url, "http:"):
			return protected("it shows an ordinary web page, and Chrome says: "+p.Message,
				"Either a policy of this managed browser blocks the site for extensions (ExtensionSettings runtime_blocked_hosts; look at chrome://policy), or Chrome shows a warning in the page's place, as for a bad certificate: look at the tab."), cdpmodel.RefusedOther, CauseRestricted
		case strings.HasPrefix(url, "file:"):
			return protected("it shows a file, and the extension may not see files",
				"Switch on \"Allow access to file URLs\" for pi-chrome in chrome://extensions, then send the command again."), cdpmodel.RefusedOther, CauseFileAccess
		}
		fallthrough
	case has("cannot access"), has("cannot attach"), has("cannot be"), has("not allowed"):
		return protected(p.Message, "Chrome's own pages, the extension store and other extensions' pages are closed to extensions. Open another address in the tab."), cdpmodel.RefusedOther, ""
	}
	return op.Reject(op.BrowserOperation, "attaching the debugger to tab %d: %s", id, p.Message).WithDetail("tabId", id).WithCause(p), cdpmodel.RefusedOther, ""
}

// url is the address that the tab shows, "" where Chrome does not say it.
func (t *Tab) url(ctx context.Context) string {
	tab, err := ask[chromeTab](ctx, t.conn, "tabs.get", t.Key().TabID)
	if err != nil {
		return "" // what the refusal means stays open then
	}
	return tab.URL
}

func debuggerBusy(id int, cause error) *op.Error {
	return op.Reject(op.DebuggerBusy, "tab %d is debugged by another extension; the command had no effect", id).
		WithHint("Turn the other extension's debugging off, or use another tab. Chrome's DevTools beside pi-chrome are no problem.").
		WithDetail("tabId", id).WithCause(cause)
}
