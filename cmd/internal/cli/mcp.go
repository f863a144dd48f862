package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"pi-chrome/bridge"
	"pi-chrome/bridge/client"
	"pi-chrome/cmd/internal/mcp"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/op"
)

// mcpFlags are the flags of `mcp`.
type mcpFlags struct {
	profiles   string
	authorize  string
	policy     string
	structured bool
	http       bool
	httpPort   int
}

func mcpCommand() *command {
	return &command{
		name: "mcp", group: groupBrowser, args: "[FLAGS] | config [FLAGS] CLIENT", summary: "Serve the operations as tools to an MCP client.",
		stream: func(args []string) bool { return len(args) == 0 || args[0] != "config" },
		doc: "A client of the Model Context Protocol starts pi-chrome mcp and speaks to it over stdin and stdout. With --http it serves clients at an address of this machine; they show a token that stands in the state folder.\n\n" +
			"pi-chrome mcp config CLIENT prints what stands in a client's configuration, with the flags given: " + strings.Join(mcp.Clients(), ", ") + ".\n\n" +
			"A session of an MCP client starts locked: the first call is refused and names the command that unlocks it, unless --authorize is given and the user has neither stopped everything nor locked that session. Without --session each connection has a session of its own, and its tabs are closed at its end; with it the session mcp:NAME is kept.\n\n" +
			"  pi-chrome mcp config claude-code\n" +
			"  pi-chrome mcp --profiles all --authorize 30m\n" +
			"  pi-chrome mcp --authorize --policy shop.json",
		prepare: func(a *app, set *pflag.FlagSet) runFunc {
			var f mcpFlags
			set.StringVar(&f.profiles, "profiles", "core", "`tools` to begin with: core, "+strings.Join(owner.Profiles()[1:], ", ")+", or all; the tool chrome_enable adds the others")
			set.StringVar(&f.authorize, "authorize", "", "let the session use the browser for `N` minutes (30 or 30m) from its first call, or indefinitely")
			set.Lookup("authorize").NoOptDefVal = "indefinite"
			set.StringVar(&f.policy, "policy", "", "what the sessions that --authorize unlocks may do, from this `file`, as authorize --policy takes it")
			set.BoolVar(&f.structured, "structured", false, "give the value of a result as structured content, too; some clients then hide the text from the model")
			set.BoolVar(&f.http, "http", false, "serve over HTTP on 127.0.0.1 instead of stdin and stdout")
			set.IntVar(&f.httpPort, "http-port", mcp.DefaultHTTPPort, "`port` of --http; 0 is any free one")
			return func(ctx context.Context, args []string) (output, error) {
				if len(args) > 0 && args[0] == "config" {
					return a.mcpConfig(f, args[1:])
				}
				// "--authorize 30m" leaves its value among the arguments.
				if f.authorize == "indefinite" && len(args) == 1 {
					f.authorize, args = args[0], nil
				}
				if err := noArgs("mcp", args); err != nil {
					return output{}, err
				}
				return a.mcp(ctx, f)
			}
		},
	}
}

func (a *app) mcp(ctx context.Context, f mcpFlags) (output, error) {
	o, err := a.mcpOptions(f)
	if err != nil {
		return output{}, err
	}
	if _, err := bridge.PrepareStateDir(a.globals.stateDir); err != nil {
		return output{}, err
	}
	if !f.http {
		return output{done: true}, mcp.ServeStdio(ctx, o, a.env.Stdin, a.env.Stdout)
	}
	token, err := mcp.Token(a.globals.stateDir)
	if err != nil {
		return output{}, err
	}
	l, err := mcp.Listen(f.httpPort)
	if err != nil {
		return output{}, err
	}
	text := fmt.Sprintf("MCP server at %s\nclients send the header Authorization: Bearer %s\n", mcp.URL(l), token)
	if a.globals.json {
		err = writeJSON(a.env.Stdout, success{OK: true, Value: map[string]any{"url": mcp.URL(l), "token": token}, Text: "ready"})
	} else {
		_, err = io.WriteString(a.env.Stdout, text)
	}
	if err != nil {
		_ = l.Close() // nothing was served
		return output{}, err
	}
	return output{done: true}, mcp.ServeHTTP(ctx, o, l, token)
}

func (a *app) mcpOptions(f mcpFlags) (mcp.Options, error) {
	profiles, err := mcp.ParseProfiles(f.profiles)
	if err != nil {
		return mcp.Options{}, err
	}
	session := strings.TrimPrefix(a.globals.sessionGiven, mcp.SessionPrefix)
	if a.globals.sessionGiven != "" && strings.TrimSpace(session) == "" {
		return mcp.Options{}, usageError("mcp", "session is %q; give it a name", a.globals.sessionGiven)
	}
	auth, err := authorization(f.authorize)
	if err != nil {
		return mcp.Options{}, err
	}
	if f.policy != "" {
		if auth == nil {
			return mcp.Options{}, usageError("mcp", "--policy is for sessions that --authorize unlocks; give both").WithDetail("flag", "--policy")
		}
		if auth.Policy, err = a.policyFile("mcp", f.policy); err != nil {
			return mcp.Options{}, err
		}
	}
	level := slog.LevelWarn
	if a.env.Getenv("PI_CHROME_LOG") == "debug" {
		level = slog.LevelDebug
	}
	if a.globals.quiet {
		level = slog.LevelError
	}
	return mcp.Options{
		Connect: func(ctx context.Context) (*client.Client, error) { return a.dial(ctx) },
		Session: session, Browser: a.globals.browser, Pace: a.globals.pace, Foreground: a.globals.front,
		Trace: a.globals.trace, Timeout: a.globals.timeout, Profiles: profiles, Authorize: auth, Structured: f.structured,
		Dir: workspace(a.env.Dir, a.globals.stateDir),
		Prepare: func(tool string, input json.RawMessage) json.RawMessage {
			return absolutePaths(a.env.Dir, tool, input)
		},
		Logger: slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level})),
	}, nil
}

// authorization reads the value of --authorize.
func authorization(text string) (*mcp.Authorization, error) {
	switch text {
	case "":
		return nil, nil
	case "indefinite":
		return &mcp.Authorization{}, nil
	}
	n, err := minutes(text)
	if err != nil {
		return nil, usageError("mcp", "--authorize is %q; allowed: 1 to 10080 minutes, such as 30 or 30m, or indefinite", text)
	}
	return &mcp.Authorization{Minutes: n}, nil
}

// minutes reads a time such as 30 or 30m.
func minutes(text string) (int, error) {
	n, err := strconv.Atoi(strings.TrimSuffix(text, "m"))
	if err != nil || n < 1 || n > 7*24*60 {
		return 0, fmt.Errorf("%q is no time of 1 to 10080 minutes", text)
	}
	return n, nil
}

// workspace is the folder for pictures: the working directory, or the state
// folder where a client started us in a place that is not ours to write to.
func workspace(dir, stateDir string) string {
	if filepath.Dir(dir) == dir {
		return stateDir
	}
	probe, err := os.CreateTemp(dir, ".pi-chrome-*")
	if err != nil {
		return stateDir
	}
	_ = probe.Close()           // nothing was written
	_ = os.Remove(probe.Name()) // just made
	return dir
}

// mcpConfig prints the configuration of a client.
func (a *app) mcpConfig(f mcpFlags, args []string) (output, error) {
	if len(args) != 1 {
		return output{}, usageError("mcp", "give one client: pi-chrome mcp config CLIENT; known: %s", strings.Join(mcp.Clients(), ", "))
	}
	if _, err := a.mcpOptions(f); err != nil {
		return output{}, err
	}
	exe, err := filepath.Abs(a.env.Executable)
	if err != nil {
		return output{}, op.Invalidf("finding this program: %s", err)
	}
	s := mcp.Server{Command: exe, Args: append([]string{"mcp"}, a.mcpArgs(f)...)}
	note := ""
	if f.http {
		if _, err := bridge.PrepareStateDir(a.globals.stateDir); err != nil {
			return output{}, err
		}
		if s.Token, err = mcp.Token(a.globals.stateDir); err != nil {
			return output{}, err
		}
		s.URL = fmt.Sprintf("http://127.0.0.1:%d%s", f.httpPort, mcp.Endpoint)
		note = fmt.Sprintf("\n\nThe server must run: %s mcp --http%s", exe, strings.Join(append([]string{""}, a.mcpArgs(f)...), " "))
	}
	c, err := mcp.Configure(args[0], s)
	if err != nil {
		return output{}, err
	}
	return output{value: c, text: fmt.Sprintf("%s: %s\n\n%s%s", c.Title, c.Where, c.Text, note)}, nil
}

// mcpArgs are the flags of this run that a client must give again.
func (a *app) mcpArgs(f mcpFlags) []string {
	var out []string
	add := func(name, value string) {
		if value != "" {
			out = append(out, "--"+name+"="+value)
		}
	}
	if f.profiles != "core" {
		add("profiles", f.profiles)
	}
	add("session", a.globals.sessionGiven)
	add("browser", a.globals.browser)
	add("authorize", f.authorize)
	if f.policy != "" {
		add("policy", absolute(a.env.Dir, f.policy)) // the client runs us elsewhere
	}
	if f.structured {
		out = append(out, "--structured")
	}
	if f.http && f.httpPort != mcp.DefaultHTTPPort {
		add("http-port", strconv.Itoa(f.httpPort))
	}
	if a.globals.portNumber != bridge.DefaultPort {
		add("port", strconv.Itoa(a.globals.portNumber))
	}
	if dir, err := bridge.DefaultStateDir(); err != nil || dir != a.globals.stateDir {
		add("state-dir", a.globals.stateDir)
	}
	if a.globals.pace != "fast" {
		add("pace", a.globals.pace)
	}
	return out
}
