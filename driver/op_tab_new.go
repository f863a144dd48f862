package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"pi-chrome/cdpmodel"
	"pi-chrome/driver/op"
)

// TabNewIn is the input of chrome_tab_new.
type TabNewIn struct {
	URL        string `json:"url,omitzero" minLength:"1" brief:"" jsonschema:"the address to open; about:blank when absent"`
	GroupColor string `json:"groupColor,omitzero" enum:"grey|blue|red|yellow|green|pink|purple|cyan|orange" brief:"-" jsonschema:"color of the session's tab group; blue when absent"`
	Background *bool  `json:"background,omitempty" brief:"" jsonschema:"whether the tab opens behind the one that is shown; default is the session's setting"`
}

var opTabNew = op.Define(op.Spec{
	Name: "tab.new", Tool: "chrome_tab_new", Profile: "tabs", Title: "Tab New",
	Summary: "Open a tab that belongs to this session.",
	Brief:   "Open a tab of yours.",
	Doc: "Opens a tab in an open window of the user's browser, owned by the session and shown in the session's tab group. " +
		"It opens behind the tab that is shown, unless the session may take the focus and `background` does not say otherwise. A session owns at most 5 tabs. With `url` it returns when the page has committed.",
	Effect: op.MayMutate, Verb: op.VerbTab, Opens: "url", Deadline: op.DefaultDeadline, Tab: op.NoTab, Args: []string{"url"},
	Examples: []op.Example{{Title: "Open a page in a tab of its own", Input: json.RawMessage(`{"url":"{{base}}/navigate/plain.html"}`)}},
	Errors:   []op.Code{op.BackgroundMode, op.AutomationTargetLimit, op.ChromeWindowRequired, op.NavigationFailed, op.ProtectedTabURL},
}, tabNew)

// Check refuses what is no address.
func (in TabNewIn) Check() error {
	if in.URL == "" {
		return nil
	}
	return checkAddress("chrome_tab_new", in.URL)
}

func tabNew(ctx context.Context, c *Call, in TabNewIn) (op.Tab, error) {
	if c.Browser == nil {
		return op.Tab{}, unsupported("chrome_tab_new")
	}
	if err := checkDriven(in.URL); err != nil {
		return op.Tab{}, err
	}
	if err := c.mayShow(in.Background); err != nil {
		return op.Tab{}, err
	}
	front := c.Session.Foreground
	if in.Background != nil {
		front = !*in.Background
	}
	c.begin()
	conn, err := c.Browser.NewTab(ctx, in.GroupColor)
	if err != nil {
		return op.Tab{}, err
	}
	var tab op.Tab
	if blank := in.URL == "" || in.URL == "about:blank"; !blank || front {
		if tab, err = c.openIn(ctx, conn, in.URL, front); err != nil {
			return op.Tab{}, opened(conn, c.explain("tab.new", err))
		}
	} else if tab, err = conn.Info(ctx); err != nil {
		return op.Tab{}, opened(conn, c.explain("tab.new", err))
	}
	tab.Owned = true
	return tab, nil
}

// opened is the error of what went wrong in a tab that was made: whatever it
// was, the tab is there, and the same command would make another.
func opened(conn Conn, err error) *op.Error {
	e, id := op.AsError(err), conn.Key().TabID
	e.Kind = op.OutcomeUnknown
	e.Message = fmt.Sprintf("tab %d was opened and belongs to the session, but %s", id, e.Message)
	// What the hint says of sending it again holds for the rest of it only.
	next := "What is left to do is a chrome_navigate in that tab: another chrome_tab_new opens another one."
	if e.Hint = strings.TrimRight(e.Hint, "."); e.Hint != "" {
		next = e.Hint + ". " + next
	}
	e.Hint = next
	return e.WithDetail("tabId", id)
}

// openIn takes a fresh tab to its first page, and shows it first where it is to
// be in front.
func (c *Call) openIn(ctx context.Context, conn Conn, url string, front bool) (op.Tab, error) {
	t, err := c.driver.tab(conn)
	if err != nil {
		return op.Tab{}, err
	}
	t.serve(c.Session.Key, &c.driver.dialogs)
	if err := t.ready(ctx, "page.navigate"); err != nil {
		return op.Tab{}, err
	}
	if front {
		if err := t.show(ctx); err != nil {
			return op.Tab{}, err
		}
	}
	if url == "" || url == "about:blank" {
		return conn.Info(ctx)
	}
	if _, _, err = t.navigate(ctx, c, url, cdpmodel.Commit, 15*time.Second, ""); err != nil {
		return op.Tab{}, err
	}
	return t.info(ctx)
}
