package relaytest

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"pi-chrome/cmd/internal/cli"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/op"
	"pi-chrome/driver/pagecases"
	"pi-chrome/extension"
)

// The binary of the tests is the owner too.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"pi-chrome": func() { os.Exit(cli.Main()) }})
}

func TestHeadless(t *testing.T) {
	t.Parallel()
	l := Start(t, false)
	pageTests(t, l)
	t.Run("a data address", func(t *testing.T) { dataAddress(t, l) })
	t.Run("tabs that ask before they close", func(t *testing.T) { closesAsking(t, l) })
	t.Run("worker stopped", func(t *testing.T) { workerStopped(t, l) })
	t.Run("pictures", func(t *testing.T) { pictures(t, l) })
	t.Run("owner killed", func(t *testing.T) { ownerKilled(t, l) })
	t.Run("interrupted command", func(t *testing.T) { interrupted(t, l) })
	t.Run("page cases", func(t *testing.T) { pageCases(t, l, pagecases.All()) })
	t.Run("goldens", func(t *testing.T) { pageCases(t, l, pagecases.Goldens(false)) })
}

// pageTests hold in every lane.
func pageTests(t *testing.T, l *Lane) {
	t.Run("see and act", func(t *testing.T) {
		s := l.Session(t)
		s.Open(l.URL + "/counter/click.html?id=" + s.Key)
		ref := s.Ref("Count")
		for range 3 {
			s.Do("input.click", map[string]any{"ref": ref})
		}
		waitCount(t, l, s.Key, 3)
		text := s.Do("page.read", map[string]any{}).Text
		assert.Assert(t, strings.Contains(text, "Seen by this page: 3"), text)
	})
	t.Run("a ref of the page before is stale", func(t *testing.T) {
		s := l.Session(t)
		s.Open(l.URL + "/counter/click.html?id=" + s.Key)
		ref := s.Ref("Count")
		s.Open(l.URL + "/counter/form.html?id=" + s.Key)
		e := s.Fail("input.click", map[string]any{"ref": ref})
		assert.Equal(t, e.Code, op.StaleActionRef)
		assert.Equal(t, e.Kind, op.Rejected)
		assert.Equal(t, l.Site.Counter.Count(s.Key), 0)
	})
	t.Run("sessions do not see each other's tabs", func(t *testing.T) {
		a, b := l.Session(t), l.Session(t)
		a.Open(l.URL + "/counter/click.html?id=" + a.Key)
		b.Open(l.URL + "/counter/form.html?id=" + b.Key)
		assert.Assert(t, strings.HasSuffix(Value[Snapshot](t, a.Do("page.snapshot", map[string]any{})).URL, "click.html?id="+a.Key))
		assert.Assert(t, strings.HasSuffix(Value[Snapshot](t, b.Do("page.snapshot", map[string]any{})).URL, "form.html?id="+b.Key))
	})
	t.Run("fill and submit", func(t *testing.T) {
		s := l.Session(t)
		s.Open(l.URL + "/counter/form.html?id=" + s.Key)
		s.Do("input.fill", map[string]any{"ref": s.Ref("Note"), "text": "Grüße", "submit": true})
		waitCount(t, l, s.Key, 1)
	})
}

func waitCount(t *testing.T, l *Lane, id string, want int) {
	t.Helper()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		switch got := l.Site.Counter.Count(id); {
		case got > want:
			return poll.Error(errTooMany)
		case got == want:
			return poll.Success()
		default:
			return poll.Continue("%d clicks counted, %d wanted", got, want)
		}
	})
}

type countError string

func (e countError) Error() string { return string(e) }

const errTooMany = countError("the server counted more clicks than were made")

// closesAsking closes tabs that a dialog keeps open: one that is open already,
// and the question of a page whether it may be left.
func closesAsking(t *testing.T, l *Lane) {
	s := l.Session(t)
	for _, expression := range []string{
		"void setTimeout(() => alert('stay'))",
		"void setTimeout(() => confirm('stay?'))",
		"(onbeforeunload = (e) => e.preventDefault(), 1)",
		"(onbeforeunload = (e) => e.preventDefault(), void setTimeout(() => prompt('stay?')))",
	} {
		s.Open(l.URL + "/counter/blocking.html?id=" + s.Key)
		s.Do("input.click", map[string]any{"selector": "#count"}) // Chrome asks for no page that nobody touched
		// The dialog may open before the answer is there, which then tells it.
		if _, err := s.as(false, "page.evaluate", map[string]any{"expression": expression}); err != nil {
			assert.ErrorIs(t, err, &op.Error{Code: op.DialogOpen})
		}
		if strings.Contains(expression, "setTimeout") {
			until(t, 5*time.Second, "no dialog has opened", func() bool {
				return Value[struct{ Open bool }](t, s.Do("page.dialog", map[string]any{"action": "inspect"})).Open
			})
		}
		began := time.Now()
		s.Do("tab.close", map[string]any{})
		assert.Assert(t, time.Since(began) < 5*time.Second, "%s: closing took %s", expression, time.Since(began))
	}
}

// ownerKilled kills the owner with nothing in flight: the next command of a
// new program works, in the tab that the session had.
func ownerKilled(t *testing.T, l *Lane) {
	s := l.Session(t)
	s.Open(l.URL + "/counter/click.html?id=" + s.Key)
	assert.NilError(t, l.KillOwner())
	assert.NilError(t, l.StartOwner())
	s.Do("input.click", map[string]any{"ref": s.Ref("Count")})
	waitCount(t, l, s.Key, 1)
}

// workerStopped stops the extension's worker with nothing in flight: the next
// command works, and its caller sees nothing of it.
func workerStopped(t *testing.T, l *Lane) {
	s := l.Session(t)
	s.Open(l.URL + "/counter/click.html?id=" + s.Key)
	ref := s.Ref("Count")
	assert.NilError(t, l.Browser.StopWorker(t.Context(), "chrome-extension://"+extension.ID))
	s.Do("input.click", map[string]any{"ref": ref})
	waitCount(t, l, s.Key, 1)
}

// interrupted interrupts a command that waits: it ends at once with the exit
// code of an interrupt and says that it was canceled.
func interrupted(t *testing.T, l *Lane) {
	s := l.Session(t)
	s.Open(l.URL + "/counter/click.html?id=" + s.Key)
	exe, err := owner.Executable()
	assert.NilError(t, err)
	var stdout, stderr strings.Builder
	cmd := exec.Command(exe)
	cmd.Args = []string{"pi-chrome", "wait", "--text", "never", "--timeout-ms", "60000", "--session", s.Key}
	cmd.Env = append(os.Environ(), l.Env()...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	assert.NilError(t, cmd.Start())
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		st, err := owner.Status(t.Context(), s.Client, s.Key)
		if err != nil {
			return poll.Error(err)
		}
		if st.Session.Executing != 1 {
			return poll.Continue("%d commands run", st.Session.Executing)
		}
		return poll.Success()
	})
	assert.NilError(t, cmd.Process.Signal(os.Interrupt))
	started := time.Now()
	err = cmd.Wait()
	assert.Assert(t, time.Since(started) < 5*time.Second)
	exit, ok := errors.AsType[*exec.ExitError](err)
	assert.Assert(t, ok, "it ended with %v", err)
	assert.Equal(t, exit.ExitCode(), 130, stderr.String())
	assert.Equal(t, stdout.String(), "")
	assert.Assert(t, strings.HasPrefix(stderr.String(), "pi-chrome: error: interrupted"), stderr.String())
}
