package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/op"
)

// TestMain: the test binary under the name pi-chrome is pi-chrome, for shells
// that ask it.
func TestMain(m *testing.M) {
	if strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe") == "pi-chrome" {
		os.Exit(Main())
	}
	os.Exit(m.Run())
}

// testEnv is a process without an owner: its port is one that nobody has.
func testEnv(t *testing.T, vars map[string]string) (Environment, *bytes.Buffer, *bytes.Buffer) {
	t.Helper()
	port, err := owner.FreePort()
	assert.NilError(t, err)
	all := map[string]string{"PI_CHROME_PORT": strconv.Itoa(port), "PI_CHROME_STATE_DIR": filepath.Join(t.TempDir(), "state")}
	for k, v := range vars {
		all[k] = v
	}
	var out, errs bytes.Buffer
	return Environment{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, StderrTerminal: true,
		Getenv: func(name string) string { return all[name] }, Dir: t.TempDir(), Executable: "/nonexistent/pi-chrome",
	}, &out, &errs
}

// testOwner is an owner with two tabs; the first was snapshotted.
type testOwner struct{ closed *int }

func (testOwner) status(_ context.Context, session string) (bridge.Status, error) {
	if session != "default" {
		return bridge.Status{}, errors.New("no such session")
	}
	return bridge.Status{
		Profiles: []bridge.ProfileStatus{{ConnectorInfo: bridge.ConnectorInfo{Label: "At work", Live: true}}, {ConnectorInfo: bridge.ConnectorInfo{Label: "Home"}}},
		Session: bridge.SessionStatus{Targets: []bridge.OwnedTarget{
			{TabID: new(12), Title: "Shop"}, {TabID: new(13)}, {State: "allocating"},
		}},
	}, nil
}

func (testOwner) sessions(context.Context) ([]bridge.SessionStatus, error) {
	return []bridge.SessionStatus{{Key: "default"}, {Key: "shopping"}}, nil
}

func (testOwner) refs(_ context.Context, session string, tab int) ([]op.Ref, error) {
	if session != "default" || tab == 13 {
		return nil, nil
	}
	return []op.Ref{
		{Ref: "el-3", Role: "button", Name: "Save", Verbs: []string{"click"}},
		{Ref: "el-4", Role: "textbox", Name: "Email", Verbs: []string{"fill", "press"}},
	}, nil
}

func (o testOwner) close() { *o.closed++ }

// completed returns the candidates that begin with what is written.
func completed(t *testing.T, line ...string) []string {
	t.Helper()
	env, _, _ := testEnv(t, nil)
	closed := 0
	c := &completer{a: &app{env: env}}
	c.reach = func(context.Context) (liveOwner, error) { return testOwner{&closed}, nil }
	current := line[len(line)-1]
	var out []string
	for _, found := range c.complete(t.Context(), line[:len(line)-1], current) {
		if strings.HasPrefix(found.value, current) || strings.HasPrefix(found.value, ":") {
			out = append(out, found.value)
		}
	}
	if c.owner != nil {
		assert.Equal(t, closed, 1, "the connection stays open")
	}
	return out
}

func TestComplete(t *testing.T) {
	for name, c := range map[string]struct {
		line []string
		want []string
	}{
		"a command":                     {[]string{"tab-c"}, []string{"tab-close", "tab-claim"}},
		"after flags of every command":  {[]string{"--port", "1", "--json", "--session=x", "snaps"}, []string{"snapshot"}},
		"no hidden command":             {[]string{"__"}, nil},
		"an unknown command":            {[]string{"nonsense", ""}, nil},
		"flags":                         {[]string{"click", "--c"}, []string{"--clicks"}},
		"an unknown flag goes by":       {[]string{"click", "--nonsense", "--c"}, []string{"--clicks"}},
		"a flag given already":          {[]string{"click", "--clicks", "2", "--c"}, nil},
		"a list's flag comes again":     {[]string{"upload", "--paths", "a", "--pa"}, []string{"--paths", "--pace"}},
		"not what excludes another":     {[]string{"click", "el-3", "--s"}, []string{"--session", "--state-dir"}},
		"fields of an object":           {[]string{"click", "--find.r"}, []string{"--find.role"}},
		"an object, not its fields":     {[]string{"click", "--fi"}, []string{"--find"}},
		"flags before the command":      {[]string{"--st"}, []string{"--state-dir"}},
		"no flags after --":             {[]string{"fill", "--", "--"}, nil},
		"an enum":                       {[]string{"snapshot", "--mode", "f"}, []string{"forms", "full"}},
		"an enum after =":               {[]string{"snapshot", "--mode=f"}, []string{"--mode=forms", "--mode=full"}},
		"a switch":                      {[]string{"click", "--include-snapshot="}, []string{"--include-snapshot=true", "--include-snapshot=false"}},
		"a switch takes no next word":   {[]string{"click", "--include-snapshot", "el-3"}, []string{"el-3"}},
		"a nested enum":                 {[]string{"navigate", "--snapshot.mode", "int"}, []string{"interactive"}},
		"free text":                     {[]string{"snapshot", "--query", ""}, nil},
		"a number":                      {[]string{"click", "--x", ""}, nil},
		"keys held":                     {[]string{"press", "--modifiers", "shift+"}, []string{"shift+control", "shift+alt", "shift+meta"}},
		"tabs":                          {[]string{"snapshot", "--target", "1"}, []string{"12", "13"}},
		"tabs by =":                     {[]string{"snapshot", "--target=id=1"}, []string{"--target=id=12", "--target=id=13"}},
		"ways to name a tab":            {[]string{"snapshot", "--target", "ti"}, []string{"title="}},
		"a title is free":               {[]string{"snapshot", "--target", "title=Sh"}, nil},
		"refs to click":                 {[]string{"click", ""}, []string{"el-3"}},
		"refs to fill":                  {[]string{"fill", "--ref", "el"}, []string{"el-4"}},
		"refs of a verb nobody grants":  {[]string{"hover", "--ref=el-"}, nil},
		"refs of a look":                {[]string{"snapshot", "--ref", "el"}, []string{"el-3", "el-4"}},
		"refs of a named tab":           {[]string{"click", "--target", "13", ""}, nil},
		"refs of another session":       {[]string{"--session", "other", "click", ""}, nil},
		"refs of a choice":              {[]string{"drag", "--from", "el-"}, []string{"el-3", "el-4"}},
		"refs of a choice by =":         {[]string{"drag", "--from", "uid=el-4"}, []string{"uid=el-4"}},
		"the next argument":             {[]string{"fill", "el-4", ""}, nil},
		"too many arguments":            {[]string{"click", "el-3", ""}, nil},
		"a ref by flag fills its place": {[]string{"fill", "--ref", "el-4", ""}, nil},
		"sessions":                      {[]string{"status", "--session", "s"}, []string{"shopping"}},
		"browsers":                      {[]string{"--browser", ""}, []string{"At work", "Home"}},
		"a program, not a browser":      {[]string{"smoke", "--browser", ""}, []string{":files"}},
		"profiles to forget":            {[]string{"forget", "H"}, []string{"Home"}},
		"words of a usage line":         {[]string{"extension", ""}, []string{"install", "path", "info"}},
		"in brackets":                   {[]string{"log", "v"}, []string{"verify"}},
		"a folder after them":           {[]string{"pi", "install", ""}, []string{":folders"}},
		"shells":                        {[]string{"completion", "z"}, []string{"zsh"}},
		"only one shell":                {[]string{"completion", "zsh", ""}, nil},
		"tools":                         {[]string{"call", "chrome_sn"}, []string{"chrome_snapshot"}},
		"clients":                       {[]string{"mcp", "config", "cl"}, []string{"claude-desktop", "claude-code", "cline"}},
		"items of a list":               {[]string{"mcp", "--profiles", "core,ta"}, []string{"core,tabs"}},
		"files":                         {[]string{"snapshot", "--trace", "/t"}, []string{":files"}},
		"a script":                      {[]string{"run", ""}, []string{":files"}},
		"files after =":                 {[]string{"snapshot", "--trace=/t"}, []string{":files"}},
		"folders":                       {[]string{"--state-dir", ""}, []string{":folders"}},
		"another program's line":        {[]string{"sandbox", "--", "ls", ""}, []string{":files"}},
		"a flag with a bad value":       {[]string{"snapshot", "--max-elements", "lots", "--mode", "te"}, []string{"text"}},
		"a bad port asks nobody":        {[]string{"--port", "nonsense", "click", ""}, nil},
		"the value that comes is text":  {[]string{"snapshot", "--query", "--m"}, nil},
		"time for authorize":            {[]string{"authorize", "i"}, []string{"indefinite"}},
		"help knows commands":           {[]string{"help", "tab-c"}, []string{"tab-close", "tab-claim"}},
		"help knows errors":             {[]string{"help", "err"}, []string{"errors"}},
		"nothing after help's command":  {[]string{"help", "click", ""}, nil},
	} {
		t.Run(name, func(t *testing.T) { assert.DeepEqual(t, completed(t, c.line...), c.want) })
	}
}

// Every flag of every operation is offered, once its object's is written.
func TestCompleteOffersEveryFlag(t *testing.T) {
	list, err := owner.Descriptors()
	assert.NilError(t, err)
	for _, d := range list {
		if d.Tool == "chrome_status" {
			continue // `status` is ours
		}
		for name, s := range d.Input.Properties {
			got := completed(t, d.Command(), "--"+kebab(name))
			assert.Assert(t, slices.Contains(got, "--"+kebab(name)), "%s --%s: %q", d.Command(), kebab(name), got)
			if len(s.Enum) > 0 {
				got := completed(t, d.Command(), "--"+kebab(name), "")
				assert.Equal(t, len(got), len(s.Enum), "%s --%s: %q", d.Command(), kebab(name), got)
			}
		}
	}
}

// TestCompleteIsSilent: without an owner, or with one that does not answer,
// there are no live candidates, no error, no new owner and no long wait.
func TestCompleteIsSilent(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	assert.NilError(t, err)
	defer l.Close() // the kernel takes the connections; nobody answers
	silent := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	dir := t.TempDir()
	// With a credential: without one nothing is even asked.
	ctx, stop := context.WithCancel(t.Context())
	assert.NilError(t, owner.Run(ctx, owner.Options{StateDir: dir, Ready: func(int) { stop() }}))
	for name, args := range map[string][]string{
		"no owner":          {"--", "bash", "click", "="},
		"a silent owner":    {"--state-dir", dir, "--", "zsh", "--port", silent, "--state-dir", dir, "click", "="},
		"no shell":          {"--"},
		"an unknown shell":  {"--", "csh", "click", "="},
		"no current word":   {"--", "bash", "click", "el"},
		"only a shell":      {"--", "bash"},
		"no such command":   {"--", "bash", "nonsense", "="},
		"a hopeless folder": {"--", "fish", "--state-dir", "/dev/null/x", "click", "="},
	} {
		t.Run(name, func(t *testing.T) {
			env, out, errs := testEnv(t, nil)
			began := time.Now()
			assert.Equal(t, Run(t.Context(), env, append([]string{"__complete"}, args...)), exitDone)
			assert.Equal(t, out.String(), "")
			assert.Equal(t, errs.String(), "")
			assert.Assert(t, time.Since(began) < time.Second, "it waited for %s", time.Since(began))
			_, err := os.Stat(env.Getenv("PI_CHROME_STATE_DIR"))
			assert.ErrorIs(t, err, os.ErrNotExist)
		})
	}
}

// TestCompleteAsksARunningOwner: a real owner, without a browser.
func TestCompleteAsksARunningOwner(t *testing.T) {
	dir := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	ready, done := make(chan int, 1), make(chan error, 1)
	go func() {
		done <- owner.Run(ctx, owner.Options{StateDir: dir, Ready: func(port int) { ready <- port }})
	}()
	defer func() {
		stop()
		assert.NilError(t, <-done)
	}()
	env, out, _ := testEnv(t, map[string]string{"PI_CHROME_PORT": strconv.Itoa(<-ready), "PI_CHROME_STATE_DIR": dir})
	assert.Equal(t, Run(t.Context(), env, []string{"--session", "two words", "authorize", "5"}), exitDone)
	out.Reset()
	assert.Equal(t, completeLine(t.Context(), env, "zsh", []string{"status", "--session"}, "two"), "two words\tuntil, 0 tabs\n")
	assert.Equal(t, completeLine(t.Context(), env, "bash", []string{"status", "--session"}, "two"), `two\ words`+"\n")
	assert.Equal(t, completeLine(t.Context(), env, "bash", []string{"status", "--session"}, `"two w`), "two words\n")
	assert.Equal(t, completeLine(t.Context(), env, "fish", []string{"click"}, ""), "")
}

func TestBashWords(t *testing.T) {
	for name, c := range map[string]struct {
		given   []string // the last one is the current word
		want    []string
		strip   string
		inQuote bool
	}{
		"plain":              {[]string{"click", "el-"}, []string{"click", "el-"}, "", false},
		"nothing yet":        {[]string{""}, []string{""}, "", false},
		"split at =":         {[]string{"snapshot", "--mode", "=", "fu"}, []string{"snapshot", "--mode=fu"}, "--mode=", false},
		"right after =":      {[]string{"snapshot", "--mode", "="}, []string{"snapshot", "--mode="}, "--mode=", false},
		"two of them":        {[]string{"--target", "=", "id", "=", "1"}, []string{"--target=id=1"}, "--target=id=", false},
		"split at :":         {[]string{"navigate", "http", ":", "//x"}, []string{"navigate", "http://x"}, "http:", false},
		"before the word":    {[]string{"--session", "=", "x", "click", ""}, []string{"--session=x", "click", ""}, "", false},
		"single quotes":      {[]string{`'a b'`, "x"}, []string{"a b", "x"}, "", false},
		"backslash":          {[]string{`a\ b`, "x"}, []string{"a b", "x"}, "", false},
		"in double quotes":   {[]string{`"a \" \n"`, "x"}, []string{`a " \n`, "x"}, "", false},
		"an open quote":      {[]string{`"a b`}, []string{"a b"}, "", true},
		"a break in a quote": {[]string{`"a=b`}, []string{"a=b"}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			out, cur, quoted, strip := bashWords(c.given[:len(c.given)-1], c.given[len(c.given)-1])
			assert.DeepEqual(t, append(out, cur), c.want)
			assert.Equal(t, strip, c.strip)
			assert.Equal(t, quoted, c.inQuote)
		})
	}
}

// TestBashCompletes runs the script in a real bash, as it does when the key is
// pressed.
func TestBashCompletes(t *testing.T) {
	bash, err := exec.LookPath("bash")
	assert.NilError(t, err, "bash is needed")
	self, err := os.Executable()
	assert.NilError(t, err)
	dir := t.TempDir()
	assert.NilError(t, os.Symlink(self, filepath.Join(dir, "pi-chrome")))
	env, out, _ := testEnv(t, nil)
	assert.Equal(t, Run(t.Context(), env, []string{"completion", "bash"}), exitDone)
	for name, c := range map[string]struct {
		words []string
		want  string
	}{
		"a command":  {[]string{"tab-c"}, "tab-close\ntab-claim\n"},
		"a flag":     {[]string{"click", "--cl"}, "--clicks\n"},
		"an enum":    {[]string{"snapshot", "--mode", "f"}, "forms\nfull\n"},
		"split at =": {[]string{"snapshot", "--mode", "=", "f"}, "forms\nfull\n"},
		"nothing":    {[]string{"nonsense", ""}, ""},
	} {
		script := out.String() + `
COMP_WORDS=("$PROGRAM" "$@") COMP_CWORD=$#
_pi_chrome
complete -p pi-chrome >/dev/null || echo "not registered"
for c in "${COMPREPLY[@]}"; do printf '%s\n' "$c"; done`
		cmd := exec.CommandContext(t.Context(), bash, append([]string{"--norc", "-c", script, "bash"}, c.words...)...)
		cmd.Env = append(os.Environ(), "PROGRAM="+filepath.Join(dir, "pi-chrome"), "PI_CHROME_STATE_DIR="+env.Getenv("PI_CHROME_STATE_DIR"), "PI_CHROME_PORT="+env.Getenv("PI_CHROME_PORT"))
		cmd.Stderr = io.Discard
		got, err := cmd.Output()
		assert.NilError(t, err, name)
		assert.Equal(t, string(got), c.want, name)
	}
}

func TestCompletionCommand(t *testing.T) {
	for _, shell := range shells() {
		env, out, errs := testEnv(t, nil)
		assert.Equal(t, Run(t.Context(), env, []string{"completion", shell}), exitDone)
		assert.Assert(t, strings.Contains(out.String(), "__complete"), shell)
		assert.Equal(t, errs.String(), "")
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "give one shell: bash, fish, powershell, zsh"},
		{[]string{"zhs"}, "did you mean zsh?"},
		{[]string{"bash", "zsh"}, "give one shell"},
	} {
		env, _, errs := testEnv(t, nil)
		assert.Equal(t, Run(t.Context(), env, append([]string{"completion"}, c.args...)), exitUsage)
		assert.Assert(t, strings.Contains(errs.String(), c.want), errs.String())
	}
}
