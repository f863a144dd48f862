package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

// scriptFake answers the lines of a script by tool.
type scriptFake struct {
	t       *testing.T
	answers map[string]func(input string) (value, text string, err error)
	ran     []string // tool and input
	dials   int
	closed  int
}

func (f *scriptFake) reach(context.Context) (scriptOwner, error) {
	f.dials++
	return f, nil
}

func (f *scriptFake) close() { f.closed++ }

func (f *scriptFake) run(ctx context.Context, as *app, desc op.Descriptor, input json.RawMessage) (output, error) {
	f.ran = append(f.ran, desc.Tool+" "+string(input))
	if as.globals.trace != "" {
		file, err := os.OpenFile(as.globals.trace, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		assert.NilError(f.t, err)
		_, err = file.WriteString(desc.Tool + "\n")
		assert.NilError(f.t, err)
		assert.NilError(f.t, file.Close())
	}
	if err := ctx.Err(); err != nil {
		return output{}, err
	}
	answer := f.answers[desc.Tool]
	if answer == nil {
		return output{value: json.RawMessage(`{}`), text: "done"}, nil
	}
	value, text, err := answer(string(input))
	if err != nil {
		return output{commandID: "c-1"}, err
	}
	return output{value: json.RawMessage(value), text: text, commandID: "c-1"}, nil
}

// shop answers as the page of the example in docs/run.md.
func shop(t *testing.T) *scriptFake {
	fixed := func(value, text string) func(string) (string, string, error) {
		return func(string) (string, string, error) { return value, text, nil }
	}
	return &scriptFake{t: t, answers: map[string]func(string) (string, string, error){
		"chrome_navigate": fixed(`{"title":"Order"}`, "Order"),
		"chrome_find":     fixed(`{"matches":[{"uid":"el-2","role":"textbox","name":"Email","verbs":["fill"]},{"uid":"el-3","role":"textbox","name":"Email again","verbs":["fill"]}]}`, "el-2"),
		"chrome_snapshot": fixed(`{"actions":[{"id":"el-7","role":"button","name":"Send the order","verbs":["click"]},{"id":"el-8","role":"link","name":"Order","verbs":["click"]}]}`, "# Chrome snapshot"),
		"chrome_click": func(in string) (string, string, error) {
			if strings.Contains(in, "el-999") {
				return "", "", op.Reject(op.StaleActionRef, "ref el-999 is stale").WithHint("take a snapshot")
			}
			return `{}`, "Clicked el-7", nil
		},
		"chrome_wait":     fixed(`{"satisfied":true}`, "satisfied"),
		"chrome_read":     fixed(`{}`, "Thanks.\nOrder number 512."),
		"chrome_evaluate": fixed(`"Thanks"`, "Thanks"),
	}}
}

// script runs a script against an owner that is not real.
func script(t *testing.T, f *scriptFake, text string, globals ...string) (code int, out, errs string, env Environment) {
	t.Helper()
	env, o, e := testEnv(t, map[string]string{"EMAIL": "ada@example.org"})
	return runWith(t.Context(), env, f, text, globals), o.String(), e.String(), env
}

func runWith(ctx context.Context, env Environment, f *scriptFake, text string, args []string) int {
	a := &app{env: env, stdout: env.Stdout, stderr: env.Stderr}
	a.env.Stdin = strings.NewReader(text)
	flags := runFlags{evidence: "pi-chrome-run", vars: []string{"item=lamp & shade"}, env: []string{"EMAIL"}}
	for _, arg := range args {
		switch arg {
		case "--json":
			a.globals.json = true
		case "--results":
			flags.results = true
		case "--no-evidence":
			flags.noEvidence = true
		}
	}
	if err := a.globals.resolve(env); err != nil {
		return a.finish(ctx, "run", output{}, err)
	}
	out, err := a.runScript(ctx, flags, []string{"-"}, f.reach)
	return a.finish(ctx, "run", out, err)
}

// TestRunExample runs the example of the document, and sees what each line
// sent.
func TestRunExample(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "run.md"))
	assert.NilError(t, err)
	_, example, ok := strings.Cut(string(raw), "```text\n")
	assert.Assert(t, ok)
	example, _, _ = strings.Cut(example, "```")
	f := shop(t)
	code, out, errs, env := script(t, f, example)
	assert.Equal(t, code, exitDone, errs)
	assert.Equal(t, errs, "")
	assert.DeepEqual(t, f.ran, []string{
		`chrome_navigate {"url":"https://shop.example/order?item=lamp & shade"}`,
		`chrome_find {"role":"textbox"}`,
		`chrome_fill {"ref":"el-2","text":"ada@example.org"}`,
		`chrome_snapshot {"mode":"interactive"}`,
		`chrome_click {"ref":"el-999"}`,
		`chrome_click {"ref":"el-7"}`,
		`chrome_wait {"condition":{"by":"textContains","value":"Thank you, ada@example.org"}}`,
		`chrome_read {}`,
		`chrome_evaluate {"expression":"document.title"}`,
	})
	assert.Equal(t, f.dials, 1, "one connection")
	assert.Equal(t, f.closed, 1)
	lines := strings.Split(strings.TrimSpace(regexp.MustCompile(` +\d+ ms`).ReplaceAllString(out, " N ms")), "\n")
	assert.Equal(t, len(lines), 10, out)
	assert.Equal(t, lines[2], `   4 N ms  ok      fill $email "$EMAIL"`)
	assert.Equal(t, lines[9], `9 of 9 commands done in N ms`)
	assert.Assert(t, !strings.Contains(out, "ada@"), "values of variables are not printed: %s", out)
	assert.DeepEqual(t, files(t, env.Dir), []string{}) // a script that is done leaves nothing
}

// TestRunChecksFirst: with one bad line nothing runs, and all are named.
func TestRunChecksFirst(t *testing.T) {
	for line, want := range map[string]string{
		`clik --ref el-1`:                           `unknown command "clik" (did you mean click?`,
		`click --reef el-1`:                         "unknown flag --reef",
		`click`:                                     "line 2: ",
		`click --ref nonsense`:                      "ref",
		`fill el-1 "open`:                           `a " is not closed`,
		`fill el-1 'open`:                           `a ' is not closed`,
		`fill el-1 open\`:                           `ends with \`,
		`read $nobody`:                              "$nobody is not set before this line",
		`read => as x y z`:                          "after => stands one of",
		`read => as 1x`:                             "no name of a variable",
		`read => as x => as x`:                      "sets $x twice",
		`read => text matches '('`:                  "the pattern cannot be read",
		`read => text contains two words`:           "needs quotes",
		`read => value x equals y`:                  "no JSON pointer",
		`read => as x /a~2`:                         "no JSON pointer",
		`press Hom`:                                 "near it are Home",
		`navigate example.org`:                      "write https://example.org",
		`read => error odd`:                         "no kind of an error",
		`read => error rejected => as x`:            "has no value",
		`=> as x`:                                   "no command before",
		`$item`:                                     "may not be a variable",
		`read ${x`:                                  "not the beginning of a variable",
		`stop`:                                      "no operation",
		`read --json`:                               "--json is for the whole script",
		`read --session other`:                      "--session is for the whole script",
		`read -o file`:                              "--output is for the whole script",
		`evaluate -`:                                "no stdin",
		`call chrome_read {`:                        "chrome_read",
		`call chrome_nothing`:                       `unknown tool "chrome_nothing"`,
		`screenshot --path ../x.png`:                "..",
		`{"tool":"chrome_read"`:                     "no line of a script",
		`{"tool":"chrome_read"} x`:                  "stands after the JSON object",
		`{"tool":"chrome_read","no":1}`:             `unknown field "no"`,
		`{"tool":"chrome_reed"}`:                    "unknown tool",
		`{"tool":"chrome_click","input":{"ref":7}}`: "ref",
		`{"tool":"chrome_read","save":{"x":{"words":"a"}}}`: "save.x is none of",
		`{"tool":"chrome_read","input":{"ref":"$nobody"}}`:  "$nobody is not set",
		strings.Repeat("x", maxScriptLine+1):                "longer than",
	} {
		f := shop(t)
		code, out, errs, _ := script(t, f, "navigate https://example.org/\n"+line+"\nread\n")
		name := clip(line, 80)
		assert.Equal(t, code, exitUsage, "%s: %s", name, errs)
		assert.Assert(t, strings.Contains(errs, want), "%s: %s", name, errs)
		assert.Assert(t, strings.Contains(errs, "1 bad line; nothing was run\n  line 2: "), "%s: %s", name, errs)
		assert.Equal(t, out, "", name)
		assert.Equal(t, f.dials, 0, name)
	}

	f := shop(t)
	code, out, _, _ := script(t, f, "nonsense\nread\nevaluate $x => as y\nevaluate $y\n", "--json")
	assert.Equal(t, code, exitUsage)
	var got failure
	assert.NilError(t, json.Unmarshal([]byte(out), &got))
	bad, ok := got.Error.Details["lines"].([]any)
	assert.Assert(t, ok && len(bad) == 2, "%v", got.Error.Details)
	assert.Equal(t, f.dials, 0)

	// What a value of an earlier result makes of an input is not known before.
	f = shop(t)
	_, _, errs, _ := script(t, f, "evaluate 1 => as k\npress \"Arrow$k\"\nchrome_press {\"key\":\"$k\"}\nnavigate $k\n")
	assert.Assert(t, f.dials > 0, errs)

	for text, want := range map[string]string{
		"# nothing\n\n": "holds no command",
		strings.Repeat("read\n", maxScriptLines+1):  "more than 500 commands",
		strings.Repeat("# long\n", maxScript/7+1):   "more than 1048576 bytes",
		strings.Repeat("nonsense\n", maxShownBad+2): "and 2 more",
	} {
		f := shop(t)
		code, _, errs, _ := script(t, f, text)
		assert.Equal(t, code, exitUsage)
		assert.Assert(t, strings.Contains(errs, want), errs)
		assert.Equal(t, f.dials, 0)
	}
}

// TestRunStops: the first failure ends a script, with its exit code, a picture
// and the trace.
func TestRunStops(t *testing.T) {
	for line, want := range map[string]struct {
		code  int
		error string
	}{
		`click --ref el-999`:                                      {exitRejected, "error: line 2: ref el-999 is stale\npi-chrome: hint: take a snapshot"},
		`click --ref el-999 => error rejected tab-gone`:           {exitUnmet, "it failed with rejected stale-action-ref, but expected was rejected tab-gone"},
		`click --ref el-999 => error unavailable`:                 {exitUnmet, "but expected was unavailable"},
		`click --ref el-999 => error rejected => text contains x`: {exitUnmet, `its text does not contain "x"; it is "ref el-999 is stale"`},
		`read => error rejected`:                                  {exitUnmet, "it was done, but expected was the error rejected"},
		`read => text contains Sorry`:                             {exitUnmet, `does not contain "Sorry"`},
		`read => text matches "number $item"`:                     {exitUnmet, `does not match "number lamp & shade"`},
		`evaluate 1 => value equals Sorry`:                        {exitUnmet, `its value is "Thanks", but expected was "Sorry"`},
		`navigate about:blank => value /title equals Sorry`:       {exitUnmet, `the value at /title is "Order", but expected was "Sorry"`},
		`navigate about:blank => value /title/x equals 1`:         {exitUnmet, `/title/x is not there: /title is "Order"`},
		`find email => as x /matches/2`:                           {exitUnmet, "/matches/2 is not there: /matches has 2 items"},
		`navigate about:blank => as x /nothing`:                   {exitUnmet, "/nothing is not there: the result has title"},
		`find email => as x ref textbox`:                          {exitUnmet, `2 elements are called that: el-2 textbox "Email", el-3 textbox "Email again"`},
		`find email => as x ref Phone`:                            {exitUnmet, "none of the 2 elements of the result is called that"},
	} {
		f := shop(t)
		code, out, errs, env := script(t, f, "navigate https://example.org/\n"+line+"\nread\n")
		assert.Equal(t, code, want.code, "%s: %s", line, errs)
		assert.Assert(t, strings.Contains(errs, "line 2: ") && strings.Contains(errs, want.error), "%s: %s", line, errs)
		assert.Assert(t, strings.Contains(out, "FAILED  "+line+"\n1 of 3 commands done"), "%s: %s", line, out)
		assert.Equal(t, len(f.ran), 3, "%s: the picture is last: %q", line, f.ran)
		assert.Assert(t, regexp.MustCompile(`^chrome_screenshot \{"format":"png","capture":\{"kind":"viewport","path":"pi-chrome-run/[-.0-9]+-line-2.png"\}\}$`).MatchString(f.ran[2]), f.ran[2])
		kept := files(t, filepath.Join(env.Dir, "pi-chrome-run"))
		assert.Equal(t, len(kept), 1)
		trace := filepath.Join(env.Dir, "pi-chrome-run", kept[0])
		assert.Assert(t, strings.Contains(errs, "pi-chrome: trace: "+trace+"\n"), errs)
		assert.Assert(t, strings.Contains(errs, "pi-chrome: picture: "+strings.TrimSuffix(trace, ".jsonl")+".png\n"), errs)
		raw, err := os.ReadFile(trace)
		assert.NilError(t, err)
		assert.Equal(t, strings.Count(string(raw), "\n"), 2, "both lines are in the trace, the picture is not")
	}

	f := shop(t)
	code, _, errs, env := script(t, f, "click --ref el-999\n", "--no-evidence")
	assert.Equal(t, code, exitRejected)
	assert.Assert(t, !strings.Contains(errs, "picture") && len(f.ran) == 1, errs)
	assert.DeepEqual(t, files(t, env.Dir), []string{})

	f = shop(t)
	f.answers["chrome_read"] = func(string) (string, string, error) {
		return "", "", op.NotAvailable(op.ConnectorOffline, "the browser is not connected")
	}
	code, out, _, _ := script(t, f, "read\nread", "--json")
	assert.Equal(t, code, exitUnavailable)
	var got runReport
	assert.NilError(t, json.Unmarshal([]byte(out), &got), out)
	assert.Equal(t, got.Error.Code, op.ConnectorOffline)
	assert.DeepEqual(t, got.Missing, []string{"no picture: the browser is not available"})
	assert.Assert(t, !got.OK && got.Done == 0 && got.Of == 2 && len(got.Steps) == 1 && got.Steps[0].CommandID == "c-1", out)
}

// TestRunInterrupted: an interrupt ends the script, and no picture is taken.
func TestRunInterrupted(t *testing.T) {
	env, _, errs := testEnv(t, map[string]string{"EMAIL": "x"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := shop(t)
	f.answers["chrome_navigate"] = func(string) (string, string, error) {
		cancel()
		return `{}`, "", nil
	}
	assert.Equal(t, runWith(ctx, env, f, "navigate https://example.org/\nread\nread\n", nil), exitInterrupted)
	assert.Equal(t, len(f.ran), 2)
	assert.Assert(t, strings.Contains(errs.String(), "no picture: the script was interrupted"), errs.String())
}

// TestRunValues: kept values have their kind in JSON lines, and are text on
// command lines.
func TestRunValues(t *testing.T) {
	f := shop(t)
	f.answers["chrome_tab_new"] = func(string) (string, string, error) { return `{"id":12,"url":"about:blank","ok":true}`, "tab 12", nil }
	code, out, errs, _ := script(t, f, strings.Join([]string{
		`tab-new => as tab /id => as text => value /id equals 12 => value /ok equals true => value /url equals about:blank`,
		`{"tool":"chrome_read","input":{"target":{"by":"id","value":"$tab"}}}`,
		`read --target $tab`,
		`evaluate '$tab' # not a variable`,
		`evaluate "\$tab $tab"`,
		`{"tool":"chrome_evaluate","input":{"expression":"$$tab $tab ${text}"},"save":{"again":"","all":""},"expect":{"value":{"":"Thanks"},"text":{"contains":"Th","matches":"^T"}}}`,
		`evaluate $again$again"x y"`,
		`navigate https://example.org/ => as page value`,
		`evaluate $page`,
	}, "\n"), "--json")
	assert.Equal(t, code, exitDone, out+errs)
	assert.DeepEqual(t, f.ran[1:], []string{
		`chrome_read {"target":{"by":"id","value":12}}`,
		`chrome_read {"target":{"by":"id","value":"12"}}`,
		`chrome_evaluate {"expression":"$tab"}`,
		`chrome_evaluate {"expression":"$tab 12"}`,
		`chrome_evaluate {"expression":"$tab 12 tab 12"}`,
		`chrome_evaluate {"expression":"ThanksThanksx y"}`,
		`chrome_navigate {"url":"https://example.org/"}`,
		`chrome_evaluate {"expression":"{\"title\":\"Order\"}"}`,
	})
	var got runReport
	assert.NilError(t, json.Unmarshal([]byte(out), &got), out)
	assert.Assert(t, got.OK && got.Done == 9 && len(got.Steps) == 9, out)
	assert.Equal(t, string(got.Steps[0].Value), `{"id":12,"url":"about:blank","ok":true}`)

	code, out, _, _ = script(t, shop(t), "read\n", "--results")
	assert.Equal(t, code, exitDone)
	assert.Assert(t, strings.Contains(out, "read\n      Thanks.\n      Order number 512.\n"), out)
}

// TestRunList: a list of steps that stops on its way ends the script.
func TestRunList(t *testing.T) {
	f := shop(t)
	a := &app{}
	step, _ := (&scriptRun{a: a, owner: listOwner{f}}).line(t.Context(), &scriptLine{desc: op.Descriptor{Name: op.DoName, Tool: doTool}, call: true, args: []word{{pieces: []piece{{text: `{"steps":[{"tool":"chrome_read"}]}`}}}}})
	assert.Assert(t, !step.OK && step.Error != nil && step.Error.Code == op.TabGone, "%+v", step)
}

type listOwner struct{ *scriptFake }

func (listOwner) run(context.Context, *app, op.Descriptor, json.RawMessage) (output, error) {
	return output{code: exitRejected, value: json.RawMessage(`{"steps":[{"ok":true},{"error":{"kind":"rejected","code":"tab-gone","message":"gone"}}]}`)}, nil
}

// TestRunFlags: what is wrong with the command line of run itself.
func TestRunFlags(t *testing.T) {
	for line, want := range map[string]string{
		"run":                           "give one script",
		"run a b":                       "give one script",
		"run nothing.txt":               "the script cannot be read",
		"run --var x -":                 "give it as name=value",
		"run --var 1x=2 -":              `"1x" is no name of a variable`,
		"run --var x=1 --var x=2 -":     "$x is set twice",
		"run --env PI_CHROME_NOTHING -": "the environment has no PI_CHROME_NOTHING",
		"run --evidence ../x -":         "--evidence",
	} {
		env, out, errs := testEnv(t, nil)
		assert.Equal(t, Run(t.Context(), env, strings.Fields(line)), exitUsage, line)
		assert.Assert(t, strings.Contains(errs.String(), want), "%s: %s", line, errs)
		assert.Equal(t, out.String(), "")
	}
}

// FuzzSplitWords: no line makes the splitter fail in another way than with an
// error, and what it takes in single quotes comes out as it was.
func FuzzSplitWords(f *testing.F) {
	for _, s := range []string{`a 'b c' "d $e" \f # g`, `${`, `"`, `\`, `$`, "=> as x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		_, _ = splitWords(line)
		_, _ = splitText(line)
		if strings.ContainsAny(line, "'\n") {
			return
		}
		words, err := splitWords("x'" + line + "'")
		assert.NilError(t, err)
		text, ok := words[0].literal()
		assert.Assert(t, ok && text == "x"+line && len(words) == 1, "%q", text)
	})
}
