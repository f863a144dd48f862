package relaytest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"pi-chrome/driver/drivertest"
)

// Chrome refuses files to an extension without "Allow access to file URLs",
// which one that was loaded from the command line has: here it is taken away,
// as a user's browser has it. Uploads work all the same.
func TestFileAccess(t *testing.T) {
	t.Parallel()
	l := Start(t, false)
	p, err := l.Browser.NewPage(t.Context(), nil)
	assert.NilError(t, err)
	drivertest.Goto(t, p, "chrome://extensions")
	const ours = `chrome.developerPrivate.getExtensionsInfo().then((all) => all.find((e) => e.name === "pi-chrome"))`
	drivertest.Eval(t, p, `(async () => {
		await chrome.developerPrivate.updateProfileConfiguration({inDeveloperMode: true});
		await chrome.developerPrivate.updateExtensionConfiguration({extensionId: (await `+ours+`).id, fileAccess: false});
	})()`)
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if drivertest.Eval(t, p, ours+`.then((e) => e.state === "ENABLED" && !e.fileAccess.isActive)`) == "true" {
			return poll.Success()
		}
		return poll.Continue("the extension is not back yet")
	})
	note := filepath.Join(t.TempDir(), "note.txt")
	assert.NilError(t, os.WriteFile(note, []byte("hello"), 0o600))
	s := l.Session(t)
	s.Open(l.URL + "/input/upload.html")
	for _, tt := range []struct{ selector, how, lines string }{
		{"#one", "input", "input one untrusted|change one untrusted|one note.txt|5|text/plain|hello"},
		{"#attach", "chooser", "input attached untrusted|change attached untrusted|attached note.txt|5|text/plain|hello"},
		{"#zone", "drop", "drop untrusted|zone note.txt|5|text/plain|hello"},
	} {
		s.Do("page.evaluate", map[string]any{"expression": "lines.length = 0"})
		r := s.Do("input.upload", map[string]any{"selector": tt.selector, "paths": []string{note}})
		got := Value[struct {
			How   string `json:"how"`
			Built bool   `json:"built"`
		}](t, r)
		assert.Equal(t, got.How, tt.how)
		assert.Assert(t, got.Built && strings.Contains(r.Text, "Allow access to file URLs"), r.Text)
		text := s.Do("page.evaluate", map[string]any{"expression": `new Promise((done) => {
			const look = () => lines.some((l) => l.includes("hello")) ? done(lines.join("|")) : setTimeout(look, 5);
			look();
		})`}).Text
		assert.Equal(t, text, tt.lines)
	}
}
