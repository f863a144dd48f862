package smoke

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pi-chrome/bridge/client"
	"pi-chrome/bridge/wire"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/op"
)

// The pages that are used, and the counters on their server.
const (
	clickPage = "/counter/blocking.html?id="
	clicked   = "clicked"
	answered  = "answered"
)

// navigate goes to a page with a script that runs before the page's own, and
// with a snapshot in the same call.
func (r *run) navigate(ctx context.Context) error {
	before, err := r.pages(ctx)
	if err != nil {
		return err
	}
	mark := wire.NewSecret()[:16]
	r.doing("navigating with an init script and a snapshot")
	out, err := r.command(ctx, "page.navigate", map[string]any{
		"url": r.base + clickPage + clicked, "waitUntilLoad": true,
		"initScript": fmt.Sprintf("globalThis.smoke = %q + document.readyState + document.scripts.length", mark),
		"snapshot":   map[string]any{"mode": "interactive"},
	}, 0)
	if err != nil {
		return err
	}
	v, err := value[struct {
		Tab      op.Tab   `json:"tab"`
		Snapshot snapshot `json:"snapshot"`
	}](out)
	if err != nil {
		return err
	}
	if v.Snapshot.URL != v.Tab.URL || v.Snapshot.ref("Count") == "" {
		return fmt.Errorf("the snapshot is of %s and shows no button Count: %s", v.Snapshot.URL, out.Result.Text)
	}
	r.firstTab = v.Tab.ID
	r.tabs = []int{v.Tab.ID}
	r.proved("tab %d shows %s; the snapshot of the same call shows its button", v.Tab.ID, v.Tab.URL)
	r.doing("reading what the init script left")
	left, err := r.command(ctx, "page.evaluate", map[string]any{"expression": "smoke"}, 0)
	if err != nil {
		return err
	}
	if want := mark + "loading0"; !strings.Contains(left.Result.Text, want) {
		return fmt.Errorf("the init script left %s, not %q", left.Result.Text, want)
	}
	after, err := r.pages(ctx)
	if err != nil {
		return err
	}
	if len(after) != len(before)+1 {
		return fmt.Errorf("%d pages are open after %d", len(after), len(before))
	}
	r.proved("the init script ran once, before any script of the page; one tab was made")
	return nil
}

// secondTab opens another tab: from then on a command must say which it means.
func (r *run) secondTab(ctx context.Context) error {
	r.doing("opening a second tab")
	id, err := r.newTab(ctx, "/counter/form.html?id=form")
	if err != nil {
		return err
	}
	r.tabs = append(r.tabs, id)
	r.doing("sending a command that names no tab")
	_, err = r.command(ctx, "page.snapshot", map[string]any{}, 0)
	if e := op.AsError(err); err == nil || e.Code != op.AmbiguousOwnedTarget {
		return unexpected("a command for one of two tabs", err, op.AmbiguousOwnedTarget)
	}
	r.proved("with two tabs, a command that names none is refused: %s", op.AmbiguousOwnedTarget)
	for i, title := range []string{"Blocking", "Form"} {
		out, err := r.command(ctx, "page.snapshot", r.in(r.tabs[i], nil), 0)
		if err != nil {
			return err
		}
		v, err := value[snapshot](out)
		if err != nil || v.Title != title {
			return errors.Join(err, fmt.Errorf("tab %d is called %q, not %q", r.tabs[i], v.Title, title))
		}
	}
	r.proved("named, each of tabs %d and %d answers with its own page", r.tabs[0], r.tabs[1])
	return nil
}

// wait waits for what a page does later, and for what never comes.
func (r *run) wait(ctx context.Context) error {
	const later = 300
	r.doing("waiting for a text that comes later")
	if _, err := r.command(ctx, "page.evaluate", r.in(r.firstTab, map[string]any{
		"expression": fmt.Sprintf("void setTimeout(\"document.body.append('It has come')\", %d)", later)}), 0); err != nil {
		return err
	}
	for _, w := range []struct {
		text    string
		timeout int
		comes   bool
	}{{"It has come", 5000, true}, {"It never comes", 200, false}} {
		out, err := r.command(ctx, "page.wait", r.in(r.firstTab, map[string]any{
			"condition": map[string]any{"by": "textContains", "value": w.text}, "timeoutMs": w.timeout, "intervalMs": 20}), 0)
		if err != nil {
			return err
		}
		v, err := value[struct {
			Satisfied bool  `json:"satisfied"`
			ElapsedMs int64 `json:"elapsedMs"`
		}](out)
		if err != nil || v.Satisfied != w.comes {
			return errors.Join(err, fmt.Errorf("waiting for %q: %s", w.text, out.Result.Text))
		}
		r.proved("waiting for %q ended after %d ms: satisfied %t", w.text, v.ElapsedMs, v.Satisfied)
	}
	return nil
}

// click clicks what a snapshot shows and checks the page, the receipt and the
// server.
func (r *run) click(ctx context.Context) error {
	ref, err := r.ref(ctx, "Count")
	if err != nil {
		return err
	}
	r.doing("clicking %s", ref)
	out, err := r.command(ctx, "input.click", r.in(r.firstTab, map[string]any{"ref": ref, "includeSnapshot": true}), 0)
	if err != nil {
		return err
	}
	v, err := value[struct {
		Verification struct {
			Status   string   `json:"status"`
			Snapshot snapshot `json:"snapshot"`
		} `json:"verification"`
	}](out)
	if err != nil || v.Verification.Status != "observed" || v.Verification.Snapshot.URL == "" {
		return errors.Join(err, fmt.Errorf("the click was not verified: %s", out.Result.Text))
	}
	if n := r.site.Counter.Count(clicked); n != 1 {
		return fmt.Errorf("the server counted %d clicks, not 1", n)
	}
	r.proved("%s", strings.SplitN(out.Result.Text, "\n", 2)[0])
	r.proved("the page's server counted 1 click; the snapshot of the same call shows the page after it")
	r.doing("clicking the ref of a page that has gone")
	if _, err := r.command(ctx, "page.navigate", r.in(r.firstTab, map[string]any{"url": r.base + clickPage + answered, "waitUntilLoad": true}), 0); err != nil {
		return err
	}
	_, err = r.command(ctx, "input.click", r.in(r.firstTab, map[string]any{"ref": ref}), 0)
	if e := op.AsError(err); err == nil || e.Code != op.StaleActionRef || e.Kind != op.Rejected {
		return unexpected("a click on a ref of the page before", err, op.StaleActionRef)
	}
	if n := r.site.Counter.Count(answered); n != 0 {
		return fmt.Errorf("the server counted %d clicks on the new page", n)
	}
	r.proved("a ref of the page before is refused: %s, and nothing was clicked", op.StaleActionRef)
	return nil
}

// loseAnswer loses the answer of a click, then the receipt of an answer: the
// click is done once, and its caller hears so.
func (r *run) loseAnswer(ctx context.Context) error {
	for i, how := range []struct {
		loss     loss
		arrivals int
		proved   string
	}{
		{loseAnswer, 1, "the answer to a click was lost with its socket: the extension sent it again"},
		{loseReceipt, 1, "the receipt of an answer was lost with its socket: the owner took the answer once"},
	} {
		ref, err := r.ref(ctx, "Count")
		if err != nil {
			return err
		}
		generation := r.generation
		r.line.loseNext(how.loss)
		r.doing("clicking while %s", []string{"the answer is lost", "the receipt of the answer is lost"}[i])
		if _, err := r.command(ctx, "input.click", r.in(r.firstTab, map[string]any{"ref": ref}), 0); err != nil {
			return err
		}
		p, err := r.live(ctx)
		if err != nil {
			return err
		}
		seq, times := r.line.arrivals()
		switch {
		case seq == 0 || p.Generation == generation:
			return errors.New("nothing was lost: the call that was to lose its answer was not made")
		case times != how.arrivals:
			return fmt.Errorf("the owner got frame %d %d times, not %d", seq, times, how.arrivals)
		}
		if n := r.site.Counter.Count(answered); n != i+1 {
			return fmt.Errorf("the server counted %d clicks, not %d", n, i+1)
		}
		r.proved("%s (frame %d, connection %d); the click is done, and the server counted it once", how.proved, seq, p.Generation)
	}
	return nil
}

// read reads the page's text.
func (r *run) read(ctx context.Context) error {
	r.doing("reading the page")
	out, err := r.command(ctx, "page.read", r.in(r.firstTab, nil), 0)
	if err != nil {
		return err
	}
	for _, want := range []string{"Blocking counter", "2"} {
		if !strings.Contains(out.Result.Text, want) {
			return fmt.Errorf("the page's text has no %q:\n%s", want, out.Result.Text)
		}
	}
	r.proved("the page's text has the heading and both counted clicks: %q", one(out.Result.Text))
	return nil
}

// cleanUp closes exactly what the session owns.
func (r *run) cleanUp(ctx context.Context) error {
	r.doing("opening a tab that the session does not own")
	foreign, err := r.box.Browser.NewPage(ctx, nil)
	if err != nil {
		return err
	}
	before, err := r.pages(ctx)
	if err != nil {
		return err
	}
	r.doing("cleaning up")
	done, err := owner.Cleanup(ctx, r.client, r.session)
	if err != nil {
		return err
	}
	got := slices.Sorted(slices.Values(done.ClosedTabIDs))
	want := slices.Sorted(slices.Values(r.tabs))
	if !slices.Equal(got, want) {
		return fmt.Errorf("it closed the tabs %v, not %v", got, want)
	}
	var after []string
	if err := r.until(ctx, "the session's tabs are still open", func() (bool, error) {
		var err error
		after, err = r.pages(ctx)
		return len(after) <= len(before)-len(want), err
	}); err != nil {
		return err
	}
	if len(after) != len(before)-len(want) {
		return fmt.Errorf("%d pages are open after %d: %v", len(after), len(before), after)
	}
	r.proved("it closed the session's tabs %v and left the other %d alone", got, len(after))
	return foreign.Close(ctx)
}

func (r *run) newTab(ctx context.Context, path string) (int, error) {
	out, err := r.command(ctx, "tab.new", map[string]any{"url": r.base + path}, 0)
	if err != nil {
		return 0, err
	}
	tab, err := value[op.Tab](out)
	return tab.ID, err
}

// ref takes a snapshot of the first tab and returns the ref of the action.
func (r *run) ref(ctx context.Context, name string) (string, error) {
	r.doing("looking for %q in tab %d", name, r.firstTab)
	out, err := r.command(ctx, "page.snapshot", r.in(r.firstTab, map[string]any{"mode": "interactive"}), 0)
	if err != nil {
		return "", err
	}
	v, err := value[snapshot](out)
	if err != nil {
		return "", err
	}
	if ref := v.ref(name); ref != "" {
		return ref, nil
	}
	return "", fmt.Errorf("the snapshot of %s shows no %q:\n%s", v.URL, name, out.Result.Text)
}

// snapshot is the part of a snapshot that is looked at.
type snapshot struct {
	Title   string `json:"title"`
	URL     string `json:"url"`
	Actions []struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"actions"`
}

func (s snapshot) ref(name string) string {
	for _, a := range s.Actions {
		if a.Name == name {
			return a.ID
		}
	}
	return ""
}

// in adds the tab to an input.
func (r *run) in(tab int, input map[string]any) map[string]any {
	if input == nil {
		input = map[string]any{}
	}
	input["target"] = map[string]any{"by": "id", "value": tab}
	return input
}

// command runs one operation of the session. With a deadline of 0 it has its
// own.
func (r *run) command(ctx context.Context, operation string, input any, deadlineMs int) (client.Outcome, error) {
	raw, err := json.Marshal(input)
	if err != nil {
		return client.Outcome{}, fmt.Errorf("encoding the input of %s: %w", operation, err)
	}
	out, err := r.client.Command(ctx, wire.Command{
		Type: wire.TypeCommand, ID: newID(), Operation: operation, Session: wire.Session{Key: r.session, Title: "pi-chrome smoke"},
		Input: raw, DeadlineMs: deadlineMs, Trace: r.tabTrace(),
	}, nil)
	if err != nil {
		return out, fmt.Errorf("%s: %w", operation, err)
	}
	return out, nil
}

func value[T any](out client.Outcome) (T, error) {
	var v T
	if err := json.Unmarshal(out.Result.Value, &v); err != nil {
		return v, fmt.Errorf("reading the result %s: %w", out.Result.Value, err)
	}
	return v, nil
}

// pages are the addresses of the open pages, as the browser itself lists them.
func (r *run) pages(ctx context.Context) ([]string, error) {
	list, err := r.box.Browser.Targets(ctx)
	if err != nil {
		return nil, err
	}
	var urls []string
	for _, t := range list {
		if t.Type == "page" {
			urls = append(urls, t.URL)
		}
	}
	return urls, nil
}

// until waits until the condition holds.
func (r *run) until(ctx context.Context, otherwise string, holds func() (bool, error)) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := holds()
		if ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-r.box.Browser.Done():
			return errors.New("the browser has ended")
		case <-ctx.Done():
			return errors.New(otherwise)
		}
	}
}

// unexpected is the error of a command that did not fail as it must.
func unexpected(what string, err error, want op.Code) error {
	if err == nil {
		return fmt.Errorf("%s succeeded; it must be refused: %s", what, want)
	}
	return fmt.Errorf("%s failed otherwise than as %s: %w", what, want, err)
}

// newID is a random UUID.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, see crypto/rand
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
