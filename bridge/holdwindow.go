package bridge

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"pi-chrome/driver/op"
)

// HoldWindow prepares for a press on the tab. Where its window shows the tab
// and has not got the focus, a press makes Chrome raise the window and, when
// it is minimized, restore it. Then putBack undoes that, once the press was
// answered, and says in words what became of the window. It is nil where a
// press moves nothing.
//
// Chrome can give the focus to a window of its own only. When another program
// had it, the window gives it up, on Linux by being minimized: a window that
// is only lowered keeps the keyboard there.
func (t *Tab) HoldWindow(ctx context.Context) (putBack func(context.Context) (string, error), err error) {
	var tab op.Tab
	var tabErr error
	var wg sync.WaitGroup
	wg.Go(func() { tab, tabErr = t.Info(ctx) })
	windows, err := t.conn.Windows(ctx)
	wg.Wait()
	if tabErr != nil {
		return nil, tabErr
	}
	if err != nil {
		return nil, fmt.Errorf("reading the windows: %w", err)
	}
	i := slices.IndexFunc(windows, func(w Window) bool { return w.ID == tab.WindowID })
	if i < 0 || !tab.Active || windows[i].Focused {
		return nil, nil
	}
	own, focused := windows[i], slices.IndexFunc(windows, func(w Window) bool { return w.Focused })
	return func(ctx context.Context) (string, error) {
		update := func(id int, change string, to any) error {
			_, err := t.conn.Chrome(ctx, "windows.update", id, map[string]any{change: to})
			return err
		}
		if own.State == "minimized" {
			if err := update(own.ID, "state", "minimized"); err != nil {
				return "", err
			}
			if focused >= 0 {
				return "Chrome restored it for the press; it is minimized again", update(windows[focused].ID, "focused", true)
			}
			return "Chrome restored it for the press; it is minimized again", nil
		}
		if focused >= 0 {
			return "Chrome raised it for the press; the window before has the focus again", update(windows[focused].ID, "focused", true)
		}
		if runtime.GOOS == "linux" {
			return "Chrome raised it for the press; it is minimized now, so that the program before has the focus again", update(own.ID, "state", "minimized")
		}
		return "Chrome raised it for the press; it has given the focus up", update(own.ID, "focused", false)
	}, nil
}
