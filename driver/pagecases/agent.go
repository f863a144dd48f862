package pagecases

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

// agent drives a page as an agent does: it looks, takes a ref by role and
// name, and acts on it. It knows no selector and runs no script.
type agent struct{ s *drivertest.Scenario }

// seen is an action of a snapshot.
type seen struct {
	ID    string   `json:"id"`
	Role  string   `json:"role"`
	Name  string   `json:"name"`
	Verbs []string `json:"verbs"`
	State struct {
		Checked  any    `json:"checked"`
		Pressed  any    `json:"pressed"`
		Selected *bool  `json:"selected"`
		Expanded *bool  `json:"expanded"`
		Focused  bool   `json:"focused"`
		Invalid  bool   `json:"invalid"`
		Disabled bool   `json:"disabled"`
		Current  string `json:"current"`
		Value    string `json:"value"`
		Redacted bool   `json:"valueRedacted"`
	} `json:"state"`
}

type look struct {
	URL       string     `json:"url"`
	Actions   []seen     `json:"actions"`
	Frontiers []frontier `json:"frontiers"`
	Modal     *struct {
		Role  string `json:"role"`
		Label string `json:"label"`
	} `json:"modal"`
}

type frontier struct {
	Projection string `json:"projection"`
	ID         string `json:"id"`
}

// maxLooks bounds how many snapshots one look at the whole page takes.
const maxLooks = 40

// all is every action of the page, by the frontiers too. Where the page changes
// on its own meanwhile, as it does when a toast has been up for its time, a
// frontier is stale, and it looks anew, as the error says.
func (a agent) all() (look, []seen) {
	a.s.T.Helper()
	for looks := 0; ; {
		first, actions, stale := a.walk(&looks)
		if stale == nil {
			return first, actions
		}
		a.s.T.Logf("the page changed between two looks: %v", stale)
	}
}

// walk is one snapshot and what its frontiers lead to, unless one of them is
// stale.
func (a agent) walk(looks *int) (look, []seen, error) {
	a.s.T.Helper()
	var first look
	a.s.Value("page.snapshot", `{}`, &first)
	actions := slices.Clone(first.Actions)
	ahead := slices.Clone(first.Frontiers)
	for len(ahead) > 0 {
		next := ahead[0]
		ahead = ahead[1:]
		if next.Projection != "actions" {
			continue
		}
		*looks++
		assert.Assert(a.s.T, *looks < maxLooks, "after %d looks there are still frontiers: %v", *looks, ahead)
		res, err := a.s.Run("page.snapshot", map[string]any{"ref": next.ID})
		if e, ok := errors.AsType[*op.Error](err); ok && e.Code == op.StaleObservationFrontier {
			return look{}, nil, err
		}
		assert.NilError(a.s.T, err)
		var more look
		assert.NilError(a.s.T, json.Unmarshal(res.Value, &more))
		// An expansion shows some of what is known already, for its context.
		for _, action := range more.Actions {
			if !slices.ContainsFunc(actions, func(known seen) bool { return known.ID == action.ID }) {
				actions = append(actions, action)
			}
		}
		ahead = append(ahead, more.Frontiers...)
	}
	return first, actions, nil
}

// find is the one action of the role and name.
func (a agent) find(role, name string) seen {
	a.s.T.Helper()
	_, actions := a.all()
	var found []seen
	var near []string
	for _, action := range actions {
		switch {
		case action.Role == role && action.Name == name:
			found = append(found, action)
		case action.Role == role:
			near = append(near, action.Name)
		}
	}
	assert.Equal(a.s.T, len(found), 1, "%s %q; the others of that role: %q", role, name, near)
	return found[0]
}

// has says whether the page shows the action.
func (a agent) has(role, name string) bool {
	a.s.T.Helper()
	_, actions := a.all()
	return slices.ContainsFunc(actions, func(action seen) bool { return action.Role == role && action.Name == name })
}

func (a agent) click(role, name string) {
	a.s.T.Helper()
	a.s.Call("input.click", map[string]any{"ref": a.find(role, name).ID})
}

func (a agent) doubleClick(role, name string) {
	a.s.T.Helper()
	a.s.Call("input.click", map[string]any{"ref": a.find(role, name).ID, "clicks": 2})
}

// fill fills the control, which must hold what was given.
func (a agent) fill(role, name, text string) {
	a.s.T.Helper()
	a.fillAs(role, name, text, text)
}

// fillAs fills the control of a page that makes something else of the text.
func (a agent) fillAs(role, name, text, holds string) {
	a.s.T.Helper()
	var out struct {
		Action struct {
			Matches bool   `json:"matches"`
			Value   string `json:"value"`
		} `json:"action"`
	}
	res := a.s.Value("input.fill", map[string]any{"ref": a.find(role, name).ID, "text": text}, &out)
	if text == holds {
		assert.Assert(a.s.T, out.Action.Matches, "%s %q: %s", role, name, res.Text)
		return
	}
	assert.Equal(a.s.T, out.Action.Value, holds, "%s %q: %s", role, name, res.Text)
}

func (a agent) press(keys ...string) {
	a.s.T.Helper()
	for _, key := range keys {
		a.s.Call("input.key", map[string]any{"key": key})
	}
}

// pressOn gives the focus to the element and presses the key.
func (a agent) pressOn(role, name, key string) {
	a.s.T.Helper()
	a.s.Call("input.key", map[string]any{"ref": a.find(role, name).ID, "key": key})
}

// patience bounds, in ms, what takes a busy machine long and others no time.
const patience = 30_000

// await waits until the page shows the text.
func (a agent) await(text string) {
	a.s.T.Helper()
	got, res := waitFor(a.s, "textContains", text, patience)
	assert.Assert(a.s.T, got.Satisfied, "%q does not appear: %s", text, res.Text)
}

// awaitGone waits until the page no longer shows the text.
func (a agent) awaitGone(text string) {
	a.s.T.Helper()
	got, res := waitFor(a.s, "textGone", text, patience)
	assert.Assert(a.s.T, got.Satisfied, "%q stays: %s", text, res.Text)
}

// read is the text of the page.
func (a agent) read() string {
	a.s.T.Helper()
	return a.s.Call("page.read", `{}`).Text
}

func (a agent) reads(text string) {
	a.s.T.Helper()
	got := a.read()
	assert.Assert(a.s.T, strings.Contains(got, text), "%q is not in what is read:\n%s", text, got)
}

// open begins the application anew and loads it.
func (a agent) open(app string) {
	a.s.T.Helper()
	response, err := http.Post(a.s.Site.URL("apps/"+app+"/reset"), "", nil)
	assert.NilError(a.s.T, err)
	assert.NilError(a.s.T, response.Body.Close())
	assert.Equal(a.s.T, response.StatusCode, http.StatusNoContent)
	a.s.Call("page.navigate", map[string]any{"url": a.s.Site.URL("apps/" + app + "/index.html"), "waitUntilLoad": true})
}

// serverUntil reads what the server has until it holds what the page said.
func (a agent) serverUntil(app string, state any, ok func() bool) {
	a.s.T.Helper()
	for limit := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		a.server(app, state)
		if ok() {
			return
		}
		assert.Assert(a.s.T, time.Now().Before(limit), "the server of %s has %+v", app, state)
	}
}

// server reads what the application's server knows.
func (a agent) server(app string, state any) {
	a.s.T.Helper()
	response, err := http.Get(a.s.Site.URL("apps/" + app + "/state.json"))
	assert.NilError(a.s.T, err)
	defer response.Body.Close()
	assert.Equal(a.s.T, response.StatusCode, http.StatusOK)
	assert.NilError(a.s.T, json.NewDecoder(response.Body).Decode(state))
}
