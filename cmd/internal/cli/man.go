package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"pi-chrome/cmd/internal/owner"
)

func manCommand() *command {
	return &command{
		name: "man", group: groupMore, args: "[COMMAND]", summary: "Print the manual page of the program, or of one command, as troff.",
		doc: "It says what pi-chrome help says, for man:\n\n" +
			"  pi-chrome man | man -l -\n" +
			"  pi-chrome man > ~/.local/share/man/man1/pi-chrome.1",
		prepare: func(a *app, _ *pflag.FlagSet) runFunc {
			return func(_ context.Context, args []string) (output, error) {
				text, err := a.man(args)
				if err != nil {
					return output{}, err
				}
				return output{value: map[string]any{"troff": text}, text: text}, nil
			}
		},
	}
}

func (a *app) man(args []string) (string, error) {
	switch len(args) {
	case 0:
		return a.manAll()
	case 1:
		c, err := findCommand(args[0])
		if err != nil {
			return "", err
		}
		return a.manOf(c), nil
	}
	return "", usageError("man", "pi-chrome man takes one command, but got %q too", args[1])
}

// manAll is pi-chrome(1): every command with its flags.
func (a *app) manAll() (string, error) {
	list, err := commands()
	if err != nil {
		return "", err
	}
	p := newPage("pi-chrome", "see and use pages in your own Chrome, from a shell or an agent")
	p.section("SYNOPSIS")
	p.synopsis("pi-chrome", "COMMAND [FLAGS] [ARGUMENTS]")
	p.section("DESCRIPTION")
	p.prose(aboutProgram + "\nThe first time, pi-chrome onboard pairs a browser. pi-chrome demo shows everything in a throw-away one.\n\n" +
		"pi-chrome help COMMAND shows a command as this page does; pi-chrome man COMMAND prints a page of its own.")
	for _, group := range groups {
		p.section(strings.ToUpper(group))
		for _, c := range list {
			if c.group == group && !c.hidden {
				p.line(".SS " + roff(strings.TrimSpace("pi-chrome "+c.name+" "+c.args)))
				p.command(a, c)
			}
		}
	}
	p.section("FLAGS OF EVERY COMMAND")
	p.flags(a.globalSet())
	p.ending()
	return p.b.String(), nil
}

// manOf is the page of one command, such as pi-chrome-click(1).
func (a *app) manOf(c *command) string {
	p := newPage("pi-chrome-"+c.name, strings.TrimSuffix(c.summary, "."))
	p.section("SYNOPSIS")
	p.synopsis("pi-chrome "+c.name, c.args)
	p.section("DESCRIPTION")
	p.command(a, c)
	p.section("FLAGS OF EVERY COMMAND")
	p.flags(a.globalSet())
	p.ending()
	p.section("SEE ALSO")
	p.line(".BR pi\\-chrome (1)")
	return p.b.String()
}

// page is a manual page that is being written.
type page struct{ b strings.Builder }

func newPage(name, summary string) *page {
	p := &page{}
	p.line(fmt.Sprintf(`.TH "%s" "1" "" "pi\-chrome %s" "pi\-chrome"`, roff(strings.ToUpper(name)), owner.Version))
	p.line(".nh") // names are not broken
	p.line(".ad l")
	p.section("NAME")
	p.line(roff(name) + ` \- ` + roff(summary))
	return p
}

func (p *page) line(text string) { p.b.WriteString(text + "\n") }

func (p *page) section(name string) { p.line(".SH " + roff(name)) }

func (p *page) synopsis(name, args string) {
	p.line(".B " + roff(name))
	if args != "" {
		p.line(roff(args))
	}
}

// command is the body of a command: what it does and its flags.
func (p *page) command(a *app, c *command) {
	p.prose(c.summary)
	if c.doc != "" {
		p.prose(c.doc)
	}
	set := a.newFlagSet(c.name)
	c.prepare(&app{env: a.env}, set)
	p.flags(set)
}

func (p *page) flags(set *pflag.FlagSet) {
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		arg, usage := pflag.UnquoteUsage(f)
		name := `\fB` + roff("--"+f.Name) + `\fR`
		if f.Shorthand != "" {
			name = `\fB` + roff("-"+f.Shorthand) + `\fR, ` + name
		}
		switch {
		case f.NoOptDefVal != "" && arg != "" && arg != "bool":
			name += `[=\fI` + roff(arg) + `\fR]`
		case f.NoOptDefVal == "" && arg != "":
			name += ` \fI` + roff(arg) + `\fR`
		}
		p.line(".TP")
		p.line(name)
		if usage == "" {
			p.line(`\&`) // an empty line would be a paragraph
			return
		}
		p.line(roff(usage))
	})
}

// prose writes paragraphs; lines that begin with a space stay as they are.
func (p *page) prose(text string) {
	literal := false
	end := func() {
		if literal {
			p.line(".EE")
		}
		literal = false
	}
	p.line(".PP")
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case strings.TrimSpace(line) == "":
			end()
			p.line(".PP")
		case strings.HasPrefix(line, " "):
			if !literal {
				p.line(".EX")
				literal = true
			}
			p.line(roff(line))
		default:
			end()
			p.line(roff(line))
		}
	}
	end()
}

func (p *page) ending() {
	p.section("EXIT STATUS")
	for _, e := range exitMeanings {
		p.line(".TP")
		p.line(fmt.Sprintf(`\fB%d\fR`, e.code))
		p.line(roff(e.meaning))
	}
	p.section("ENVIRONMENT")
	for _, e := range [][2]string{
		{"PI_CHROME_SESSION, PI_CHROME_PORT, PI_CHROME_STATE_DIR, PI_CHROME_PACE", "as the flags of these names, which win"},
		{"PI_CHROME_LOG", "debug logs every step"},
		{"PI_CHROME_BROWSER", "the program that demo, sandbox and smoke start"},
	} {
		p.line(".TP")
		p.line(`\fB` + roff(e[0]) + `\fR`)
		p.line(roff(e[1]))
	}
	p.section("FILES")
	p.line(".TP")
	p.line(roff("$XDG_STATE_HOME/pi-chrome, ~/Library/Application Support/pi-chrome, %LocalAppData%\\pi-chrome"))
	p.line("state.db, the credential of the owner and its log, readable by the user only")
}

var troffEscapes = map[rune]string{
	'\\': `\e`, '-': `\-`, '\'': `\(aq`, '`': `\(ga`, '"': `\(dq`, '^': `\(ha`, '~': `\(ti`,
}

// roff is text as troff takes it, in ASCII. A line that begins with a dot
// would be a request.
func roff(text string) string {
	var b strings.Builder
	if strings.HasPrefix(text, ".") {
		b.WriteString(`\&`)
	}
	for _, r := range text {
		switch esc := troffEscapes[r]; {
		case esc != "":
			b.WriteString(esc)
		case r > 0x7e:
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
