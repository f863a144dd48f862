package driver

import (
	"context"
	"encoding/json"

	"pi-chrome/driver/op"
)

// TabClaimIn is the input of chrome_tab_claim: the tab, and what must be true
// of it.
type TabClaimIn struct {
	Target op.Target     `json:"target" brief:"" jsonschema:"the user's tab"`
	Expect op.TabDetails `json:"expect,omitzero" brief:"what it must show now, as it was listed" jsonschema:"what the tab must show at the moment of the claim, as it was listed; what is left out is not compared"`
}

// TabClaimed is the result of chrome_tab_claim.
type TabClaimed struct {
	Tab  op.Tab `json:"tab"`
	Note string `json:"note" jsonschema:"what the page can notice while the session has the tab"`
}

// claimNote is what a claim changes for the page.
const claimNote = "While the session works in the tab, the page sees itself as visible and focused although the user may look elsewhere; that ends when the tab is released. The tab is never closed for the session."

var opTabClaim = op.Define(op.Spec{
	Name: "tab.claim", Tool: "chrome_tab_claim", Profile: "tabs", Title: "Tab Claim",
	Summary: "Take one of the user's own tabs into this session, after checking that it is the one that is meant.",
	Brief:   "Take one of the user's tabs as yours.",
	Doc: "The tab becomes the session's: later calls without target use it when it is the only one, other sessions are refused it, and it counts to the 5 tabs of the session. " +
		"Everything in `expect` is compared with the tab at that moment; a difference refuses the claim as `tab-changed` and names it. " +
		"Nothing is shown or focused, and a tab that the user had in a group or pinned stays there; any other is put into the session's group. " +
		"A claimed tab is never closed by the session's clean-up: it is given back, ungrouped. chrome_tab_release gives it back earlier.",
	Effect: op.MayMutate, Verb: op.VerbTab, Deadline: op.DefaultDeadline, Tab: op.OwnedTab,
	Examples: []op.Example{{Title: "Claim a tab by its address, if it still has that title",
		Input: json.RawMessage(`{"target":{"by":"url","value":"/navigate/plain.html"},"expect":{"title":"Plain"}}`), Page: "navigate/plain.html"}},
	Errors: []op.Code{op.TabChanged, op.TabNotFound, op.AmbiguousTabTarget, op.TabHeld, op.ProtectedTabURL, op.AutomationTargetLimit, op.Unsupported},
}, tabClaim)

func tabClaim(ctx context.Context, c *Call, in TabClaimIn) (TabClaimed, error) {
	if c.Browser == nil {
		return TabClaimed{}, unsupported("chrome_tab_claim")
	}
	c.begin()
	tab, err := c.Browser.ClaimTab(ctx, in.Target, in.Expect)
	return TabClaimed{Tab: tab, Note: claimNote}, err
}
