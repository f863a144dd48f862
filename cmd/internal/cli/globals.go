package cli

import (
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"pi-chrome/bridge"
	"pi-chrome/driver/op"
)

// globals are the flags that every command takes, before or after its name.
type globals struct {
	json     bool
	quiet    bool
	output   string
	session  string
	browser  string
	port     string
	stateDir string
	pace     string
	trace    string
	front    bool
	timeout  time.Duration

	portNumber   int    // set by resolve
	sessionGiven string // by flag or environment; "" for the default
}

// register adds the flags to set; values given before stay their defaults.
func (g *globals) register(set *pflag.FlagSet) {
	set.BoolVar(&g.json, "json", g.json, "print exactly one JSON object")
	set.StringVarP(&g.output, "output", "o", g.output, "write the result to this `file`, whole or not at all, instead of stdout")
	set.BoolVarP(&g.quiet, "quiet", "q", g.quiet, "no progress, nothing on stderr but errors, no questions")
	set.StringVar(&g.session, "session", g.session, "`name` of the session whose tabs are used (PI_CHROME_SESSION, else \"default\")")
	set.StringVar(&g.browser, "browser", g.browser, "`profile` to work in, by id or label; needed when several are live")
	set.StringVar(&g.port, "port", g.port, "`port` of the owner on 127.0.0.1 (PI_CHROME_PORT, else 17318)")
	set.StringVar(&g.stateDir, "state-dir", g.stateDir, "`folder` of credential, state and log (PI_CHROME_STATE_DIR)")
	set.StringVar(&g.pace, "pace", g.pace, "how input moves: `fast` or human (PI_CHROME_PACE, else fast)")
	set.BoolVar(&g.front, "foreground", g.front, "let this command take the focus, as tab-activate does")
	set.StringVar(&g.trace, "trace", g.trace, "`file` to which every CDP frame of the tab is added, as JSON lines, redacted")
	set.DurationVar(&g.timeout, "timeout", g.timeout, "give up after this `time`, such as 5s")
}

// resolve fills in what the environment says and checks the values.
func (g *globals) resolve(env Environment) error {
	or := func(to *string, name, fallback string) {
		if *to == "" && name != "" {
			*to = env.Getenv(name)
		}
		if *to == "" {
			*to = fallback
		}
	}
	or(&g.session, "PI_CHROME_SESSION", "")
	g.sessionGiven = g.session
	or(&g.session, "", "default")
	or(&g.port, "PI_CHROME_PORT", strconv.Itoa(bridge.DefaultPort))
	or(&g.pace, "PI_CHROME_PACE", "fast")
	or(&g.stateDir, "PI_CHROME_STATE_DIR", "")
	port, err := strconv.Atoi(g.port)
	if err != nil || port < 0 || port > 65535 {
		return op.Invalidf("port is %q; allowed: 0 to 65535", g.port).WithDetail("field", "port").
			WithHint("set --port or PI_CHROME_PORT to a number, or neither for %d", bridge.DefaultPort)
	}
	g.portNumber = port
	if g.pace != "fast" && g.pace != "human" {
		return op.Invalidf("pace is %q; allowed: fast, human", g.pace).WithDetail("field", "pace").
			WithHint("set --pace or PI_CHROME_PACE to one of them")
	}
	if g.timeout != 0 && (g.timeout < time.Millisecond || g.timeout > time.Hour) {
		return op.Invalidf("timeout is %s; allowed: 1ms to 1h", g.timeout).WithDetail("field", "timeout")
	}
	if g.stateDir == "" {
		dir, err := bridge.DefaultStateDir()
		if err != nil {
			return op.NotAvailable(op.StateUnreadable, "finding the state folder: %s", err).WithHint("set --state-dir or PI_CHROME_STATE_DIR to a folder of your own")
		}
		g.stateDir = dir
	}
	g.stateDir = absolute(env.Dir, g.stateDir)
	if g.output == "-" {
		g.output = "" // stdout
	}
	if g.output != "" {
		g.output = absolute(env.Dir, g.output)
	}
	if g.trace != "" {
		g.trace = absolute(env.Dir, g.trace)
		if info, err := os.Stat(g.trace); err == nil && info.IsDir() {
			return op.Invalidf("trace is %q, which is a folder; give a file", g.trace).WithDetail("field", "trace")
		}
		if _, err := os.Stat(filepath.Dir(g.trace)); err != nil {
			return op.Invalidf("trace is %q, but its folder cannot be used: %s", g.trace, err).WithDetail("field", "trace")
		}
	}
	return nil
}

func absolute(dir, name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(dir, name)
}
