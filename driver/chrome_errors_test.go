package driver

import (
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

// TestEachLossHasItsWords: a browser that went away, a worker that was stopped
// and a debugger that was detached in the middle of a command are told apart,
// with whether the command may have had an effect and what to do next.
func TestEachLossHasItsWords(t *testing.T) {
	const press = "Input.dispatchMouseEvent on tab 7: "
	gone := fmt.Errorf("%w: the profile %q is not connected any more", op.ErrOffline, "Work")
	for name, c := range map[string]struct {
		err           error
		begun         int // effects
		kind          op.Kind
		code          op.Code
		message, hint string
	}{
		"browser gone, read": {fmt.Errorf(press+"%w: %w", gone, op.ErrReplyLost), 0,
			op.Rejected, op.ConnectorOffline, `changed nothing: ` + press + `the browser went away: the profile "Work"`, "open that browser again"},
		"browser gone before the effect": {fmt.Errorf(press+"%w: %w", gone, op.ErrNotDelivered), 1,
			op.Rejected, op.ConnectorOffline, "changed nothing", "open that browser again"},
		"browser gone after the effect": {fmt.Errorf(press+"%w: %w", gone, op.ErrReplyLost), 1,
			op.OutcomeUnknown, op.ConnectorOffline, "may have changed the page", "open that browser again, then take a snapshot"},
		"worker stopped, read": {fmt.Errorf(press+"the extension's worker ended before it answered: %w", op.ErrReplyLost), 0,
			op.Rejected, op.BrowserOperation, "the extension's worker ended", "the browser's answer was lost; send it again"},
		"worker stopped after the effect": {fmt.Errorf(press+"the extension's worker ended before it answered: %w", op.ErrReplyLost), 1,
			op.OutcomeUnknown, op.BrowserOperation, "the extension's worker ended", "take a snapshot and look before trying again"},
		"tab closed": {fmt.Errorf(press+"%w (%w, it was closed): %w", op.ErrDetached, op.ErrTabGone, op.ErrReplyLost), 1,
			op.OutcomeUnknown, op.TabGone, "the tab is gone, it was closed", "list the tabs"},
		"debugger detached": {fmt.Errorf(press+"%w: %w", op.ErrDetached, op.ErrReplyLost), 1,
			op.OutcomeUnknown, op.DebuggerDetached, "debugger detached", "take a snapshot"},
		"debugger detached between press and release": {cleared(fmt.Errorf(press+"%w: %w", op.ErrDetached, op.ErrNotDelivered)), 1,
			op.OutcomeUnknown, op.DebuggerDetached, "debugger detached", "take a snapshot and look before trying again: Chrome ended the debugger session"},
		"browser gone between press and release": {cleared(fmt.Errorf(press+"%w: %w", gone, op.ErrNotDelivered)), 1,
			op.OutcomeUnknown, op.ConnectorOffline, "may have changed the page", "open that browser again, then take a snapshot"},
	} {
		t.Run(name, func(t *testing.T) {
			d := New(nil)
			defer d.Close()
			call := &Call{driver: d}
			for range c.begun {
				call.begin()
			}
			e := op.AsError(call.explain("input.click", c.err))
			assert.Equal(t, e.Kind, c.kind, e.Message)
			assert.Equal(t, e.Code, c.code, e.Message)
			assert.Assert(t, strings.Contains(e.Message, c.message), e.Message)
			assert.Assert(t, strings.HasPrefix(e.Hint, c.hint), e.Hint)
		})
	}
}
