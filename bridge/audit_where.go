package bridge

import (
	"encoding/json"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// maxOriginValue bounds the result that is looked through for an address.
const maxOriginValue = 256 << 10

// auditOrigin is the origin of the page that a command was for, from what is
// known when it is over: what it was to open, or where its answer says that it
// was. "" where neither does; the browser is not asked.
// page is what it showed when the command began, where that was told.
func auditOrigin(c *command, r wire.Result, page string) string {
	if c.desc.Opens == "" && c.desc.Tab != op.PageTab {
		return ""
	}
	if c.desc.Opens != "" {
		var in map[string]json.RawMessage
		var to string
		if json.Unmarshal(c.input, &in) == nil && json.Unmarshal(in[c.desc.Opens], &to) == nil && to != "" {
			return auditAddress(to)
		}
	}
	if page != "" {
		return page
	}
	if r.Error != nil {
		for _, key := range []string{"origin", "url"} {
			if at, ok := r.Error.Details[key].(string); ok && at != "" {
				return auditAddress(at)
			}
		}
		return ""
	}
	// The value of a script is the page's own, and network-get tells where a
	// request went.
	if c.desc.Verb == op.VerbScript || c.desc.Name == "page.network-get" || len(r.Value) > maxOriginValue {
		return ""
	}
	type place struct {
		URL string `json:"url"`
	}
	var told struct {
		URLBefore string `json:"urlBefore"`
		Action    struct {
			URLBefore string `json:"urlBefore"`
		} `json:"action"`
		Tab         place `json:"tab"`
		Observation place `json:"observation"`
		place
	}
	// An answer of another shape leaves what it has not.
	_ = json.Unmarshal(r.Value, &told)
	for _, at := range []string{told.URLBefore, told.Action.URLBefore, told.Tab.URL, told.Observation.URL, told.URL} {
		if at != "" {
			return auditAddress(at)
		}
	}
	return ""
}

// auditAddress is what the log keeps of a page's address: neither its path, its
// query nor a name and password.
func auditAddress(raw string) string {
	o := originOf(raw)
	if o.scheme == "unknown" {
		return ""
	}
	return clipText(o.String(), 300)
}

// maxKnownPages bounds what a profile keeps of its tabs' pages.
const maxKnownPages = 10_000

// sawPages notes what tabs show, as Chrome has just told it.
func (c *Connector) sawPages(tabs ...op.Tab) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range tabs {
		if len(c.pages) >= maxKnownPages {
			clear(c.pages) // of tabs whose end was not told
		}
		c.pages[t.ID] = auditAddress(t.URL)
	}
}

// pageOf is the origin that a command's tab shows as far as its profile knows.
func pageOf(c *command) string {
	p, ok := c.profile.(*Connector)
	if !ok || c.desc.Tab == op.NoTab {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pages[c.target.id]
}
