package driver

import (
	"context"
	"fmt"
)

// holdView waits for the right to rely on where the tab's view is, and returns
// what gives it back. Input and pictures of the view share it. A picture of the
// whole page has it alone: for each tile Chrome moves the view over the page
// and then puts back what it found. A press meanwhile would reach what lies
// elsewhere, and of two such pictures at a time the second would find, and put
// back, what the first had moved.
func (t *Tab) holdView(ctx context.Context, alone bool) (release func(), err error) {
	for {
		t.mu.Lock()
		if t.holders == 0 && alone {
			t.holders = -1
		} else if t.holders >= 0 && !alone {
			t.holders++
		} else {
			free := t.free
			if free == nil {
				free = make(chan struct{})
				t.free = free
			}
			t.mu.Unlock()
			select {
			case <-free:
				continue
			case <-ctx.Done():
				what := "a picture of the whole page"
				if alone {
					what = "input, or another picture"
				}
				return nil, fmt.Errorf("waiting for the end of %s on tab %d: %w", what, t.conn.Key().TabID, context.Cause(ctx))
			}
		}
		t.mu.Unlock()
		return func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			if alone {
				t.holders = 0
			} else {
				t.holders--
			}
			if t.free != nil {
				close(t.free)
				t.free = nil
			}
		}, nil
	}
}
