package guide

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tiktoken-go/tokenizer"
	"gotest.tools/v3/assert"

	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/op"
)

// codes are the failures that exist, read from the source that lists them.
func codes(t *testing.T) map[string]bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../../driver/op/codes.go", nil, 0)
	assert.NilError(t, err)
	found := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil {
				found[s] = true
			}
		}
		return true
	})
	assert.Assert(t, len(found) > 40, "%d codes", len(found))
	return found
}

var (
	toolName = regexp.MustCompile(`chrome_[a-z_]+`)
	inTicks  = regexp.MustCompile("`([^`]+)`")
	aCode    = regexp.MustCompile(`^[a-z]+(-[a-z]+)+$`)
	aCall    = regexp.MustCompile(`(chrome_[a-z_]+) '?(\{.*\})'?$`)
)

// TestEverythingNamedExists: tools, codes, kinds, and the input of each call
// that is shown.
func TestEverythingNamedExists(t *testing.T) {
	list, err := owner.Descriptors()
	assert.NilError(t, err)
	tools := map[string]op.Descriptor{}
	for _, d := range list {
		tools[d.Tool] = d
	}
	known := codes(t)
	kinds := map[string]bool{string(op.Rejected): true, string(op.Invalid): true, string(op.Unavailable): true, string(op.OutcomeUnknown): true}
	body, err := Text()
	assert.NilError(t, err)
	assert.Assert(t, strings.HasPrefix(body, strings.TrimSpace(text)), "a sentence was left out, whose tool is misspelled or gone")
	named := map[string]bool{}
	for _, name := range toolName.FindAllString(body, -1) {
		if name != "chrome_" { // chrome_… is all of them
			assert.Assert(t, tools[name].Tool != "", "there is no tool %s", name)
			named[name] = true
		}
	}
	assert.Assert(t, len(named) >= 12, "only %d tools", len(named))
	calls, errs := 0, 0
	for _, m := range inTicks.FindAllStringSubmatch(body, -1) {
		word := m[1]
		if aCode.MatchString(word) {
			assert.Assert(t, known[word] || kinds[word], "there is no code %s", word)
			errs++
		}
		if c := aCall.FindStringSubmatch(word); c != nil {
			assert.NilError(t, owner.Validate(tools[c[1]].Name, json.RawMessage(c[2])), word)
			calls++
		}
	}
	assert.Assert(t, calls >= 7 && errs >= 10, "%d calls, %d codes", calls, errs)
	for _, kind := range []op.Kind{op.Rejected, op.Invalid, op.Unavailable, op.OutcomeUnknown} {
		assert.Assert(t, strings.Contains(body, "`"+string(kind)+"`"), "the guide does not tell %s", kind)
	}
}

// TestOnly: what is said of tools that there are not goes, and no more.
func TestOnly(t *testing.T) {
	const text = "Use `chrome_…`. A tool is `call chrome_a`; good. `chrome_tab_list` lists; it is well. So does `chrome_a`.\n\n" +
		"1. Open: `chrome_a {\"url\":\"https://example.org\"}` shows it.\n" +
		"2. Act: `chrome_do` does all. `chrome_a` does one.\n" +
		"3. `chrome_do` only.\n" +
		"| `dialog-open` | `chrome_dialog` answers it |\n" +
		"The end."
	got := Only(text, func(tool string) bool { return tool == "chrome_a" })
	assert.Equal(t, got, "Use `chrome_…`. A tool is `call chrome_a`; good. So does `chrome_a`.\n\n"+
		"1. Open: `chrome_a {\"url\":\"https://example.org\"}` shows it.\n"+
		"2. Act: `chrome_a` does one.\n"+
		"The end.")
	assert.Equal(t, Only(text, func(string) bool { return true }), text)
}

// TestPrice: an agent may carry the guide in every conversation.
func TestPrice(t *testing.T) {
	enc, err := tokenizer.Get(tokenizer.O200kBase)
	assert.NilError(t, err)
	skill, err := Skill()
	assert.NilError(t, err)
	n, err := enc.Count(skill)
	assert.NilError(t, err)
	t.Logf("%d tokens", n)
	assert.Assert(t, n <= 900, "the guide costs %d tokens", n)
}

// TestVersion: the guide says which contract it is of.
func TestVersion(t *testing.T) {
	operations, err := owner.Fingerprint()
	assert.NilError(t, err)
	skill, err := Skill()
	assert.NilError(t, err)
	assert.Assert(t, strings.HasPrefix(skill, "---\nname: pi-chrome\ndescription: "))
	assert.Assert(t, strings.HasSuffix(skill, "(pi-chrome "+owner.Version+", protocol 1, operations "+operations[:12]+")\n"), skill[len(skill)-200:])
}
