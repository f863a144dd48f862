package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

func init() {
	for _, name := range []string{"tab.activate", "tab.group", "tab.ungroup"} {
		fakeOps[name] = op.Descriptor{Name: name, Tool: "chrome_" + name, Effect: op.MayMutate, Tab: op.OwnedTab, Deadline: op.DefaultDeadline}
	}
}

// runTabs runs the operations on tabs as the driver does.
func runTabs(ctx context.Context, call *Call) (op.Result, error) {
	var in struct {
		Target     op.Target `json:"target"`
		GroupColor string    `json:"groupColor"`
	}
	if err := json.Unmarshal(call.Input, &in); err != nil {
		return op.Result{}, err
	}
	var tab op.Tab
	var err error
	switch call.Operation {
	case "tab.activate":
		tab, err = call.Browser.ActivateTab(ctx, in.Target)
	case "tab.group":
		tab, err = call.Browser.GroupTab(ctx, in.Target, in.GroupColor)
	case "tab.ungroup":
		tab, err = call.Browser.UngroupTab(ctx, in.Target)
	}
	if err != nil {
		return op.Result{}, err
	}
	return op.NewResult(tab)
}

func inForeground(c wire.Command) wire.Command {
	c.Session.Foreground = true
	return c
}

func TestABackgroundSessionShowsNoTab(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		r.handler.run = runTabs
		p := r.dial()
		defer p.close()
		wantError(t, p.do(cmd("0", "tab.activate", `{}`)), op.Rejected, op.AutomationTargetRequired)
		wantOK(t, p.do(cmd("new", "tab.new", `{}`)))
		f := wantError(t, p.do(cmd("1", "tab.activate", `{}`)), op.Rejected, op.BackgroundMode)
		assert.Assert(t, f.Hint != "")
		assert.Equal(t, len(r.browser.activated), 0)
		res := p.do(inForeground(cmd("2", "tab.activate", `{}`)))
		wantOK(t, res)
		var tab op.Tab
		assert.NilError(t, json.Unmarshal(res.Value, &tab))
		assert.DeepEqual(t, r.browser.activated, []int{tab.ID})
		assert.Assert(t, tab.Owned)
		// A list keeps the session's mode.
		out := listed(t, p.do(inForeground(doOf("x", "tab.activate"))))
		assert.Equal(t, out.Done, 1)
		out = listed(t, p.do(doOf("y", "tab.activate")))
		assert.Equal(t, out.Steps[0].Error.Code, op.BackgroundMode)
	})
}

func TestTabOperationsNameTheHolder(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		r.handler.run = runTabs
		p := r.dial()
		defer p.close()
		other := cmd("new", "tab.new", `{}`)
		other.Session.Key = "other"
		res := p.do(other)
		wantOK(t, res)
		var tab op.Tab
		assert.NilError(t, json.Unmarshal(res.Value, &tab))
		for i, name := range []string{"tab.activate", "tab.group", "tab.ungroup", "tab.close"} {
			f := wantError(t, p.do(inForeground(cmd(fmt.Sprint(i), name, forTab(tab.ID)))), op.Rejected, op.TabHeld)
			assert.Equal(t, f.Details["holder"], "other")
			wantError(t, p.do(cmd(fmt.Sprint(i, "gone"), name, forTab(999))), op.Rejected, op.TabNotFound)
		}
	})
}

func TestGroupAndUngroup(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		r.handler.run = runTabs
		p := r.dial()
		defer p.close()
		read := func(res *wire.Result) (tab op.Tab) {
			wantOK(t, res)
			assert.NilError(t, json.Unmarshal(res.Value, &tab))
			return tab
		}
		made := read(p.do(cmd("new", "tab.new", `{}`)))
		user := r.browser.open("https://example.test/")
		first := read(p.do(cmd("1", "tab.group", `{"groupColor":"green"}`)))
		assert.Equal(t, first.ID, made.ID)
		second := read(p.do(cmd("2", "tab.group", forTab(user.ID))))
		assert.Equal(t, first.GroupID, second.GroupID) // one group a session
		assert.Assert(t, first.Owned && !second.Owned)
		assert.Equal(t, r.browser.colors[first.GroupID], "green")
		third := read(p.do(cmd("3", "tab.ungroup", forTab(user.ID))))
		assert.Equal(t, third.GroupID, -1)

		// What Chrome refuses had no effect; what it may have done is not known.
		fault := func(call string, err error, after bool) {
			r.browser.fail = func(c string) (error, bool) {
				if c != call {
					return nil, false
				}
				return err, after
			}
		}
		fault("tabs.group", &op.ProtocolError{Method: "tabs.group", Message: "Tabs cannot be edited right now (user may be dragging a tab)."}, false)
		wantError(t, p.do(cmd("4", "tab.group", forTab(user.ID))), op.Rejected, op.BrowserOperation)
		fault("tabs.group", errLostForTest, true)
		wantError(t, p.do(cmd("5", "tab.group", forTab(user.ID))), op.OutcomeUnknown, op.BrowserOperation)
		fault("tabs.ungroup", op.ErrNotDelivered, false)
		wantError(t, p.do(cmd("6", "tab.ungroup", forTab(user.ID))), op.Unavailable, op.ConnectorOffline)
		fault("tabs.ungroup", errLostForTest, true)
		wantError(t, p.do(cmd("7", "tab.ungroup", forTab(user.ID))), op.OutcomeUnknown, op.BrowserOperation)
		fault("tabs.update", &op.ProtocolError{Method: "tabs.update", Message: "Tabs cannot be edited right now"}, false)
		wantError(t, p.do(inForeground(cmd("8", "tab.activate", forTab(user.ID)))), op.Rejected, op.BrowserOperation)
		fault("tabs.update", errLostForTest, true)
		wantError(t, p.do(inForeground(cmd("9", "tab.activate", forTab(user.ID)))), op.OutcomeUnknown, op.BrowserOperation)
	})
}
