package pihost_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"pi-chrome/bridge"
	"pi-chrome/cmd/internal/cli"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/cmd/internal/sandbox"
	"pi-chrome/fixtures"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"pi-chrome": func() { os.Exit(cli.Main()) }})
}

// stage is a real Pi beside a real browser.
type stage struct {
	t     *testing.T
	box   *sandbox.Sandbox
	model *model
	shop  *fixtures.Server
	site  string
	agent string // Pi's folder, with the package installed
	work  string // Pi's working folder
}

func newStage(t *testing.T) *stage {
	exe, err := owner.Executable()
	assert.NilError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	box, err := sandbox.Start(ctx, sandbox.Options{Executable: exe, Note: t.Logf})
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, box.Close()) })
	shop := fixtures.New()
	server := httptest.NewServer(shop)
	t.Cleanup(server.Close)
	return &stage{t: t, box: box, model: startModel(t), shop: shop, site: server.URL, agent: t.TempDir(), work: t.TempDir()}
}

// env is Pi's environment: that of the sandbox, and nothing of the machine's
// own Pi.
func (s *stage) env(bin string) []string {
	env := append(os.Environ(), s.box.Env()...)
	env = append(env, "PI_CODING_AGENT_DIR="+s.agent, "PI_OFFLINE=1", "PI_TELEMETRY=0", "PI_SKIP_VERSION_CHECK=1", "HOME="+s.work, "NO_PROXY=*")
	path := os.Getenv("PATH")
	for _, v := range s.box.Env() {
		if name, value, _ := strings.Cut(v, "="); name == "PATH" {
			path = value
		}
	}
	return append(env, "PATH="+bin+string(os.PathListSeparator)+path)
}

// install puts the package and the scripted model into Pi's folder.
func (s *stage) install() {
	cmd := exec.Command(s.program(), "pi", "install")
	cmd.Env = s.env(s.work)
	out, err := cmd.CombinedOutput()
	assert.NilError(s.t, err, "%s", out)
	models, err := json.Marshal(map[string]any{"providers": map[string]any{"scripted": map[string]any{
		"baseUrl": s.model.server.URL + "/v1", "api": "openai-completions", "apiKey": "none",
		"models": []any{map[string]any{"id": "scripted", "input": []string{"text", "image"}, "contextWindow": 200000, "maxTokens": 8000}},
	}}})
	assert.NilError(s.t, err)
	assert.NilError(s.t, os.WriteFile(filepath.Join(s.agent, "models.json"), models, 0o600))
}

// program is pi-chrome as a program of its own name.
func (s *stage) program() string {
	path, err := exec.LookPath("pi-chrome")
	assert.NilError(s.t, err)
	return path
}

// piProcess is one Pi in RPC mode.
type piProcess struct {
	*stage
	cmd    *exec.Cmd
	in     io.WriteCloser
	events chan map[string]any
	next   int
	log    strings.Builder // the transcript
}

// start starts the Pi of an npm folder.
func (s *stage) start(folder string) *piProcess {
	modules := filepath.Join(folder, "node_modules")
	node := "node"
	bin := filepath.Join(modules, ".bin")
	if _, err := os.Stat(filepath.Join(bin, "node")); err == nil {
		node = filepath.Join(bin, "node")
	}
	entry, err := filepath.EvalSymlinks(filepath.Join(bin, "pi"))
	assert.NilError(s.t, err, "Pi is not installed; run make needs")
	cmd := exec.CommandContext(s.t.Context(), node, entry, "--mode", "rpc", "--provider", "scripted", "--model", "scripted",
		"--session-dir", filepath.Join(s.agent, "sessions"), "--no-builtin-tools")
	cmd.Env, cmd.Dir = s.env(bin), s.work
	var stderr strings.Builder
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	assert.NilError(s.t, err)
	out, err := cmd.StdoutPipe()
	assert.NilError(s.t, err)
	assert.NilError(s.t, cmd.Start())
	p := &piProcess{stage: s, cmd: cmd, in: in, events: make(chan map[string]any, 4096)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(p.events)
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadBytes('\n')
			var e map[string]any
			if json.Unmarshal(line, &e) == nil {
				p.events <- e
			}
			if err != nil {
				return
			}
		}
	}()
	s.t.Cleanup(func() {
		_ = in.Close() // it may have ended
		<-read
		_ = cmd.Wait() // its end is checked where it matters
		if s.t.Failed() {
			s.t.Logf("Pi said:\n%s\ntranscript:\n%s", stderr.String(), p.log.String())
		}
	})
	return p
}

// send sends one command of the RPC mode and returns its id.
func (p *piProcess) send(kind string, fields map[string]any) string {
	p.next++
	id := fmt.Sprintf("r%d", p.next)
	m := map[string]any{"id": id, "type": kind}
	for k, v := range fields {
		m[k] = v
	}
	line, err := json.Marshal(m)
	assert.NilError(p.t, err)
	_, err = p.in.Write(append(line, '\n'))
	assert.NilError(p.t, err)
	return id
}

// until reads events until one matches, and keeps the transcript.
func (p *piProcess) until(what string, match func(map[string]any) bool) map[string]any {
	limit := time.After(60 * time.Second)
	for {
		select {
		case e, ok := <-p.events:
			if !ok {
				p.t.Fatalf("Pi ended before %s", what)
			}
			p.note(e)
			if match(e) {
				return e
			}
		case <-limit:
			p.t.Fatalf("no %s in 60 s", what)
		}
	}
}

func typed(kind string) func(map[string]any) bool {
	return func(e map[string]any) bool { return e["type"] == kind }
}

// note adds to the transcript what a user or a model sees.
func (p *piProcess) note(e map[string]any) {
	switch e["type"] {
	case "extension_ui_request":
		switch e["method"] {
		case "notify":
			fmt.Fprintf(&p.log, "notify: %s\n", e["message"])
		case "confirm":
			fmt.Fprintf(&p.log, "confirm: %s: %s\n", e["title"], e["message"])
			p.send("extension_ui_response", map[string]any{"id": e["id"], "confirmed": false})
		case "setStatus":
			// Told again it is no news.
			line := fmt.Sprintf("status: %v\n", e["statusText"])
			if !strings.HasSuffix(p.log.String(), line) {
				p.log.WriteString(line)
			}
		}
	case "tool_execution_start":
		args, _ := json.Marshal(e["args"])
		fmt.Fprintf(&p.log, "call: %s %s\n", e["toolName"], args)
	case "tool_execution_end":
		word := "result"
		if e["isError"] == true {
			word = "failed"
		}
		text, kinds := content(e["result"])
		fmt.Fprintf(&p.log, "%s%s: %s\n", word, kinds, text)
	case "extension_error":
		p.t.Errorf("the extension failed: %v", e)
	}
}

// content is the text of a tool's result and the kinds of its other parts.
func content(result any) (text, kinds string) {
	m, _ := result.(map[string]any)
	parts, _ := m["content"].([]any)
	for _, part := range parts {
		c, _ := part.(map[string]any)
		if c["type"] == "text" {
			text += fmt.Sprint(c["text"])
		} else {
			kinds += fmt.Sprintf(" +%v", c["type"])
		}
	}
	return text, kinds
}

// chrome runs /chrome and returns what the user is told.
func (p *piProcess) chrome(args string) string {
	fmt.Fprintf(&p.log, "\nuser: /chrome %s\n", args)
	id := p.send("prompt", map[string]any{"message": "/chrome " + args})
	told := ""
	p.until("answer to /chrome "+args, func(e map[string]any) bool {
		if e["method"] == "notify" {
			told += fmt.Sprint(e["message"])
		}
		return e["type"] == "response" && e["id"] == id
	})
	return told
}

// ask has the model play its script after a user's prompt.
func (p *piProcess) ask(prompt string, script func(chat) turn) {
	var said atomic.Bool
	p.model.play(func(c chat) turn {
		t := script(c)
		said.Store(t.tool == "")
		return t
	})
	p.say(prompt)
	// A run may be continued by another before the model has said its last.
	p.until("end of the run", func(e map[string]any) bool { return e["type"] == "agent_end" && said.Load() })
}

// say sends a user's prompt.
func (p *piProcess) say(prompt string) {
	fmt.Fprintf(&p.log, "\nuser: %s\n", prompt)
	p.send("prompt", map[string]any{"message": prompt})
}

// session is the key of Pi's session at the owner.
func (p *piProcess) session() string {
	id := p.send("get_state", nil)
	e := p.until("state", func(e map[string]any) bool { return e["type"] == "response" && e["id"] == id })
	data, _ := e["data"].(map[string]any)
	return fmt.Sprintf("session:%v", data["sessionId"])
}

// owner is how the owner sees a session.
func (s *stage) owner(session string) bridge.SessionStatus {
	c, err := s.box.Dial(s.t.Context())
	assert.NilError(s.t, err)
	defer c.Close()
	st, err := owner.Status(s.t.Context(), c, session)
	assert.NilError(s.t, err)
	return st.Session
}

// shell runs pi-chrome as a person would beside Pi.
func (s *stage) shell(args ...string) {
	cmd := exec.Command(s.program(), args...)
	cmd.Env = s.env(s.work)
	out, err := cmd.CombinedOutput()
	assert.NilError(s.t, err, "%s", out)
}

// steps is a script that plays turns one after the other.
func steps(turns ...func(chat) turn) func(chat) turn {
	n := 0
	return func(c chat) turn {
		n++
		if n > len(turns) {
			return say("done")
		}
		return turns[n-1](c)
	}
}

func always(t turn) func(chat) turn { return func(chat) turn { return t } }

// ref finds the ref of a line in the newest message that has all words.
func ref(c chat, words string) string {
	for _, line := range strings.Split(c.last(), "\n") {
		if m := refLine.FindStringSubmatch(line); m != nil && strings.Contains(line, words) {
			return m[1]
		}
	}
	return "el-0" // the call then fails, and its error names it
}

var refLine = regexp.MustCompile(`@(el-\d+) `)

func (s *stage) chromeTools() []string {
	var names []string
	for _, name := range s.model.chat().tools() {
		if strings.HasPrefix(name, "chrome_") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

var core = []string{"chrome_click", "chrome_do", "chrome_enable", "chrome_fill", "chrome_navigate", "chrome_press", "chrome_read", "chrome_snapshot", "chrome_status"}

// TestPi has a model use the browser through the real Pi: the oldest Node that
// the package supports, and the newest Pi.
func TestPi(t *testing.T) {
	root := moduleRoot(t)
	s := newStage(t)
	s.install()
	for _, folder := range []string{"pi-node20", "pi-latest"} {
		t.Run(folder, func(t *testing.T) {
			sub := *s
			sub.t = t
			conversation(&sub, filepath.Join(root, ".build", folder))
		})
	}
}

func conversation(s *stage, folder string) {
	t := s.t
	p := s.start(folder)
	p.ask("are you there", always(say("yes")))
	assert.Equal(t, len(s.chromeTools()), 0, "a locked session offers no tool")

	told := p.chrome("authorize 30m")
	assert.Assert(t, strings.Contains(told, "This session may use the browser until "), told)
	product := s.shop.Shop.Products()[0]
	size := product.Sizes[0]
	snapshot := map[string]any{"mode": "interactive"}
	p.ask("choose a lamp", steps(
		always(call("chrome_navigate", map[string]any{"url": s.site + "/shop/product/" + product.Slug, "waitUntilLoad": true, "snapshot": snapshot})),
		func(c chat) turn { return call("chrome_fill", map[string]any{"ref": ref(c, `"Size"`), "text": size}) },
		always(call("chrome_snapshot", snapshot)),
		func(c chat) turn {
			return call("chrome_fill", map[string]any{"ref": ref(c, `"Quantity"`), "text": "2"})
		},
		always(call("chrome_snapshot", snapshot)),
		func(c chat) turn { return call("chrome_click", map[string]any{"ref": ref(c, `radio "Black"`)}) },
		always(call("chrome_enable", map[string]any{"profile": "page"})),
		always(call("chrome_wait", map[string]any{"condition": map[string]any{"by": "textContains", "value": product.Name}})),
		always(call("chrome_enable", map[string]any{"profile": "capture"})),
		always(call("chrome_screenshot", map[string]any{"capture": map[string]any{"kind": "viewport"}, "format": "png"})),
	))
	assert.DeepEqual(t, s.chromeTools(), slices.Sorted(slices.Values(append([]string{"chrome_evaluate", "chrome_find", "chrome_inspect", "chrome_screenshot", "chrome_wait"}, core...))))

	p.ask("click what is not there", steps(always(call("chrome_click", map[string]any{"ref": "el-99999"}))))

	p.model.play(steps(always(call("chrome_wait", map[string]any{"condition": map[string]any{"by": "textContains", "value": "never"}, "timeoutMs": 60000}))))
	p.say("wait for what never comes")
	p.until("start of the wait", func(e map[string]any) bool {
		return e["type"] == "tool_execution_start" && e["toolName"] == "chrome_wait"
	})
	p.send("abort", nil)
	p.until("end of the aborted run", typed("agent_end"))

	told = p.chrome("forget")
	assert.Equal(t, told, "Nothing was changed.", "a confirmation that is declined")

	told = p.chrome("revoke")
	assert.Equal(t, told, "Chrome is locked for this session.")
	p.ask("are you still there", always(say("yes")))
	assert.Equal(t, len(s.chromeTools()), 0, "a revoked session offers no tool")

	// Locked from outside Pi, as by the popup.
	p.chrome("authorize")
	first := p.session()
	assert.Equal(t, s.owner(first).Authorization, bridge.AuthorizedIndefinite)
	s.shell("revoke", "--session", first)
	p.until("word of the lock", func(e map[string]any) bool { return e["method"] == "notify" })
	p.ask("and now", always(say("yes")))
	assert.Equal(t, len(s.chromeTools()), 0, "a session locked from outside offers no tool")

	// Another session of the same Pi starts locked, and the tabs of the one
	// before are closed.
	assert.Equal(t, len(s.owner(first).Targets), 1)
	p.chrome("authorize")
	id := p.send("new_session", nil)
	p.until("new session", func(e map[string]any) bool { return e["type"] == "response" && e["id"] == id })
	p.ask("hello", always(say("hello")))
	assert.Equal(t, len(s.chromeTools()), 0, "a new session offers no tool")
	assert.Equal(t, len(s.owner(first).Targets), 0, "the tabs of the session before are closed")

	// The end of Pi closes the tabs of its session.
	p.chrome("authorize")
	p.ask("open the shop", steps(always(call("chrome_navigate", map[string]any{"url": s.site + "/shop/", "waitUntilLoad": true}))))
	second := p.session()
	assert.Assert(t, second != first)
	assert.Equal(t, len(s.owner(second).Targets), 1)
	assert.NilError(t, p.in.Close())
	for range p.events {
	}
	assert.Equal(t, len(s.owner(second).Targets), 0, "the tabs are closed at the end of Pi")

	golden.Assert(t, s.plain(p.log.String()), filepath.Base(folder)+".golden.txt")
}

var volatile = []struct {
	re *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`until \d\d:\d\d(:\d\d)?( [AP]M)?`), "until TIME"},
	{regexp.MustCompile(`session:[0-9a-f-]{36}`), "session:ID"},
	// The abort may come before the call has left, or later.
	{regexp.MustCompile(`error: interrupted; .*canceled.*\n(hint: the caller canceled it\n)?`), "error: interrupted\n"},
	{regexp.MustCompile(`\btab \d+`), "tab N"},
	{regexp.MustCompile(`\d{13}-[0-9a-f-]{36}`), "PICTURE"},
	{regexp.MustCompile(`\b\d+ ms\b`), "N ms"},
	{regexp.MustCompile(`elapsed: \d+ms`), "elapsed: Nms"},
}

// plain is a transcript without what differs from run to run.
func (s *stage) plain(log string) string {
	log = strings.ReplaceAll(log, s.site, "SITE")
	log = strings.ReplaceAll(log, s.work, "WORK")
	for _, v := range volatile {
		log = v.re.ReplaceAllString(log, v.to)
	}
	return log
}

func moduleRoot(t *testing.T) string {
	dir, err := os.Getwd()
	assert.NilError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		assert.Assert(t, parent != dir, "no go.mod above the test")
		dir = parent
	}
}
