package driver

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/fixtures"
)

// axNode is what Chrome's own accessibility tree says of an element.
type axNode struct {
	role, name string
	ignored    bool
	invalid    bool
}

// axTree is Chrome's accessibility tree of every frame, by session and node.
func axTree(t testing.TB, tab *Tab, sc *scene) map[backendKey]axNode {
	t.Helper()
	out := map[backendKey]axNode{}
	for _, v := range sc.views {
		_, err := call(t.Context(), v.frame.s, accessibility.Enable, cdp.Empty{})
		assert.NilError(t, err)
		res, err := call(t.Context(), v.frame.s, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{FrameID: v.frame.id})
		assert.NilError(t, err)
		for _, n := range res.Nodes {
			if r := axText(n.Role); r == "InlineTextBox" || r == "StaticText" {
				continue // they go by their element's node at times
			}
			invalid := slices.ContainsFunc(n.Properties, func(p *accessibility.Property) bool {
				return p.Name == accessibility.PropertyNameInvalid && axText(p.Value) != "" && axText(p.Value) != "false"
			})
			out[backendKey{frame: v.frame.id, backend: n.BackendDOMNodeID}] = axNode{axText(n.Role), axText(n.Name), n.Ignored, invalid}
		}
	}
	return out
}

// axExceptions are where we say something else than Chrome on purpose.
//   - An element that only a listener or a tab stop makes usable is generic or
//     ignored for Chrome and has no name; we tell its text.
//   - What can be edited is generic for Chrome; we say textbox.
//   - Where Chrome gives a control no name at all, a title or nothing is all
//     there is, and we say no more.
//   - A label that says nothing takes every other name away for Chrome, the text
//     of a button and the value of a submit button too; we go on to the next.
//   - Chrome leaves figures out of names; we tell the caption.
func axException(a *action, n axNode) bool {
	if a.role == "textbox" && n.role == "generic" && a.v.editableRoot(a.row) {
		return a.name == oneLine(n.name)
	}
	if n.name == "" && a.role == n.role && len(a.v.rel.labels[a.row]) > 0 {
		return (&naming{v: a.v, root: a.row}).labels(a.row) == ""
	}
	for c := a.row + 1; c < a.v.rows[a.row].end(); c++ {
		if a.v.rows[c].tag == "figure" && a.role == n.role && strings.HasPrefix(a.name, oneLine(n.name)) {
			return true
		}
	}
	switch n.role {
	case "generic", "none", "", "paragraph", "listitem", "LabelText", "Canvas", "image", "list", "article", "Section", "cell", "row", "group", "Video", "Audio", "Iframe", "table", "rowgroup", "sectionheader", "sectionfooter":
		return !slices.Contains(clickRoles, a.role) && n.name == ""
	}
	// A check box behind its label is not in Chrome's tree.
	return a.v.rows[a.row].has(rowHidden)
}

// unsaid reports whether the page hides the action from screen readers alone:
// Chrome leaves it out, and a person sees and clicks it.
func unsaid(a *action) bool {
	for p := a.row; p >= 0; p = a.v.rows[p].parent() {
		if a.v.rows[p].get("aria-hidden") == "true" {
			return true
		}
	}
	return false
}

// agree compares role and name of every action of the page with Chrome's.
func agree(t testing.TB, s *drivertest.Scenario, what string) (compared int, differ []string) {
	t.Helper()
	tab := testTab(t, s)
	sc, err := tab.gather(t.Context())
	assert.NilError(t, err)
	sv := sc.survey()
	var spots []spot
	for _, a := range sv.actions {
		spots = append(spots, a.spot)
	}
	if len(spots) == 0 {
		return 0, nil
	}
	found, err := tab.describe(t.Context(), spots, false)
	assert.NilError(t, err)
	named(sv.actions)
	for _, a := range sv.actions {
		a.name = oneLine(a.v.label(a.row))
	}
	tab.settle(t.Context(), sv.actions, found)
	tree := axTree(t, tab, sc)
	for _, a := range sv.actions {
		d := found[a.spot]
		n, ok := tree[backendKey{frame: a.v.frame.id, backend: d.backend}]
		compared++
		if !ok || n.ignored {
			if !a.v.rows[a.row].has(rowHidden) && !unsaid(a) && slices.Contains(clickRoles, a.role) {
				differ = append(differ, fmt.Sprintf("%s: %s %q is not in Chrome's tree", what, a.role, a.name))
			}
			continue
		}
		if ours := a.v.state(a.row, a.role).Invalid; a.role == n.role && ours != n.invalid {
			differ = append(differ, fmt.Sprintf("%s: %s %q is invalid for us: %t, for Chrome: %t", what, a.role, a.name, ours, n.invalid))
		}
		if a.role == n.role && head(a.name, 900) == head(oneLine(collapse(n.name)), 900) || axException(a, n) {
			continue
		}
		differ = append(differ, fmt.Sprintf("%s: ours %s %q, Chrome's %s %q", what, a.role, a.name, n.role, oneLine(n.name)))
	}
	return compared, differ
}

// testTab is the tab of a scenario as the lane's driver knows it, ready for
// use. A second driver would not hear of the frames in other processes: Chrome
// announces each of them once.
func testTab(t testing.TB, s *drivertest.Scenario) *Tab {
	t.Helper()
	d, ok := laneDrivers.Load(s.Conn)
	assert.Assert(t, ok, "the tab is of another lane")
	tab, err := d.(*Driver).tab(s.Conn)
	assert.NilError(t, err)
	assert.NilError(t, tab.ready(t.Context(), "page.snapshot"))
	// Chrome's accessibility tree of a hidden tab waits for a frame.
	assert.NilError(t, tab.leaseFrames(t.Context()))
	return tab
}

// incomparable are the pages whose roles and names cannot be held against
// Chrome's, with the reason.
var incomparable = map[string]string{
	"regress/snapshot-vanishing.html":   "its elements go between our look and Chrome's",
	"navigate/alert-while-loading.html": "its dialog stands over the load",
	"navigate/frame-noise.html":         "its frames load without end",
	"navigate/meta-refresh.html":        "it goes elsewhere",
	"navigate/never-loads.html":         "it has nothing to use, and its load is waited for",
	"navigate/racing.html":              "it goes elsewhere",
	"navigate/script-redirect.html":     "it goes elsewhere",
	"navigate/unknown-scheme.html":      "its frame detaches the debugger",
	"wait/navigates.html":               "it goes elsewhere",
}

// compared reports whether role and name of the page's actions are compared
// with Chrome's.
func compared(name string) bool {
	// A busy page does not answer Chrome's own question.
	return incomparable[name] == "" && !strings.HasPrefix(name, "snapshot/busy")
}

// Every kind of thing that a page is made of stands in a page whose roles and
// names are compared with Chrome's.
func TestEveryKindIsCompared(t *testing.T) {
	for _, c := range []struct{ kind, page, mark string }{
		{"a frame of the same origin", "frames/same-origin.html", "<iframe"},
		{"a frame of another origin", "frames/cross-origin.html", "{{cross}}"},
		{"frames in frames", "frames/nested.html", "middle.html"},
		{"an open shadow root", "snapshot/shadow-nested.html", `"open"`},
		{"a closed shadow root", "snapshot/shadow-nested.html", `"closed"`},
		{"slots", "snapshot/slots.html", "<slot"},
		{"display: contents", "snapshot/display-contents.html", "display: contents"},
		{"inert", "snapshot/disabled-inert.html", "inert"},
		{"aria-hidden", "snapshot/aria-hidden.html", `aria-hidden="true"`},
		{"hidden=until-found", "snapshot/until-found.html", `hidden="until-found"`},
		{"details", "snapshot/until-found.html", "<details"},
		{"popovers", "snapshot/popover.html", "popovertarget"},
		{"the top layer", "snapshot/top-layer.html", "showModal"},
		{"a virtual list", "snapshot/virtual-list.html", "ariaSetSize"},
		{"a virtual grid", "apps/grid/index.html", `role="grid"`},
		{"links in drawings", "snapshot/svg-and-map.html", "<svg"},
		{"image maps", "input/map-shapes.html", "<area"},
		{"contenteditable", "input/contenteditable.html", "plaintext-only"},
		{"ElementInternals", "snapshot/internals.html", "attachInternals"},
		{"labels", "snapshot/labels.html", "aria-labelledby"},
		{"labels of other kinds", "snapshot/labels-more.html", "figcaption"},
		{"portals", "snapshot/portal.html", "aria-owns"},
		{"sticky headers", "snapshot/sticky.html", "position: sticky"},
		{"transforms", "snapshot/transforms.html", "rotate("},
		{"zoom", "snapshot/transforms.html", "zoom:"},
		{"right to left", "snapshot/right-to-left.html", `dir="rtl"`},
	} {
		source, err := fs.ReadFile(fixtures.FS(), c.page)
		assert.NilError(t, err, c.kind)
		assert.Check(t, compared(c.page) && strings.Contains(string(source), c.mark), "%s is not in %s any more", c.kind, c.page)
	}
}

// What a page is made of stands in seven topics (TestEveryKindIsCompared); a run
// of all tests leaves the pages of the others to make random: make test would
// take too long otherwise.
func TestRoleAndNameAreChromes(t *testing.T) {
	patient(t)
	topics := []string{"snapshot", "frames", "input", "read", "counter", "apps", "regress"}
	// The shop's pages are templates, which have addresses of their own.
	names := []string{"shop/", "shop/search?q=lamp", "shop/product/borea-floor-lamp", "shop/cart", "shop/checkout"}
	total := 0
	for _, name := range append(names, fixtures.Names()...) {
		if topic, _, _ := strings.Cut(name, "/"); !compared(name) || whole() && !slices.Contains(topics, topic) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			sc := start(t, name)
			if strings.HasPrefix(name, "apps/") || strings.HasPrefix(name, "shop/") {
				// An application fetches what it shows after its load.
				sc.Call("page.wait", `{"condition":{"by":"networkIdle"}}`)
			}
			n, differ := agree(t, sc, name)
			total += n
			assert.Assert(t, len(differ) == 0, "%d of %d differ:\n%s", len(differ), n, strings.Join(differ, "\n"))
		})
	}
	assert.Assert(t, total > 150, "only %d actions were compared", total)
	t.Logf("%d actions compared", total)
}
