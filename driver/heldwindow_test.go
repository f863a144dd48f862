package driver

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"gotest.tools/v3/assert"
)

// holding is a Conn with windows.
type holding struct {
	Conn
	looked, put int
	nothing     bool // a press moves no window
	look, fail  error
}

func (h *holding) HoldWindow(context.Context) (func(context.Context) (string, error), error) {
	h.looked++
	if h.look != nil || h.nothing {
		return nil, h.look
	}
	return func(ctx context.Context) (string, error) {
		h.put++
		return "put back", errors.Join(h.fail, ctx.Err())
	}, nil
}

// TestHeldWindow checks that each press is followed by putting the window
// back, that a window which cannot be read or put back stops no click, and
// that the receipt tells.
func TestHeldWindow(t *testing.T) {
	s := start(t, "input/click.html")
	s.Eval("(document.body.innerHTML = '<button id=b onclick=\"this.n = (this.n || 0) + 1\">b</button>')")
	d := New(nil)
	defer d.Close()
	clicked := 0
	for _, tt := range []struct {
		name        string
		h           holding
		clicks, put int
		want        string
	}{
		{"put back after each press", holding{}, 2, 2, "put back"},
		{"nothing moves", holding{nothing: true}, 1, 0, ""},
		{"the windows cannot be read", holding{look: errors.New("no windows")}, 1, 0, ""},
		{"it cannot be put back", holding{fail: errors.New("no such window")}, 1, 1, "Chrome raised it for the press, and it could not be put back: no such window"},
	} {
		tt.h.Conn = s.Conn
		input, err := json.Marshal(map[string]any{"selector": "#b", "clicks": tt.clicks})
		assert.NilError(t, err)
		res, err := d.Run(t.Context(), "input.click", &Call{ID: "x", Conn: &tt.h}, input)
		assert.NilError(t, err, tt.name)
		clicked += tt.clicks
		var out ClickOut
		assert.NilError(t, json.Unmarshal(res.Value, &out))
		assert.Equal(t, out.Action.Window, tt.want, tt.name)
		assert.Equal(t, tt.h.looked, 1, tt.name)
		assert.Equal(t, tt.h.put, tt.put, tt.name)
	}
	var n int
	assert.NilError(t, json.Unmarshal([]byte(s.Eval("b.n")), &n))
	assert.Equal(t, n, clicked)
}
