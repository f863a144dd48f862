package bridge

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
)

// The conversations of testdata/conversations: one folder for each state
// machine, in it what goes well and what does not. A file says what it shows,
// and then who says what, and when:
//
//	0s  cli   > click c1 tab=1
//	0s  driver < begins c1 tab=1
//	2s  driver > finish c1
//	2s  cli   < done c1
//
// The first column is the virtual time since the beginning, the second is who.
// ">" is done to the owner, by a program, a browser, its user or the driver;
// "<" is what they hear of it. The whole of it must come out as it stands:
// what is missing fails, and so does one answer too many. The programs speak
// over owner sockets, and the browsers over the extension's, with an owner that
// is whole but for the port: relay, leases, sessions, mailboxes and a state.db.
//
// go test ./bridge -run TestConversations -update writes what was heard anew.
var machines = []string{"authorization", "handover", "handshake", "lease", "mailbox", "ownership", "pairing"}

const conversations = "testdata/conversations"

func TestConversations(t *testing.T) {
	played := map[string]int{}
	err := filepath.WalkDir(conversations, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel := strings.TrimPrefix(filepath.ToSlash(name), conversations+"/")
		machine, base := path.Split(rel)
		kind, _, _ := strings.Cut(base, "-")
		if !slices.Contains(machines, path.Clean(machine)) || kind != "good" && kind != "bad" || path.Ext(base) != ".txtar" {
			t.Errorf("nobody plays %s: a conversation is MACHINE/good-….txtar or MACHINE/bad-….txtar, of %v", name, machines)
			return nil
		}
		played[path.Clean(machine)+" "+kind]++
		t.Run(strings.TrimSuffix(rel, ".txtar"), func(t *testing.T) { playFile(t, rel) })
		return nil
	})
	assert.NilError(t, err)
	for _, m := range machines {
		for _, kind := range []string{"good", "bad"} {
			assert.Check(t, played[m+" "+kind] > 0, "no %s conversation of %s", kind, m)
		}
	}
}

// playFile plays one conversation and compares what was heard.
func playFile(t *testing.T, rel string) {
	name := filepath.Join(conversations, filepath.FromSlash(rel))
	raw, err := os.ReadFile(name)
	assert.NilError(t, err)
	archive := txtar.Parse(raw)
	assert.Assert(t, len(strings.TrimSpace(string(archive.Comment))) > 0, "%s does not say what it shows", name)
	var world string
	script := -1
	for i, f := range archive.Files {
		switch f.Name {
		case "world":
			world = string(f.Data)
		case "conversation":
			script = i
		default:
			t.Fatalf("%s: there is no section %q", name, f.Name)
		}
	}
	assert.Assert(t, script >= 0, "%s holds no conversation", name)
	lines := parseScript(t, string(archive.Files[script].Data))
	var heard string
	synctest.Test(t, func(t *testing.T) { heard = newStage(t, world).play(lines) })
	archive.Files[script].Data = []byte(heard)
	golden.Assert(t, string(txtar.Format(archive)), filepath.Join("conversations", filepath.FromSlash(rel)))
	assert.Check(t, bytes.Contains([]byte(heard), []byte(" < ")), "nobody hears anything")
}

// line is one line of a script, or something that was heard.
type line struct {
	at      time.Duration
	who     string
	said    bool // ">", to the owner
	text    string
	comment string // of its own: nothing else is set
	last    bool   // after all else that who hears at that moment
}

// parseScript reads a conversation. What was heard is dropped: it comes again.
func parseScript(t *testing.T, text string) []line {
	t.Helper()
	var lines []line
	for n, l := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		l = strings.TrimSpace(l)
		if l == "" || strings.HasPrefix(l, "#") {
			lines = append(lines, line{comment: l})
			continue
		}
		words := strings.Fields(l)
		if len(words) < 4 || words[2] != ">" && words[2] != "<" {
			t.Fatalf("line %d of the conversation is not TIME WHO > WHAT: %s", n+1, l)
		}
		at, err := time.ParseDuration(words[0])
		assert.NilError(t, err, "line %d of the conversation", n+1)
		if words[2] == ">" {
			lines = append(lines, line{at: at, who: words[1], said: true, text: strings.Join(words[3:], " ")})
		}
	}
	return lines
}

// transcript is what was said and heard, in order.
type transcript struct {
	mu    sync.Mutex
	start time.Time
	order []string // of who, for those that hear something at the same moment
	lines []line
	last  int // of the sorted ones
	muted bool
}

func (x *transcript) mute(on bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.muted = on
}

func (x *transcript) hear(who, format string, args ...any) {
	x.add(line{who: who, text: fmt.Sprintf(format, args...)})
}

// hearLast is for what another goroutine hears than all else of who.
func (x *transcript) hearLast(who, format string, args ...any) {
	x.add(line{who: who, text: fmt.Sprintf(format, args...), last: true})
}

func (x *transcript) add(l line) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.muted {
		return
	}
	l.at = time.Since(x.start)
	x.lines = append(x.lines, l)
}

// say adds a line of the script. What was heard since the one before is put
// into an order that does not depend on which goroutine ran first: by time,
// then by who, and of each in the order in which it was heard.
func (x *transcript) say(l line) {
	x.mu.Lock()
	defer x.mu.Unlock()
	rank := func(l line) int {
		if i := slices.Index(x.order, l.who); i >= 0 {
			return i
		}
		return len(x.order)
	}
	order := func(l line) int {
		if l.last {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(x.lines[x.last:], func(a, b line) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(rank(a), rank(b)), strings.Compare(a.who, b.who), cmp.Compare(order(a), order(b)))
	})
	x.lines = append(x.lines, l)
	x.last = len(x.lines)
}

func (x *transcript) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	var b strings.Builder
	var at, who int
	for _, l := range x.lines {
		at, who = max(at, len(clock(l.at))), max(who, len(l.who))
	}
	for _, l := range x.lines {
		switch {
		case l.said:
			fmt.Fprintf(&b, "%-*s  %-*s > %s\n", at, clock(l.at), who, l.who, l.text)
		case l.who != "":
			fmt.Fprintf(&b, "%-*s  %-*s < %s\n", at, clock(l.at), who, l.who, l.text)
		default:
			fmt.Fprintln(&b, l.comment)
		}
	}
	return b.String()
}

// clock writes 5m instead of 5m0s.
func clock(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
