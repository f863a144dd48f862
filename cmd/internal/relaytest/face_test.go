package relaytest

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"gotest.tools/v3/assert"

	"pi-chrome/cmd/internal/artifact"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/cmd/internal/pihost"
	"pi-chrome/driver/op"
)

// face is one surface as its user has it, with a session of its own. All speak
// to the owner of one lane.
type face struct {
	*Session
	name string
	dir  string // where it runs: paths are relative to it
	// call runs one tool. What a caller is shown of a failure is in the answer
	// too.
	call func(tool string, input any) (answer, *op.Error)

	lane *Lane
}

// answer is what a face shows of one call.
type answer struct {
	op.Result
	images int
}

// faces are all of them: Go, an MCP client, the Pi package's host, and the
// command line.
func faces(t *testing.T, l *Lane) []*face {
	list := []*face{goFace(t, l), mcpFace(t, l), piFace(t, l), shellFace(t, l)}
	for _, f := range list {
		f.reset()
	}
	return list
}

// newFace is a face without its call.
func newFace(t *testing.T, l *Lane, name, prefix string) *face {
	f := &face{Session: l.Session(t), name: name, dir: t.TempDir(), lane: l}
	f.Key = prefix + f.Key
	return f
}

// reset gives the session its authorization back, without a policy, and no tab.
func (f *face) reset() {
	f.t.Helper()
	_, err := owner.AuthorizeWith(f.t.Context(), f.Client, f.Key, 0, []byte("null"))
	assert.NilError(f.t, err)
	_, err = owner.Cleanup(f.t.Context(), f.Client, f.Key)
	assert.NilError(f.t, err)
}

// program is this test's binary as pi-chrome, in the lane and in the face's
// folder.
func (f *face) program(args ...string) *exec.Cmd {
	exe, err := owner.Executable()
	assert.NilError(f.t, err)
	cmd := exec.Command(exe)
	cmd.Args = append([]string{"pi-chrome"}, args...)
	cmd.Env = append(os.Environ(), f.lane.Env()...)
	cmd.Dir = f.dir
	return cmd
}

// do runs a tool that must succeed.
func (f *face) do(tool string, input any) answer {
	f.t.Helper()
	a, err := f.call(tool, input)
	assert.Assert(f.t, err == nil, "%s: %s %v: %s", f.name, tool, input, said(err))
	return a
}

func said(e *op.Error) string {
	if e == nil {
		return ""
	}
	return e.Text()
}

// open navigates to a page of the lane.
func (f *face) open(path string) {
	f.t.Helper()
	f.do("chrome_navigate", map[string]any{"url": f.lane.URL + path, "waitUntilLoad": true})
}

// ref is the ref of the action with the name, from a new snapshot.
func (f *face) ref(name string) string {
	f.t.Helper()
	a := f.do("chrome_snapshot", map[string]any{"mode": "interactive"})
	for _, action := range Value[Snapshot](f.t, a.Result).Actions {
		if action.Name == name {
			return action.ID
		}
	}
	f.t.Fatalf("%s: no action is called %q:\n%s", f.name, name, a.Text)
	return ""
}

// newTab opens a page in a tab of its own.
func (f *face) newTab(path string) op.Tab {
	f.t.Helper()
	return Value[op.Tab](f.t, f.do("chrome_tab_new", map[string]any{"url": f.lane.URL + path}).Result)
}

// plain is a text without what differs from run to run: the face's session and
// folder, addresses, ids of tabs, names of files that it had to make up, times.
func (f *face) plain(text string) string {
	// Where a session of Pi is unlocked is told by its key, whatever the face.
	text = strings.ReplaceAll(text, "/chrome authorize in Pi, or ", "")
	// How many pictures a model is shown is each face's own bound.
	text = aNote.ReplaceAllString(text, "")
	text = strings.ReplaceAll(text, f.dir, "DIR")
	text = strings.ReplaceAll(text, f.Key, "SESSION")
	text = anAddress.ReplaceAllString(text, "http://SITE")
	text = aTab.ReplaceAllString(text, "tab N")
	text = aFile.ReplaceAllString(text, "PICTURE")
	text = longID.ReplaceAllString(text, "ID")
	return someTime.ReplaceAllString(text, "N ms")
}

var (
	anAddress = regexp.MustCompile(`http://(127\.0\.0\.1|localhost):\d+`)
	aTab      = regexp.MustCompile(`\btab \d+`)
	aNote     = regexp.MustCompile(`\n\n\[\d+ of \d+ pictures are shown here; all are in the files\]$`)
	longID    = regexp.MustCompile(`\b\d{6,}\b`)
	aFile     = regexp.MustCompile(`\d{13}-[0-9a-f]{8}-[0-9a-f-]{27}`)
	someTime  = regexp.MustCompile(`\b\d+ ?ms\b`)
)

// goFace is bridge/client. It returns pictures themselves, which a program
// keeps as it likes; here as the other faces do.
func goFace(t *testing.T, l *Lane) *face {
	f := newFace(t, l, "Go", "")
	f.call = func(tool string, input any) (answer, *op.Error) {
		raw, err := json.Marshal(input)
		assert.NilError(t, err)
		out, err := f.Run(tool, input)
		if err != nil {
			return answer{}, op.AsError(err)
		}
		r, pictures, err := artifact.Keep(f.dir, tool, raw, out.Result)
		assert.NilError(t, err)
		return answer{r, len(pictures)}, nil
	}
	return f
}

// mcpFace is the official client of MCP with `pi-chrome mcp` as its server.
func mcpFace(t *testing.T, l *Lane) *face {
	f := newFace(t, l, "MCP", "mcp:")
	cmd := f.program("mcp", "--profiles", "all", "--structured", "--session", f.Key)
	cmd.Stderr = os.Stderr
	c, err := mcp.NewClient(&mcp.Implementation{Name: "faces", Version: "1"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, c.Close()) })
	f.call = func(tool string, input any) (answer, *op.Error) {
		res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: input})
		if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
			// The protocol's own error: what we say of it is its data.
			var failed struct{ Error *op.Error }
			assert.NilError(t, json.Unmarshal(e.Data, &failed), "%s", e.Message)
			assert.Equal(t, e.Message, failed.Error.Message)
			return answer{}, failed.Error
		}
		assert.NilError(t, err)
		a := answer{Result: op.Result{Text: res.Content[0].(*mcp.TextContent).Text}, images: len(res.Content) - 1}
		for _, c := range res.Content[1:] {
			assert.Assert(t, len(c.(*mcp.ImageContent).Data) > 0)
		}
		a.Value, err = json.Marshal(res.StructuredContent)
		assert.NilError(t, err)
		if !res.IsError {
			return a, nil
		}
		var failed struct{ Error *op.Error }
		assert.NilError(t, json.Unmarshal(a.Value, &failed))
		if tool == "chrome_do" && failed.Error.Message == a.Text {
			return a, nil // a list that stopped on its way is marked, and told as everywhere
		}
		assert.Equal(t, a.Text, failed.Error.Text())
		return a, failed.Error
	}
	return f
}

// piFace is `pi-chrome pi-host`, with the lines that the Pi package writes.
func piFace(t *testing.T, l *Lane) *face {
	f := newFace(t, l, "Pi", "session:")
	cmd := f.program("pi-host")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	assert.NilError(t, err)
	out, err := cmd.StdoutPipe()
	assert.NilError(t, err)
	assert.NilError(t, cmd.Start())
	t.Cleanup(func() {
		assert.Check(t, in.Close())
		_, err := io.Copy(io.Discard, out)
		assert.Check(t, err)
		assert.Check(t, cmd.Wait())
	})
	lines, n := bufio.NewReader(out), 0
	type line struct {
		ID     int
		Result json.RawMessage
		Error  *struct {
			*op.Error
			Text string
		}
	}
	request := func(method string, params any) line {
		n++
		raw, err := json.Marshal(map[string]any{"id": n, "method": method, "params": params})
		assert.NilError(t, err)
		_, err = in.Write(append(raw, '\n'))
		assert.NilError(t, err)
		for {
			raw, err := lines.ReadBytes('\n')
			assert.NilError(t, err)
			var got line
			assert.NilError(t, json.Unmarshal(raw, &got))
			if got.ID == n && (got.Result != nil || got.Error != nil) {
				return got // other lines tell of progress
			}
		}
	}
	opened := request("open", map[string]any{"protocol": pihost.Protocol, "session": map[string]any{"key": f.Key, "title": "Pi"}, "cwd": f.dir})
	assert.Assert(t, opened.Error == nil)
	f.call = func(tool string, input any) (answer, *op.Error) {
		got := request("call", map[string]any{"tool": tool, "input": input, "images": true})
		if got.Error != nil {
			assert.Equal(t, got.Error.Text, got.Error.Error.Text())
			return answer{}, got.Error.Error
		}
		var a pihost.Answer
		assert.NilError(t, json.Unmarshal(got.Result, &a))
		for _, p := range a.Images {
			raw, err := base64.StdEncoding.DecodeString(p.Data)
			assert.NilError(t, err)
			assert.Assert(t, len(raw) > 0)
		}
		return answer{op.Result{Value: a.Value, Text: a.Text}, len(a.Images)}, nil
	}
	return f
}

// shellFace is the command line: in turn the tool's command, with a flag for
// each field that has a plain one, and `pi-chrome call TOOL JSON`.
func shellFace(t *testing.T, l *Lane) *face {
	f := newFace(t, l, "shell", "")
	calls := 0
	f.call = func(tool string, input any) (answer, *op.Error) {
		raw, err := json.Marshal(input)
		assert.NilError(t, err)
		args := []string{"call", tool, string(raw)}
		if desc, err := owner.Find(tool); err == nil && calls%2 == 0 {
			args = flags(t, desc, raw)
		}
		calls++
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := f.program(append([]string{"--json", "--session", f.Key}, args...)...)
		var stdout, stderr strings.Builder
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		assert.NilError(t, cmd.Start())
		defer context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })()
		err = cmd.Wait()
		var told struct {
			OK    bool
			Value json.RawMessage
			Text  string
			Error *op.Error
		}
		assert.NilError(t, json.Unmarshal([]byte(stdout.String()), &told), "%q prints %s%s", args, &stdout, &stderr)
		assert.Equal(t, stderr.String(), "")
		assert.Equal(t, told.OK, told.Error == nil)
		if told.Error == nil {
			if tool != "chrome_do" { // whose exit code is that of its last step
				assert.NilError(t, err)
			}
			return answer{op.Result{Value: told.Value, Text: told.Text}, 0}, nil
		}
		exit, ok := errors.AsType[*exec.ExitError](err)
		assert.Assert(t, ok, "%v", err)
		assert.Equal(t, exit.ExitCode(), map[op.Kind]int{op.Invalid: 2, op.Rejected: 3, op.OutcomeUnknown: 4, op.Unavailable: 5}[told.Error.Kind])
		return answer{}, told.Error
	}
	return f
}

// flags is a command line of the tool's command: a flag for each text, number
// and switch, and the rest as JSON.
func flags(t *testing.T, desc op.Descriptor, raw json.RawMessage) []string {
	var input map[string]any
	assert.NilError(t, json.Unmarshal(raw, &input))
	args := []string{desc.Command()}
	for name, v := range input {
		field := desc.Input.Properties[name]
		if field == nil {
			continue
		}
		text, plain := "", false
		switch v := v.(type) {
		case string:
			text, plain = v, field.Type == "string"
		case bool:
			text, plain = strconv.FormatBool(v), field.Type == "boolean"
		case float64:
			text, plain = strconv.FormatFloat(v, 'f', -1, 64), field.Type == "integer" || field.Type == "number"
		}
		if plain {
			args = append(args, fmt.Sprintf("--%s=%s", kebab(name), text))
			delete(input, name)
		}
	}
	if len(input) > 0 {
		rest, err := json.Marshal(input)
		assert.NilError(t, err)
		args = append(args, "--json-input", string(rest))
	}
	return args
}

func kebab(name string) string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// path is a file's name as a caller of the face gives it: Go has no folder of
// its own.
func (f *face) path(name string) string {
	if f.name == "Go" {
		return filepath.Join(f.dir, name)
	}
	return name
}
