package driver

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

// TestSelectEndlessList: an option that was not found before the time was up
// is not called missing, and what was searched is told.
func TestSelectEndlessList(t *testing.T) {
	s := start(t, "input/choose.html")
	eval(s, "1") // its tab is prepared: the deadline is of the search alone
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	_, err := directLane(t).Run(ctx, s.Conn, "input.select", json.RawMessage(`{"selector":"#post","label":"Post 0"}`))
	e := op.AsError(err)
	assert.Equal(t, e.Code, op.ValueRefused, e.Message)
	assert.Equal(t, e.Kind, op.OutcomeUnknown, e.Message)
	assert.Assert(t, strings.Contains(e.Message, "goes on"), e.Message)
	assert.Equal(t, e.Details["reason"], "list-not-ended", e.Message)
	assert.Equal(t, eval(s, "document.querySelector('#post').textContent"), `"Post: none"`)
}
