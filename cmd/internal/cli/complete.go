package cli

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/spf13/pflag"

	"pi-chrome/bridge"
	"pi-chrome/bridge/client"
	"pi-chrome/cmd/internal/mcp"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/op"
)

// candidate is one word that may stand where the cursor is.
type candidate struct {
	value string
	about string // what it is, for shells that show it
}

// Candidates that ask the shell to complete paths itself.
const (
	askFiles   = ":files"
	askFolders = ":folders"
)

// liveLimit bounds all that is asked of an owner; a client that gives up
// waits another 100 ms for its answer.
const liveLimit = 200 * time.Millisecond

// completer completes one line.
type completer struct {
	a    *app
	set  *pflag.FlagSet
	cmd  *command // nil while its name is not given
	in   *input   // of an operation's command, otherwise nil
	args []string // positional arguments before the cursor

	// reach connects to the owner that runs; it starts none.
	reach func(context.Context) (liveOwner, error)
	asked bool
	owner liveOwner // nil when none runs
}

// liveOwner is what is asked of an owner.
type liveOwner interface {
	status(ctx context.Context, session string) (bridge.Status, error)
	sessions(ctx context.Context) ([]bridge.SessionStatus, error)
	refs(ctx context.Context, session string, tab int) ([]op.Ref, error)
	close()
}

type ownerClient struct{ c *client.Client }

func (o ownerClient) status(ctx context.Context, session string) (bridge.Status, error) {
	return owner.Status(ctx, o.c, session)
}

func (o ownerClient) sessions(ctx context.Context) ([]bridge.SessionStatus, error) {
	return owner.Sessions(ctx, o.c)
}

func (o ownerClient) refs(ctx context.Context, session string, tab int) ([]op.Ref, error) {
	return owner.Refs(ctx, o.c, session, tab)
}

func (o ownerClient) close() { o.c.CloseNow() }

// complete returns what may stand at the cursor: words are those before it,
// without the program's name, and current is the part of a word that is
// written. Candidates need not begin with current.
func complete(ctx context.Context, env Environment, words []string, current string) []candidate {
	c := &completer{a: &app{env: env}}
	c.reach = func(ctx context.Context) (liveOwner, error) {
		found, err := c.a.dialRunning(ctx)
		return ownerClient{found}, err
	}
	return c.complete(ctx, words, current)
}

func (c *completer) complete(ctx context.Context, words []string, current string) []candidate {
	ctx, cancel := context.WithTimeout(ctx, liveLimit)
	defer cancel()
	defer c.close()
	c.set = c.a.newFlagSet("pi-chrome")
	c.a.globals.register(c.set)
	pending, dashed, ok := c.walk(words)
	switch {
	case !ok:
		return nil // a command that is not known
	case pending != nil:
		return c.values(ctx, pending, current)
	case dashed && c.cmd != nil && c.cmd.raw:
		return []candidate{{value: askFiles}} // another program's line
	case !dashed && strings.HasPrefix(current, "-"):
		name, text, given := strings.Cut(current, "=")
		if !given {
			return c.flags(current)
		}
		f := c.flag(name)
		if f == nil {
			return nil
		}
		var list []candidate
		for _, v := range c.values(ctx, f, text) {
			if v.value != askFiles && v.value != askFolders {
				v.value = name + "=" + v.value
			}
			list = append(list, v)
		}
		return list
	case c.cmd == nil:
		return commandNames()
	}
	return c.arguments(ctx, current)
}

// walk reads the words before the cursor. pending is the flag that waits for
// its value, dashed says that "--" ended the flags.
func (c *completer) walk(words []string) (pending *pflag.Flag, dashed, ok bool) {
	for _, w := range words {
		switch {
		case pending != nil:
			_ = pending.Value.Set(w) // a bad value is told when the line runs
			pending = nil
		case dashed || !strings.HasPrefix(w, "-") || w == "-":
			if c.cmd != nil {
				c.args = append(c.args, w)
				continue
			}
			if c.cmd = lookupCommand(w); c.cmd == nil {
				return nil, dashed, false
			}
			c.enter()
		case w == "--":
			dashed = true
		default:
			name, text, given := strings.Cut(w, "=")
			f := c.flag(name)
			switch {
			case f == nil:
			case given:
				_ = f.Value.Set(text)
			case f.NoOptDefVal != "":
				_ = f.Value.Set(f.NoOptDefVal)
			default:
				pending = f
			}
			if f != nil {
				f.Changed = true
			}
		}
	}
	if c.in != nil {
		open := c.in.open()
		for i, arg := range c.args[:min(len(c.args), len(open))] {
			if v, err := parseField(c.in.desc.Input.Properties[open[i]], arg); err == nil {
				_ = c.in.put([]string{open[i]}, v, "")
			}
		}
	}
	return pending, dashed, true
}

// enter takes up the flags of the command, which is known now.
func (c *completer) enter() {
	c.set = c.a.newFlagSet(c.cmd.name)
	c.a.globals.register(c.set)
	if c.cmd.operation != nil {
		c.in = newInput(*c.cmd.operation)
		c.in.register(c.set)
		return
	}
	c.cmd.prepare(c.a, c.set)
}

func (c *completer) flag(word string) *pflag.Flag {
	if name, ok := strings.CutPrefix(word, "--"); ok {
		return c.set.Lookup(name)
	}
	if len(word) == 2 {
		return c.set.ShorthandLookup(word[1:])
	}
	return nil
}

func lookupCommand(name string) *command {
	cmd, err := findCommand(name)
	if err != nil {
		return nil
	}
	return cmd
}

func commandNames() []candidate {
	list, err := commands()
	if err != nil {
		return nil
	}
	var out []candidate
	for _, cmd := range list {
		if !cmd.hidden {
			out = append(out, candidate{cmd.name, cmd.summary})
		}
	}
	return out
}

// flags lists the flags that may still be given. The fields of an object are
// listed once its own flag is written, the flags of every command last.
func (c *completer) flags(current string) []candidate {
	var out, general []candidate
	everywhere := c.a.globalSet()
	c.set.VisitAll(func(f *pflag.Flag) {
		v, isField := f.Value.(*fieldValue)
		parent, _, nested := strings.Cut(f.Name, ".")
		switch {
		case f.Hidden:
			return
		case nested && !strings.HasPrefix(current, "--"+parent):
			return
		case f.Changed && !(isField && v.schema.Type == "array"):
			return
		case isField && len(v.path) == 1 && !f.Changed && c.in.taken(v.path[0]):
			return // another one of which only one may be given
		}
		_, usage := pflag.UnquoteUsage(f)
		if everywhere.Lookup(f.Name) != nil {
			general = append(general, candidate{"--" + f.Name, usage})
			return
		}
		out = append(out, candidate{"--" + f.Name, usage})
	})
	return append(append(out, general...), candidate{"--help", "show the usage"})
}

// values completes the value of a flag.
func (c *completer) values(ctx context.Context, f *pflag.Flag, current string) []candidate {
	if v, ok := f.Value.(*fieldValue); ok {
		return c.fieldValues(ctx, v.schema, v.path[len(v.path)-1], current)
	}
	switch f.Name {
	case "session":
		return c.sessions(ctx)
	case "browser":
		if c.cmd == nil || c.cmd.name != "smoke" {
			return c.browsers(ctx)
		}
		return []candidate{{value: askFiles}} // a program to try out
	case "pace":
		return words("fast", "human")
	case "profiles":
		if c.cmd != nil && c.cmd.name == "mcp" {
			return listItems(current, append(owner.Profiles(), "all"))
		}
	case "authorize":
		return words("30m", "indefinite")
	}
	if f.Value.Type() == "bool" {
		return words("true", "false")
	}
	switch name, _ := pflag.UnquoteUsage(f); strings.ToLower(name) {
	case "file", "path":
		return []candidate{{value: askFiles}}
	case "folder", "dir", "directory":
		return []candidate{{value: askFolders}}
	}
	if f.NoOptDefVal == "true" {
		return words("true", "false")
	}
	return nil
}

func words(list ...string) []candidate {
	out := make([]candidate, 0, len(list))
	for _, w := range list {
		out = append(out, candidate{value: w})
	}
	return out
}

// listItems completes the last item of a list with commas.
func listItems(current string, items []string) []candidate {
	before := current[:strings.LastIndex(current, ",")+1]
	var out []candidate
	for _, item := range items {
		if !slices.Contains(strings.Split(before, ","), item) {
			out = append(out, candidate{value: before + item})
		}
	}
	return out
}

// fieldValues completes the value of a field of an operation's input.
func (c *completer) fieldValues(ctx context.Context, s *jsonschema.Schema, name, current string) []candidate {
	switch {
	case isChoice(s):
		return c.choices(ctx, s, current)
	case isSwitches(s):
		before := current[:strings.LastIndexAny(current, "+,")+1]
		var out []candidate
		for _, n := range fieldOrder(s) {
			if !strings.Contains("+"+strings.ReplaceAll(before, ",", "+"), "+"+n+"+") {
				out = append(out, candidate{value: before + n})
			}
		}
		return out
	case len(s.Enum) > 0:
		var out []candidate
		for _, e := range s.Enum {
			out = append(out, candidate{value: fmt.Sprint(e)})
		}
		return out
	case s.Type == "boolean":
		return words("true", "false")
	case takesRef(s):
		return c.refs(ctx, "")
	case name == "path" || name == "paths" || name == "files":
		return []candidate{{value: askFiles}}
	case name == "directory":
		return []candidate{{value: askFolders}}
	case s.Type == "array" && s.Items != nil:
		return c.fieldValues(ctx, s.Items, "", current)
	}
	return nil
}

// takesRef reports whether a field takes a ref of a snapshot.
func takesRef(s *jsonschema.Schema) bool {
	if s.Pattern == "" {
		return false
	}
	re, err := regexp.Compile(s.Pattern)
	return err == nil && re.MatchString("el-1") && !re.MatchString("el")
}

// choices completes HOW=VALUE.
func (c *completer) choices(ctx context.Context, s *jsonschema.Schema, current string) []candidate {
	how, _, given := strings.Cut(current, "=")
	var out []candidate
	for _, e := range s.Properties["by"].Enum {
		by := fmt.Sprint(e)
		switch {
		case by == "find":
			for _, name := range []string{"role", "name", "label", "text", "testId"} {
				if p := s.Properties[name]; p != nil && !given {
					out = append(out, candidate{name + "=", p.Description})
				}
			}
		case by == "id" && given && how == "id":
			out = append(out, c.tabs(ctx, "id=")...)
		case by == "uid" && given && how == "uid":
			out = append(out, c.refs(ctx, "uid=")...)
		case given:
		case by == "id":
			out = append(append(c.tabs(ctx, ""), out...), candidate{value: "id="})
		case by == "uid":
			out = append(append(c.refs(ctx, ""), out...), candidate{value: "uid="})
		case !slices.Contains(s.Required, "value") && by == "load":
			out = append(out, candidate{value: by})
		default:
			out = append(out, candidate{value: by + "="})
		}
	}
	return out
}

// arguments completes a positional argument.
func (c *completer) arguments(ctx context.Context, current string) []candidate {
	if c.in != nil {
		open := c.in.open()
		if len(open) == 0 || len(c.args) > len(c.in.desc.Args) {
			return nil
		}
		return c.fieldValues(ctx, c.in.desc.Input.Properties[open[0]], open[0], current)
	}
	first, _, _ := strings.Cut(c.cmd.args, " ")
	first = strings.Trim(first, "[]")
	if len(c.args) == 0 && alternatives.MatchString(first) {
		return words(strings.Split(first, "|")...)
	}
	if len(c.args) == 1 && alternatives.MatchString(first) && strings.HasSuffix(c.cmd.args, "[DIR]") {
		return []candidate{{value: askFolders}}
	}
	return c.ownArguments(ctx)
}

// alternatives is the beginning of a usage line such as "install|path [DIR]",
// without brackets.
var alternatives = regexp.MustCompile(`^[a-z]+(\|[a-z]+)+$`)

// ownArguments completes the arguments of a command that is no operation's.
func (c *completer) ownArguments(ctx context.Context) []candidate {
	switch n := len(c.args); {
	case c.cmd.name == "mcp" && n == 0:
		return []candidate{{"config", "print the configuration of a client"}}
	case c.cmd.name == "mcp" && n == 1 && c.args[0] == "config":
		return words(mcp.Clients()...)
	case n > 0:
	case c.cmd.name == "run":
		return []candidate{{askFiles, ""}}
	case c.cmd.name == "help":
		return append(commandNames(), candidate{errorsTopic, "what the code of an error means"})
	case c.cmd.name == "man":
		return commandNames()
	case c.cmd.name == "call", c.cmd.name == "operations":
		return tools()
	case c.cmd.name == "authorize":
		return words("30m", "indefinite")
	case c.cmd.name == "unpair", c.cmd.name == "forget":
		return c.browsers(ctx)
	}
	return nil
}

func tools() []candidate {
	list, err := owner.Descriptors()
	if err != nil {
		return nil
	}
	var out []candidate
	for _, d := range list {
		out = append(out, candidate{d.Tool, d.Summary})
	}
	return out
}

// running connects to the owner that runs, if there is one.
func (c *completer) running(ctx context.Context) liveOwner {
	if c.asked {
		return c.owner
	}
	c.asked = true
	if c.a.globals.resolve(c.a.env) != nil {
		return nil
	}
	if found, err := c.reach(ctx); err == nil {
		c.owner = found
	}
	return c.owner
}

func (c *completer) close() {
	if c.owner != nil {
		c.owner.close()
	}
}

func (c *completer) status(ctx context.Context) (bridge.Status, bool) {
	o := c.running(ctx)
	if o == nil {
		return bridge.Status{}, false
	}
	st, err := o.status(ctx, c.a.globals.session)
	return st, err == nil
}

// tabs are those of the session, by number.
func (c *completer) tabs(ctx context.Context, prefix string) []candidate {
	st, ok := c.status(ctx)
	if !ok {
		return nil
	}
	var out []candidate
	for _, t := range st.Session.Targets {
		if t.TabID != nil {
			out = append(out, candidate{prefix + strconv.Itoa(*t.TabID), strings.TrimSpace(t.Title + " " + t.URL)})
		}
	}
	return out
}

// browsers are the paired profiles, by label.
func (c *completer) browsers(ctx context.Context) []candidate {
	st, ok := c.status(ctx)
	if !ok {
		return nil
	}
	var out []candidate
	for _, p := range st.Profiles {
		about := "not connected"
		if p.Live {
			about = p.Browser.Family + " " + p.Browser.Version
		}
		out = append(out, candidate{p.Label, about})
	}
	return out
}

func (c *completer) sessions(ctx context.Context) []candidate {
	o := c.running(ctx)
	if o == nil {
		return nil
	}
	list, err := o.sessions(ctx)
	if err != nil {
		return nil
	}
	var out []candidate
	for _, s := range list {
		out = append(out, candidate{s.Key, fmt.Sprintf("%s, %s", s.Authorization, counted(len(s.Targets), "tab"))})
	}
	return out
}

// refs are those that snapshots of the tab have shown. Where snapshots grant
// what the command does, only those to which it was granted.
func (c *completer) refs(ctx context.Context, prefix string) []candidate {
	o := c.running(ctx)
	if o == nil {
		return nil
	}
	tab := 0
	if c.in != nil {
		if text, ok := lookup(c.in.given, []string{"target", "value"}).(string); ok && lookup(c.in.given, []string{"target", "by"}) == "id" {
			tab, _ = strconv.Atoi(text) // 0, the only tab, for what is no number
		}
	}
	list, err := o.refs(ctx, c.a.globals.session, tab)
	if err != nil {
		return nil
	}
	verb := ""
	if c.cmd != nil && slices.ContainsFunc(list, func(r op.Ref) bool { return slices.Contains(r.Verbs, c.cmd.name) }) {
		verb = c.cmd.name
	}
	var out []candidate
	for _, r := range list {
		if verb == "" || slices.Contains(r.Verbs, verb) {
			out = append(out, candidate{prefix + r.Ref, fmt.Sprintf("%s %q [%s]", r.Role, r.Name, strings.Join(r.Verbs, "] ["))})
		}
	}
	return out
}
