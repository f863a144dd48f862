package driver

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"

	"pi-chrome/driver/op"
)

// Bounds of the console's ring.
const (
	maxConsoleMessages = 500
	maxConsoleBytes    = 1 << 20
	maxConsoleArgs     = 20
	maxConsoleStack    = 10
	maxPlaceLength     = 1000 // characters of an address in a message
	maxContexts        = 1024 // of one session

	// maxHeldValues is how many values Chrome keeps for us before we let go
	// of them: it keeps them as long as the document lives.
	maxHeldValues = 200
)

// ConsoleMessage is one message of the console, an uncaught error, or a
// message of the browser about the page.
type ConsoleMessage struct {
	ID          string            `json:"id" jsonschema:"msg-N, rising"`
	Level       string            `json:"level" enum:"debug|log|info|warn|error|pageerror|unhandledrejection"`
	Timestamp   int64             `json:"timestamp" jsonschema:"when, in ms since 1970"`
	URL         string            `json:"url" jsonschema:"the page, frame or worker that it comes from"`
	Args        []json.RawMessage `json:"args" jsonschema:"what was logged: JSON, with markers as chrome_evaluate returns them"`
	ArgsOmitted int               `json:"argsOmitted,omitempty" jsonschema:"how many arguments more there were"`
	Method      string            `json:"method,omitempty" jsonschema:"the console's method where the level does not tell it, such as table or assert"`
	Source      string            `json:"source,omitempty" jsonschema:"of a message of the browser: network, security, deprecation, …"`
	From        string            `json:"from,omitempty" jsonschema:"iframe, worker, service_worker, … where it is not the page itself"`
	World       string            `json:"world,omitempty" jsonschema:"the script world where it is not the page's own, such as an extension's"`
	Location    *SourceLocation   `json:"location,omitempty"`
	Stack       []string          `json:"stack,omitempty" jsonschema:"of an error, innermost first"`
	RequestID   string            `json:"requestId,omitempty" jsonschema:"the request that it is about, for chrome_network_get"`
	Handled     bool              `json:"handled,omitempty" jsonschema:"the rejection was handled later"`
}

// SourceLocation is a place in a script; line and column count from 1.
type SourceLocation struct {
	URL    string `json:"url"`
	Line   int64  `json:"line,omitempty"`
	Column int64  `json:"column,omitempty"`
}

// consoleLog is the ring of a tab's messages.
type consoleLog struct {
	list    []*consoleEntry
	bytes   int
	next    int
	dropped int
	floor   float64 // of what was dropped or cleared, the latest time
}

type consoleEntry struct {
	msg     ConsoleMessage
	number  int
	time    float64 // as Chrome told it, for telling a repeated message
	session string
	frame   cdp.FrameID
	thrown  int64 // the exception's id
	request network.RequestID
	hash    uint64
	size    int
	gone    bool
}

// consoleEventLocked takes in an event of the console.
func (t *Tab) consoleEventLocked(s *captureSession, ev op.Event) bool {
	switch ev.Method {
	case runtime.ConsoleAPICalled.Method:
		if e, ok := decode[runtime.EventConsoleAPICalled](ev); ok && (s.console || s.replaying) {
			t.consoleCalledLocked(s, &e)
		}
	case runtime.ExceptionThrown.Method:
		if e, ok := decode[runtime.EventExceptionThrown](ev); ok && e.ExceptionDetails != nil && (s.console || s.replaying) {
			t.exceptionLocked(s, &e)
		}
	case runtime.ExceptionRevoked.Method:
		if e, ok := decode[runtime.EventExceptionRevoked](ev); ok {
			for _, m := range t.capture.console.list {
				if m.session == s.id && m.thrown == e.ExceptionID {
					m.msg.Handled = true
				}
			}
		}
	case log.EntryAdded.Method:
		if e, ok := decode[log.EventEntryAdded](ev); ok && e.Entry != nil && (s.console || s.replaying) {
			t.browserMessageLocked(s, e.Entry)
		}
	case runtime.ExecutionContextCreated.Method:
		if e, ok := decode[runtime.EventExecutionContextCreated](ev); ok && e.Context != nil {
			s.contextLocked(e.Context)
		}
	case runtime.ExecutionContextsCleared.Method:
		s.contexts, s.worlds, s.held = nil, nil, 0
	case runtime.ExecutionContextDestroyed.Method, runtime.InspectRequested.Method:
	default:
		return false
	}
	return true
}

// contextLocked notes of which frame a context is, and the name of a world
// that is not the page's own.
func (s *captureSession) contextLocked(c *runtime.ExecutionContextDescription) {
	var aux struct {
		IsDefault *bool       `json:"isDefault"`
		FrameID   cdp.FrameID `json:"frameId"`
	}
	if len(c.AuxData) == 0 || json.Unmarshal(c.AuxData, &aux) != nil {
		return
	}
	if s.contexts == nil || len(s.contexts) >= maxContexts {
		s.contexts, s.worlds = map[runtime.ExecutionContextID]cdp.FrameID{}, map[runtime.ExecutionContextID]string{}
	}
	s.contexts[c.ID] = aux.FrameID
	if aux.IsDefault != nil && !*aux.IsDefault {
		s.worlds[c.ID] = cut(c.Name+" "+c.Origin, 100)
	}
}

// consoleLevels maps the console's methods to the contract's levels. What is
// not here is a log.
var consoleLevels = map[runtime.ConsoleAPICalledType]string{
	runtime.ConsoleAPICalledTypeDebug:   "debug",
	runtime.ConsoleAPICalledTypeInfo:    "info",
	runtime.ConsoleAPICalledTypeWarning: "warn",
	runtime.ConsoleAPICalledTypeError:   "error",
	runtime.ConsoleAPICalledTypeAssert:  "error",
}

func (t *Tab) consoleCalledLocked(s *captureSession, e *runtime.EventConsoleAPICalled) {
	level := consoleLevels[e.Type]
	if level == "" {
		level = "log"
	}
	m := t.messageLocked(s, level, float64(e.Timestamp), e.ExecutionContextID)
	switch e.Type {
	case runtime.ConsoleAPICalledTypeEndGroup:
		return
	case runtime.ConsoleAPICalledTypeLog, runtime.ConsoleAPICalledTypeDebug, runtime.ConsoleAPICalledTypeInfo,
		runtime.ConsoleAPICalledTypeWarning, runtime.ConsoleAPICalledTypeError:
	default:
		m.msg.Method = string(e.Type)
	}
	m.msg.Location = locate(e.StackTrace)
	switch e.Type {
	case runtime.ConsoleAPICalledTypeError, runtime.ConsoleAPICalledTypeTrace, runtime.ConsoleAPICalledTypeAssert:
		m.msg.Stack = stackLines(e.StackTrace)
	}
	t.addMessageLocked(s, m, e.Args)
}

func (t *Tab) exceptionLocked(s *captureSession, e *runtime.EventExceptionThrown) {
	d := e.ExceptionDetails
	level := "pageerror"
	if strings.Contains(d.Text, "in promise") {
		level = "unhandledrejection"
	}
	m := t.messageLocked(s, level, float64(e.Timestamp), d.ExecutionContextID)
	m.thrown = d.ExceptionID
	m.msg.Location = locate(d.StackTrace)
	if m.msg.Location == nil && d.URL != "" {
		m.msg.Location = &SourceLocation{URL: shownURL(d.URL), Line: d.LineNumber + 1, Column: d.ColumnNumber + 1}
	}
	m.msg.Stack = stackLines(d.StackTrace)
	var args []*runtime.RemoteObject
	if d.Exception != nil {
		args = append(args, d.Exception)
	} else {
		m.msg.Args = []json.RawMessage{jsonText(d.Text)}
	}
	t.addMessageLocked(s, m, args)
}

// browserMessageLocked takes in a message of the browser about the page. What
// a worker logs comes here too; where the worker has a session of its own,
// that tells it better.
func (t *Tab) browserMessageLocked(s *captureSession, e *log.Entry) {
	if e.Source == log.EntrySourceWorker {
		for _, w := range t.capture.sessions {
			if string(w.target) == e.WorkerID || e.URL != "" && w.worker() && w.url == e.URL {
				return
			}
		}
	}
	level := map[log.EntryLevel]string{log.EntryLevelVerbose: "debug", log.EntryLevelWarning: "warn", log.EntryLevelError: "error"}[e.Level]
	if level == "" {
		level = "info"
	}
	m := t.messageLocked(s, level, float64(e.Timestamp), 0)
	m.msg.Source = string(e.Source)
	m.msg.Location = locate(e.StackTrace)
	if m.msg.Location == nil && e.URL != "" {
		m.msg.Location = &SourceLocation{URL: shownURL(e.URL)}
		if e.Source != log.EntrySourceNetwork {
			m.msg.Location.Line = e.LineNumber + 1
		}
	}
	m.request = e.NetworkRequestID
	m.msg.Args = []json.RawMessage{boundedText(redactText(e.Text))}
	t.addMessageLocked(s, m, e.Args)
}

// messageLocked begins a message of the session.
func (t *Tab) messageLocked(s *captureSession, level string, at float64, context runtime.ExecutionContextID) *consoleEntry {
	if math.IsNaN(at) || at < 0 || at > 1e15 {
		at = 0
	}
	frame := s.contexts[context]
	m := &consoleEntry{time: at, session: s.id, frame: frame}
	m.msg = ConsoleMessage{Level: level, Timestamp: int64(at), URL: shownURL(t.placeLocked(s, frame)), World: s.worlds[context]}
	switch {
	case s.kind != "page":
		m.msg.From = s.kind
	case frame != "" && frame != t.main:
		m.msg.From = "iframe"
	}
	return m
}

// addMessageLocked ends a message with its values and puts it into the ring.
// What Chrome tells again after an attachment, and what was cleared, is left
// out.
func (t *Tab) addMessageLocked(s *captureSession, m *consoleEntry, args []*runtime.RemoteObject) {
	c := &t.capture.console
	if len(args) > maxConsoleArgs {
		m.msg.ArgsOmitted = len(args) - maxConsoleArgs
		args = args[:maxConsoleArgs]
	}
	var look []int
	refs := 0
	for _, a := range args {
		value, more := remoteValue(a, &refs)
		if more {
			look = append(look, len(m.msg.Args))
		}
		m.msg.Args = append(m.msg.Args, value)
	}
	if m.msg.Args == nil {
		m.msg.Args = []json.RawMessage{}
	}
	m.hash = hashArgs(m.msg.Args)
	if s.replaying && c.knows(m, s.replayMark) {
		return
	}
	c.add(m)
	for _, i := range look {
		t.lookCloserLocked(s, m, i, args[i])
	}
	for _, a := range args {
		if a != nil && a.ObjectID != "" {
			s.held++
		}
	}
	if s.held > maxHeldValues {
		s.held = 0
		t.enqueueJobLocked(captureJob{session: s.id, run: releaseConsole})
	}
}

// knows reports whether the message was told before the message of that
// number came: two equal messages of one replay are two.
func (c *consoleLog) knows(m *consoleEntry, mark int) bool {
	if m.time <= c.floor {
		return true
	}
	return slices.ContainsFunc(c.list, func(o *consoleEntry) bool {
		return o.number <= mark && o.time == m.time && o.msg.Level == m.msg.Level && o.hash == m.hash
	})
}

var hashSeed = maphash.MakeSeed()

// hashArgs tells messages apart by their values as they first came.
func hashArgs(args []json.RawMessage) uint64 {
	var h maphash.Hash
	h.SetSeed(hashSeed)
	for _, a := range args {
		_, _ = h.Write(a) // a hash does not fail
		_ = h.WriteByte(0)
	}
	return h.Sum64()
}

func (c *consoleLog) add(m *consoleEntry) {
	c.next++
	m.number = c.next
	m.msg.ID = fmt.Sprintf("msg-%d", m.number)
	m.size = 200 + len(m.msg.URL)
	for _, a := range m.msg.Args {
		m.size += len(a)
	}
	for _, l := range m.msg.Stack {
		m.size += len(l)
	}
	c.list = append(c.list, m)
	c.bytes += m.size
	for len(c.list) > maxConsoleMessages || c.bytes > maxConsoleBytes && len(c.list) > 1 {
		c.dropOldest()
		c.dropped++
	}
}

func (c *consoleLog) dropOldest() {
	m := c.list[0]
	m.gone = true
	c.floor = max(c.floor, m.time)
	c.bytes -= m.size
	c.list = c.list[1:]
}

func (c *consoleLog) clear() {
	for len(c.list) > 0 {
		c.dropOldest()
	}
	c.list, c.dropped = nil, 0
}

// locate is the innermost place of a stack that has an address.
func locate(st *runtime.StackTrace) *SourceLocation {
	if st == nil {
		return nil
	}
	for _, f := range st.CallFrames {
		if f.URL != "" {
			return &SourceLocation{URL: shownURL(f.URL), Line: f.LineNumber + 1, Column: f.ColumnNumber + 1}
		}
	}
	return nil
}

func stackLines(st *runtime.StackTrace) []string {
	if st == nil {
		return nil
	}
	var out []string
	for _, f := range st.CallFrames {
		if len(out) == maxConsoleStack {
			return append(out, fmt.Sprintf("… %d more", len(st.CallFrames)-maxConsoleStack))
		}
		name := f.FunctionName
		if name == "" {
			name = "(anonymous)"
		}
		out = append(out, fmt.Sprintf("%s %s:%d:%d", cut(name, 100), shownURL(f.URL), f.LineNumber+1, f.ColumnNumber+1))
	}
	return out
}

// shownURL is an address as it is shown: bounded, without secrets.
func shownURL(url string) string { return redactURL(cut(url, maxPlaceLength)) }
