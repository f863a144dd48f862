package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/chromedp/cdproto/cdp"

	"pi-chrome/driver/op"
)

// NetworkListIn is the input of chrome_network_list.
type NetworkListIn struct {
	IncludePreserved bool   `json:"includePreserved,omitzero" brief:"of earlier documents too" jsonschema:"whether requests of the tab's earlier documents are told too"`
	Clear            bool   `json:"clear,omitzero" brief:"forget them afterwards" jsonschema:"whether the requests, also those not told, are forgotten afterwards"`
	Type             string `json:"type,omitzero" enum:"document|stylesheet|script|image|font|media|xhr|fetch|websocket|eventsource|ping|preflight|manifest|other" brief:"" jsonschema:"tell only requests of this type"`
	URLIncludes      string `json:"urlIncludes,omitzero" maxLength:"2000" brief:"" jsonschema:"tell only requests whose address contains this"`
	Failed           bool   `json:"failed,omitzero" brief:"only failed or status 400 and above" jsonschema:"tell only requests that failed or were answered with 400 or above"`
	Limit            int    `json:"limit,omitzero" min:"1" max:"1000" brief:"the newest" jsonschema:"tell at most so many, the newest; all when absent"`
	Before           string `json:"before,omitzero" pattern:"^req-[0-9]+$" brief:"req-N: go on with older ones" jsonschema:"tell only requests before this one, to go on where an answer was cut"`
	Enable           *bool  `json:"enable,omitempty" brief:"false ends the capture" jsonschema:"false ends the capture after this answer; true when absent"`
	op.TabInput
}

// NetworkListOut is the result of chrome_network_list: the requests in the
// order in which they were made.
type NetworkListOut struct {
	Requests []NetworkRequest `json:"requests"`
	NetworkInfo
}

// NetworkInfo says what stands beside the requests.
type NetworkInfo struct {
	Count       int      `json:"count" jsonschema:"how many requests are told"`
	Omitted     int      `json:"omitted,omitempty" jsonschema:"older requests that match and are not told here"`
	Before      string   `json:"before,omitempty" jsonschema:"give this as before to see the older ones"`
	Preserved   int      `json:"preserved,omitempty" jsonschema:"requests of earlier documents; includePreserved tells them"`
	Dropped     int      `json:"dropped,omitempty" jsonschema:"requests that the bounded buffer has lost"`
	Enabled     bool     `json:"enabled" jsonschema:"whether the capture is on"`
	Started     bool     `json:"started,omitempty" jsonschema:"this call turned it on"`
	Since       int64    `json:"since" jsonschema:"when it was turned on, in ms since 1970"`
	Interrupted int      `json:"interrupted,omitempty" jsonschema:"how often the debugger was detached meanwhile; requests of that time may be missing"`
	NotCaptured []string `json:"notCaptured,omitempty" jsonschema:"frames and workers that are not captured, and why"`
	Note        string   `json:"note"`
}

// Text is the result as JSON, one request a line, without headers. When not
// all fit, the newest stand there.
func (o NetworkListOut) Text() string {
	items := make([]json.RawMessage, len(o.Requests))
	for i, r := range o.Requests {
		r.ResponseHeaders = nil
		items[i] = compact(r)
	}
	return listText("requests", items, func(omitted int) any {
		info := o.NetworkInfo
		info.Count -= omitted
		info.Omitted += omitted
		if omitted > 0 {
			info.Before = o.Requests[min(omitted, len(o.Requests)-1)].ID
		}
		return info
	})
}

// opNetworkList lists the requests of the tab. The capture listens to Chrome's
// own events: nothing is changed in the page, and a page cannot notice it.
var opNetworkList = op.Define(op.Spec{
	Name: "page.network-list", Tool: "chrome_network_list", Profile: "network", Title: "Network List",
	Summary: "List the requests of the page: documents, scripts, images, fetch, web sockets and all else, with status and time.",
	Brief:   "List the page's requests. The first call starts the capture.",
	Doc: "The first call on a tab turns the capture on and says so (`started`); requests before it are not known, so load the page anew to see them. From then on all requests of the tab's " +
		"documents, frames and workers are captured, until `enable` is false or the tab is given back. A redirect is an entry of its own, linked to the next.\n\n" +
		"Told are those of the present document; `includePreserved` tells those of earlier ones too. Secrets in addresses and headers are redacted; headers and bodies are told by chrome_network_get. " +
		"At most 1,000 requests are kept, and `dropped` counts those that were lost. `data:` addresses are not requests of the network and are left out.",
	Effect: op.ReadOnly, Deadline: op.DefaultDeadline, Tab: op.PageTab,
	Examples: []op.Example{
		{Title: "List the requests", Input: json.RawMessage(`{}`), Page: "network/kinds.html"},
		{Title: "List what failed", Input: json.RawMessage(`{"failed":true,"includePreserved":true}`), Page: "network/failures.html"},
	},
	Errors: []op.Code{op.DialogOpen, op.InvalidInput},
}, networkList)

func networkList(ctx context.Context, c *Call, in NetworkListIn) (NetworkListOut, error) {
	t := c.tab
	before := 0
	if in.Before != "" {
		n, err := strconv.Atoi(strings.TrimPrefix(in.Before, "req-"))
		if err != nil {
			return NetworkListOut{}, op.Invalidf("chrome_network_list: field %q is %q; give an id that an answer told", "before", in.Before)
		}
		before = n
	}
	stop := in.Enable != nil && !*in.Enable
	started := false
	if !stop {
		var err error
		if started, err = t.startCapture(ctx, false); err != nil {
			return NetworkListOut{}, err
		}
	}
	out := t.networkNow(in, before)
	out.Note = "bodies and headers: chrome_network_get"
	if stop {
		if err := t.stopCapture(ctx, false); err != nil {
			return NetworkListOut{}, fmt.Errorf("turning the capture off: %w", err)
		}
		out.Enabled = false
		out.Note = "the capture is off; the next call turns it on again"
	}
	if started {
		out.Started = true
		out.Note = "the capture is on from now on; requests before this call are not known: load the page anew to see them"
	}
	return out, nil
}

// networkNow tells the requests that match, and clears them where asked.
func (t *Tab) networkNow(in NetworkListIn, before int) NetworkListOut {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := &t.capture
	out := NetworkListOut{Requests: []NetworkRequest{}}
	var loader cdp.LoaderID
	if f := t.frames[t.main]; f != nil {
		loader = f.loader
	}
	for _, r := range c.network.list {
		if before > 0 && r.number >= before || in.Type != "" && r.req.Type != in.Type || in.URLIncludes != "" && !strings.Contains(r.req.URL, in.URLIncludes) ||
			in.Failed && !r.bad() {
			continue
		}
		if r.doc != loader && r.nav != loader && !in.IncludePreserved {
			out.Preserved++
			continue
		}
		out.Requests = append(out.Requests, c.toldLocked(r))
	}
	if in.Limit > 0 && len(out.Requests) > in.Limit {
		out.Omitted = len(out.Requests) - in.Limit
		out.Requests = out.Requests[out.Omitted:]
		out.Before = out.Requests[0].ID
	}
	out.Count, out.Dropped, out.Since = len(out.Requests), c.network.dropped, c.networkSince
	out.Enabled, out.Interrupted = c.wantNetwork, c.lost
	out.NotCaptured = t.notCapturedLocked()
	if in.Clear {
		c.network.clearLocked()
	}
	return out
}

// bad reports whether the request failed.
func (r *requestEntry) bad() bool {
	status, _ := r.req.Status.(int64)
	return r.failed || status >= 400
}

// toldLocked is a copy of the entry as it stands now.
func (c *capture) toldLocked(r *requestEntry) NetworkRequest {
	out := r.req
	has := r.body.response != nil || r.body.asked || r.noBody() == "" && r.body.why == "" && c.sessions[r.session] != nil
	out.HasResponseBody = &has
	return out
}
