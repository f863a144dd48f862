package driver

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/fixtures"
)

// recallTokens is what the way to an answer may cost in all.
const recallTokens = 2000

// A page's answer is found within 2,000 tokens: one that is asked for by the
// words of the question alone, the others by reading or looking from the start
// and following the frontiers. What each page is asked stands in
// fixtures/lib/answers.txt.
func TestRecall(t *testing.T) {
	patient(t)
	answers, err := fixtures.Answers()
	assert.NilError(t, err)
	var asked, read atomic.Int64
	t.Run("page", func(t *testing.T) {
		for _, name := range fixtures.Names() {
			a := answers[name]
			if a.None != "" {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := start(t, name)
				if strings.HasPrefix(name, "apps/") {
					// An application fetches what it shows after its load.
					s.Call("page.wait", `{"condition":{"by":"networkIdle"}}`)
				}
				way, told := recall(s, a)
				assert.Assert(t, way != "", "%q is not found by %q:\n%s", a.Text, a.Ask, told)
				if a.Ask != "" {
					asked.Add(1)
				} else {
					read.Add(1)
				}
			})
		}
	})
	t.Logf("%d answers found by their question, %d by reading", asked.Load(), read.Load())
	assert.Assert(t, t.Failed() || asked.Load() > 100, "only %d questions were asked", asked.Load())
}

// An answer that is nowhere is not found: neither the echo of a question nor
// the title and the address of the page pass for one.
func TestRecallFindsNoMore(t *testing.T) {
	s := start(t, "read/long.html")
	for _, a := range []fixtures.Answer{
		{Ask: "Paragraph 250", Text: "Paragraph 999"}, {Text: "read/long.html"}, {Ask: "nothing of the kind", Text: "of the kind at all"},
		{Text: "Paragraph 299"}, // further down than 2,000 tokens lead
	} {
		way, told := recall(s, a)
		assert.Equal(t, way, "", "%+v: %s", a, told)
	}
}

// recall looks for the answer. It returns the way on which it was found, "" for
// none, and what the ways told.
func recall(s *drivertest.Scenario, a fixtures.Answer) (way, told string) {
	s.T.Helper()
	if a.Ask == "" {
		for _, operation := range []string{"page.read", "page.snapshot"} {
			text, found := follow(s, operation, a.Text)
			if found {
				return operation, ""
			}
			told += text
		}
		return "", told
	}
	for _, w := range [][2]string{{"page.read", "query"}, {"page.find", "query"}, {"page.snapshot", "query"}, {"page.snapshot", "containingText"}} {
		res := s.Call(w[0], map[string]any{w[1]: a.Ask})
		text := body(res.Text)
		if tokens(res.Text) <= recallTokens && has(text, a.Text) {
			return fmt.Sprint(w), ""
		}
		told += fmt.Sprintf("%s, %d tokens:\n%s\n", w, tokens(res.Text), head(text, 2000))
	}
	return "", told
}

// follow goes on from the start of the page by its frontiers until the answer
// has come or its price would be too high.
func follow(s *drivertest.Scenario, operation, answer string) (told string, found bool) {
	s.T.Helper()
	bound := map[string]string{"page.read": "maxChars", "page.snapshot": "maxTextChars"}[operation]
	spent := 0
	for queue := []string{""}; len(queue) > 0; {
		in := map[string]any{bound: 3000}
		if queue[0] != "" {
			in["ref"] = queue[0]
		}
		queue = queue[1:]
		var out struct {
			Frontiers []FrontierOut
			Cost      CostOut
		}
		res := s.Value(operation, in, &out)
		assert.Equal(s.T, out.Cost.EstimatedTokens, tokens(res.Text), "the result says what it costs")
		spent += out.Cost.EstimatedTokens
		if spent > recallTokens {
			return told, false
		}
		text := body(res.Text)
		if has(text, answer) {
			return "", true
		}
		told += text + "\n"
		for _, f := range out.Frontiers {
			if (f.Projection == "content") == (operation == "page.read") {
				queue = append(queue, f.ID)
			}
		}
	}
	return told, false
}

// tokens is the price of a text as results state it.
func tokens(text string) int { return (runes(text) + 3) / 4 }

// body is a result without its first three lines: what it is, title, address.
func body(text string) string {
	parts := strings.SplitN(text, "\n", 4)
	return parts[len(parts)-1]
}

// has says whether the text holds the answer; case and white space are nothing.
func has(text, answer string) bool {
	return strings.Contains(strings.ToLower(oneLine(text)), strings.ToLower(answer))
}
