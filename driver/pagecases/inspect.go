package pagecases

import (
	"encoding/json"
	"fmt"
	"strings"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

type inspectAction struct {
	ID, Role, Name string
	Verbs          []string
}

type inspectOut struct {
	Target struct {
		Index                                                                                int
		UID, Tag, Role, Label, Description, Selector, Href, Type, Text, PointerEvents, Frame string
		HasValue, Disabled, Inert, Rendered, InViewport                                      bool
		Checked                                                                              any
		Occluded                                                                             *struct{ Tag, ID, ClassName string }
		Context                                                                              *struct{ UID, Role, Label string }
		State                                                                                map[string]any
		Verbs                                                                                []string
		Styles                                                                               map[string]string
		Attributes                                                                           [][2]string
		Rect, Box                                                                            struct{ X, Y, Width, Height float64 }
		Listeners                                                                            []struct {
			Type             string
			Count            int
			Capture, Passive bool
		}
	}
	Ancestors     []struct{ UID, Tag, Role, Label, Selector string }
	NearbyText    []struct{ UID, Text string }
	NearbyActions []inspectAction
	FormContext   *struct {
		UID, Label      string
		Fields, Actions []inspectAction
	}
	ClickSuggestion *struct {
		UID  string
		X, Y float64
	}
}

func inspected(s *drivertest.Scenario, input any) inspectOut {
	s.T.Helper()
	var out inspectOut
	s.Value("page.inspect", input, &out)
	return out
}

func bySelector(css string) map[string]any {
	return map[string]any{"element": map[string]any{"by": "selector", "value": css}}
}

var inspectCases = []drivertest.Case{
	{Name: "inspect--a-button", Page: "find/form.html", Do: inspectButton},
	{Name: "inspect--each-means", Page: "find/form.html", Do: inspectMeans},
	{Name: "inspect--not-rendered", Page: "find/form.html", Do: inspectHidden},
	{Name: "inspect--secret", Page: "find/form.html", Do: func(s *drivertest.Scenario) {
		res := s.Call("page.inspect", bySelector("[name=pin]"))
		assert.Assert(s.T, !strings.Contains(string(res.Value)+res.Text, "hunter2"), res.Text)
		var out inspectOut
		assert.NilError(s.T, json.Unmarshal(res.Value, &out))
		assert.Equal(s.T, out.Target.State["valueRedacted"], true)
		attrs := map[string]string{}
		for _, a := range out.Target.Attributes {
			attrs[a[0]] = a[1]
		}
		assert.Equal(s.T, attrs["value"], "(redacted)")
		assert.Equal(s.T, attrs["data-api-key"], "(redacted)")
		assert.Equal(s.T, attrs["name"], "pin")
	}},
	{Name: "inspect--scrolls-only-when-asked", Page: "find/form.html", Do: func(s *drivertest.Scenario) {
		in := map[string]any{"element": map[string]any{"by": "find", "role": "button", "name": "Save below"}}
		out := inspected(s, in)
		assert.Assert(s.T, !out.Target.InViewport)
		assert.Equal(s.T, s.Eval("scrollY"), "0")
		in["scrollIntoView"] = true
		out = inspected(s, in)
		assert.Assert(s.T, out.Target.InViewport)
		assert.Equal(s.T, s.Eval("scrollY > 500"), "true")
	}},
	{Name: "inspect--bad-input", Page: "find/form.html", Do: func(s *drivertest.Scenario) {
		for _, in := range []string{`{}`, `{"element":{"by":"uid"}}`, `{"element":{"by":"find"}}`, `{"element":{"by":"uid","value":"el-1","role":"button"}}`,
			`{"element":{"by":"find","role":"button","value":"x"}}`, `{"element":{"by":"xpath","value":"//a"}}`} {
			s.Fail("page.inspect", in, op.Invalid, op.InvalidInput)
		}
		s.Fail("page.inspect", `{"element":{"by":"uid","value":"el-999"}}`, op.Rejected, op.StaleActionRef)
		s.Fail("page.inspect", bySelector("#nothing"), op.Rejected, op.InvalidActionTarget)
		s.Fail("page.inspect", bySelector("##"), op.Rejected, op.ActionTargetNotFound)
		e := s.Fail("page.inspect", `{"element":{"by":"find","role":"button","name":"save"}}`, op.Rejected, op.InvalidActionTarget)
		assert.Equal(s.T, e.Details["reason"], "ambiguous")
		assert.Equal(s.T, fmt.Sprint(e.Details["matches"]), "7")
		s.Fail("page.inspect", `{"element":{"by":"find","role":"button","name":"save","index":7}}`, op.Rejected, op.InvalidActionTarget)
		out := inspected(s, `{"element":{"by":"find","role":"button","name":"save","index":1}}`)
		assert.Equal(s.T, out.Target.Label, "Save as draft")
		// An element that goes away is told as stale, whatever it was found by.
		ref := refOf(s, `button "Save as draft"`)
		s.Eval(`document.querySelector("form").remove()`)
		s.Fail("page.inspect", map[string]any{"element": map[string]any{"by": "uid", "value": ref}}, op.Rejected, op.StaleActionRef)
	}},
}

func inspectButton(s *drivertest.Scenario) {
	t := s.T
	out := inspected(s, map[string]any{"element": map[string]any{"by": "uid", "value": refOf(s, `button "Save"`)}})
	g := out.Target
	assert.Equal(t, g.Tag+" "+g.Role+" "+g.Label, "button button Save")
	assert.Equal(t, g.Type, "submit")
	assert.DeepEqual(t, g.Verbs, []string{"click"})
	assert.Assert(t, g.Rendered && g.InViewport && !g.Disabled && g.Index >= 0)
	assert.Assert(t, g.Rect.Width > 0 && g.Rect == g.Box)
	assert.Equal(t, s.Eval(`document.querySelector(`+quoted(g.Selector)+`).textContent`), `"Save"`)
	assert.Equal(t, g.Context.Role+" "+g.Context.Label, "form Delivery address")
	kinds := []string{}
	for _, l := range g.Listeners {
		kinds = append(kinds, l.Type)
	}
	assert.DeepEqual(t, kinds, []string{"click", "keydown"})
	assert.Assert(t, g.Listeners[1].Capture && g.Listeners[1].Passive)
	assert.Equal(t, out.Ancestors[0].Tag, "p")
	assert.Equal(t, out.Ancestors[1].Tag+out.Ancestors[1].Selector, "form#address")
	assert.Assert(t, len(out.Ancestors) <= 6)
	assert.Assert(t, len(out.NearbyText) > 3 && len(out.NearbyText) <= 24)
	names := map[string]bool{}
	for _, a := range out.NearbyActions {
		names[a.Name] = true
	}
	assert.Assert(t, names["Save as draft"] && names["Email"] && !names["Save"], "%v", names)
	assert.Assert(t, len(out.NearbyActions) <= 30)
	assert.Equal(t, out.FormContext.Label, "Delivery address")
	fields, buttons := []string{}, []string{}
	for _, a := range out.FormContext.Fields {
		fields = append(fields, a.Name)
	}
	for _, a := range out.FormContext.Actions {
		buttons = append(buttons, a.Name)
	}
	assert.DeepEqual(t, fields, []string{"Email", "Street", "City", "Postal code", "Secret pin", "It is a gift"})
	assert.DeepEqual(t, buttons, []string{"Save", "Save as draft", "Start again"})
	assert.Equal(t, out.ClickSuggestion.UID, g.UID)
	assert.Assert(t, out.ClickSuggestion.X > g.Rect.X && out.ClickSuggestion.X < g.Rect.X+g.Rect.Width)
	// Its refs can be used at once.
	s.Call("input.fill", map[string]any{"ref": out.FormContext.Fields[1].ID, "text": "Main street"})
	s.Call("input.click", map[string]any{"ref": out.ClickSuggestion.UID})
}

func inspectMeans(s *drivertest.Scenario) {
	t := s.T
	out := inspected(s, `{"element":{"by":"find","label":"City"}}`)
	assert.Equal(t, out.Target.State["value"], "Bern")
	assert.Assert(t, out.Target.HasValue)
	out = inspected(s, bySelector("#card span:first-child"))
	assert.Equal(t, out.Target.Text, "Order")
	assert.Equal(t, out.Target.Index, -1)
	assert.DeepEqual(t, out.Target.Verbs, []string{})
	assert.Assert(t, out.ClickSuggestion != nil) // the card around it
	s.Call("input.click", map[string]any{"ref": out.ClickSuggestion.UID})
	assert.Equal(t, s.Eval(`document.getElementById("card").dataset.hit`), `"1"`)
	out = inspected(s, bySelector("#over button"))
	assert.Equal(t, out.Target.Occluded.Tag, "div")
	out = inspected(s, bySelector("[name=gift]"))
	assert.Equal(t, out.Target.Checked, false)
	// In shadow roots and frames.
	out = inspected(s, bySelector("fancy-button >>> button"))
	assert.Equal(t, out.Target.Label, "Save in shadow")
	assert.Equal(t, out.Target.Selector, "fancy-button >>> button")
	assert.Equal(t, out.Ancestors[0].Tag, "fancy-button")
	out = inspected(s, `{"element":{"by":"find","testId":"closed-save"}}`)
	assert.Equal(t, out.Target.Label, "Save in closed")
	out = inspected(s, `{"element":{"by":"find","role":"button","name":"Save across"}}`)
	assert.Assert(t, strings.HasSuffix(out.Target.Frame, "/find/inner.html"), out.Target.Frame)
	assert.Assert(t, out.Target.Rect.X > out.Target.Box.X)
	tags := []string{}
	for _, a := range out.Ancestors {
		tags = append(tags, a.Tag)
	}
	assert.DeepEqual(t, tags, []string{"body", "html", "iframe", "main", "body", "html"})
	s.Call("input.click", map[string]any{"ref": out.Target.UID})
}

// An element that is not rendered has no ref, and is told about all the same.
func inspectHidden(s *drivertest.Scenario) {
	t := s.T
	out := inspected(s, bySelector(".gone"))
	assert.Assert(t, !out.Target.Rendered && !out.Target.InViewport)
	assert.Equal(t, out.Target.UID, "")
	assert.Equal(t, out.Target.Tag, "button")
	assert.Equal(t, out.Target.Styles["display"], "none")
	assert.Equal(t, out.Ancestors[0].Tag, "main")
	out = inspected(s, map[string]any{"element": map[string]any{"by": "selector", "value": ".gone"}, "scrollIntoView": true})
	assert.Assert(t, !out.Target.Rendered)
	out = inspected(s, bySelector(".unseen"))
	assert.Equal(t, out.Target.Styles["visibility"], "hidden")
	assert.Assert(t, !out.Target.Rendered)
	assert.DeepEqual(t, out.Target.Verbs, []string{})
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
