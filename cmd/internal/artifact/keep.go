package artifact

import (
	"encoding/json"
	"fmt"

	"pi-chrome/driver/op"
)

// The tools whose results may hold pictures.
const (
	screenshotTool = "chrome_screenshot"
	doTool         = "chrome_do"
)

// Picture is a picture for who looks at the result itself.
type Picture struct {
	MIMEType string // such as image/png
	Data     []byte
}

// Check refuses a path that a call gives for a picture before anything is
// done: one that leaves the workspace, or whose extension is not the format's.
// In a list of steps each is checked. The error is an *op.Error of kind
// invalid. Input that does not decode is left to the operation's own check.
func Check(tool string, in json.RawMessage) error {
	if tool == screenshotTool {
		return check(in)
	}
	if tool != doTool {
		return nil
	}
	var list op.DoIn
	if json.Unmarshal(in, &list) != nil {
		return nil
	}
	for i, s := range list.Steps {
		if !pictures(s.Tool) {
			continue
		}
		if err := check(json.RawMessage(s.Input)); err != nil {
			return op.InStep(i, err)
		}
	}
	return nil
}

// pictures reports whether a step's tool, by any of its names, is the one that
// makes pictures.
func pictures(name string) bool {
	return name == screenshotTool || name == "page.screenshot" || name == "screenshot"
}

// Keep writes the pictures in the result of a call under cwd and returns the
// result as a caller sees it, with the pictures in the order in which they
// were made. A result without pictures comes back as it is. The error is an
// *op.Error; then no file is left.
//
// The steps of a list are done when their pictures are kept: what goes wrong
// with one is told in the text, and the result stands.
func Keep(cwd, tool string, in json.RawMessage, r op.Result) (op.Result, []Picture, error) {
	switch tool {
	case screenshotTool:
		k, err := publish(cwd, in, r.Value)
		if err != nil {
			return r, nil, err
		}
		return op.Result{Value: k.value, Text: k.text}, k.pictures, nil
	case doTool:
		return keepSteps(cwd, in, r)
	}
	return r, nil, nil
}

func keepSteps(cwd string, in json.RawMessage, r op.Result) (op.Result, []Picture, error) {
	var list op.DoIn
	var done op.DoOut
	if err := json.Unmarshal(r.Value, &done); err != nil {
		return r, nil, failed("reading the result of the steps", err)
	}
	if err := json.Unmarshal(in, &list); err != nil {
		return r, nil, failed("reading the steps", err)
	}
	var all []Picture
	text := r.Text
	for i := range done.Steps {
		s := &done.Steps[i]
		if s.Tool != screenshotTool || !s.OK || i >= len(list.Steps) {
			continue
		}
		if s.ValueBytes > 0 {
			s.Text = fmt.Sprintf("the pictures have %d bytes, more than a list may return, and were not kept; chrome_screenshot by itself keeps them", s.ValueBytes)
		} else if k, err := publish(cwd, json.RawMessage(list.Steps[i].Input), s.Value); err != nil {
			s.Value, s.Text = nil, op.AsError(err).Text()
		} else {
			s.Value, s.Text = k.value, k.text
			all = append(all, k.pictures...)
		}
		text += fmt.Sprintf("\n\nStep %d: %s", i+1, s.Text)
	}
	if text == r.Text {
		return r, nil, nil
	}
	out, err := op.NewResult(done)
	if err != nil {
		return r, nil, failed("describing the steps", err)
	}
	out.Text = text
	return out, all, nil
}

// Bounded are the pictures that may be shown, at most so many and so many
// bytes together, and what to say of the others.
func Bounded(all []Picture, most, bytes int) ([]Picture, string) {
	size := 0
	for i, p := range all {
		size += len(p.Data)
		if i >= most || size > bytes {
			return all[:i], fmt.Sprintf("\n\n[%d of %d pictures are shown here; all are in the files]", i, len(all))
		}
	}
	return all, ""
}
