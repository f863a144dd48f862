package drivertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

// Lane is one way to reach tabs. Every case must give the same result on each.
type Lane struct {
	Name string
	// Open returns a new tab at about:blank, closed when the test ends.
	Open func(t testing.TB) Conn
	// Run runs an operation on the tab.
	Run func(ctx context.Context, c Conn, operation string, input json.RawMessage) (op.Result, error)
	// Testdata is the folder of the goldens, "testdata" when empty. A second
	// lane names the first one's.
	Testdata string
	// Site serves the fixtures; nil means the shared [Server].
	Site *Site
}

// Case is one test of operations on a page.
type Case struct {
	Name string // <topic>--<case>; also the stem of its goldens
	Page string // the fixture that is loaded first; "" stays at about:blank
	Do   func(s *Scenario)
}

// alone are the topics whose cases cannot run beside others: they share state
// on the server, or say what a tab sees of itself while the window's other tabs
// are left alone.
var alone = []string{"apps", "screenshot"}

// RunCases runs every case as a subtest on the lane, as many at a time as the
// flag -parallel says, each with a tab of its own.
func RunCases(t *testing.T, lane Lane, cases []Case) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			if topic, _, _ := strings.Cut(c.Name, "--"); !slices.Contains(alone, topic) {
				t.Parallel()
			}
			s := Start(t, lane, c.Name)
			if c.Page != "" {
				s.Goto(c.Page)
			}
			c.Do(s)
		})
	}
}

// Scenario is one test on one tab. Its methods fail the test.
type Scenario struct {
	T    testing.TB
	Name string
	Conn Conn
	Site *Site
	lane Lane
}

// Start opens a tab on the lane.
func Start(t testing.TB, lane Lane, name string) *Scenario {
	t.Helper()
	site := lane.Site
	if site == nil {
		site = Server(t)
	}
	return &Scenario{T: t, Name: name, Conn: lane.Open(t), Site: site, lane: lane}
}

// Goto loads a fixture with plain commands.
func (s *Scenario) Goto(path string) {
	s.T.Helper()
	assert.NilError(s.T, s.Conn.Attach(s.T.Context()))
	Goto(s.T, s.Conn, s.Site.URL(path))
}

// Eval evaluates the expression in the page and returns its value as JSON.
func (s *Scenario) Eval(expression string) string {
	s.T.Helper()
	return Eval(s.T, s.Conn, expression)
}

// Run runs the operation. The input is a JSON text or any value to encode.
func (s *Scenario) Run(operation string, input any) (op.Result, error) {
	s.T.Helper()
	var raw json.RawMessage
	if text, ok := input.(string); ok {
		raw = json.RawMessage(text)
	} else {
		var err error
		raw, err = json.Marshal(input)
		assert.NilError(s.T, err)
	}
	return s.lane.Run(s.T.Context(), s.Conn, operation, raw)
}

// Call runs the operation, which must succeed.
func (s *Scenario) Call(operation string, input any) op.Result {
	s.T.Helper()
	res, err := s.Run(operation, input)
	if err != nil {
		if e, ok := errors.AsType[*op.Error](err); ok {
			s.T.Fatalf("%s: %s %s: %s (%s) %s", operation, e.Kind, e.Code, e.Message, e.Hint, e.MarshalDetails())
		}
		s.T.Fatalf("%s: %v", operation, err)
	}
	return res
}

// Value runs the operation and decodes its value.
func (s *Scenario) Value(operation string, input, value any) op.Result {
	s.T.Helper()
	res := s.Call(operation, input)
	assert.NilError(s.T, json.Unmarshal(res.Value, value), "%s", res.Value)
	return res
}

// Fail runs the operation, which must fail with the kind and code.
func (s *Scenario) Fail(operation string, input any, kind op.Kind, code op.Code) *op.Error {
	s.T.Helper()
	res, err := s.Run(operation, input)
	assert.Assert(s.T, err != nil, "%s succeeded: %.1000s", operation, res.Value)
	e, ok := errors.AsType[*op.Error](err)
	assert.Assert(s.T, ok, "%s: %v is no *op.Error", operation, err)
	assert.Equal(s.T, fmt.Sprint(e.Kind, " ", e.Code), fmt.Sprint(kind, " ", code), "%s: %s", operation, e.Message)
	return e
}

// Golden compares text, with the origins made neutral, with the golden of the
// operation that is named after the case.
func (s *Scenario) Golden(operation, text string) {
	s.T.Helper()
	dir := s.lane.Testdata
	if dir == "" {
		dir = "testdata"
	}
	goldenIn(s.T, filepath.FromSlash(dir), operation, s.Name, s.Site.Neutral(text))
}
