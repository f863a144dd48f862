package driver

import (
	"fmt"
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
			out[backendKey{frame: v.frame.id, backend: n.BackendDOMNodeID}] = axNode{axText(n.Role), axText(n.Name), n.Ignored}
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
func axException(a *action, n axNode) bool {
	if a.role == "textbox" && n.role == "generic" && a.v.editableRoot(a.row) {
		return a.name == oneLine(n.name)
	}
	switch n.role {
	case "generic", "none", "", "paragraph", "listitem", "LabelText", "Canvas", "image", "list", "article", "Section", "cell", "row", "group", "Video", "Audio", "Iframe", "table", "rowgroup", "sectionheader", "sectionfooter":
		return !slices.Contains(clickRoles, a.role) && n.name == ""
	}
	// A check box behind its label is not in Chrome's tree.
	return a.v.rows[a.row].has(rowHidden)
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
			if !a.v.rows[a.row].has(rowHidden) && slices.Contains(clickRoles, a.role) {
				differ = append(differ, fmt.Sprintf("%s: %s %q is not in Chrome's tree", what, a.role, a.name))
			}
			continue
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

func TestRoleAndNameAreChromes(t *testing.T) {
	patient(t)
	total := 0
	for _, name := range fixtures.Names() {
		topic, _, _ := strings.Cut(name, "/")
		if topic != "snapshot" && topic != "frames" && topic != "input" && topic != "read" && topic != "counter" && topic != "apps" && topic != "regress" {
			continue
		}
		if strings.HasPrefix(name, "snapshot/busy") {
			continue // it does not answer
		}
		if name == "regress/snapshot-vanishing.html" {
			continue // its elements go between our look and Chrome's
		}
		t.Run(name, func(t *testing.T) {
			sc := start(t, name)
			if topic == "apps" {
				// An application fetches what it shows after its load.
				sc.Call("page.wait", `{"condition":{"by":"networkIdle"}}`)
			}
			n, differ := agree(t, sc, name)
			total += n
			assert.Assert(t, len(differ) == 0, "%d of %d differ:\n%s", len(differ), n, strings.Join(differ, "\n"))
		})
	}
	assert.Assert(t, total > 150, "only %d actions were compared", total)
}
