package driver

import (
	"slices"
	"strconv"
	"strings"
)

// ActionState is how a control stands. Each field is there only where it
// applies.
type ActionState struct {
	Checked       string `json:"-"` // "true", "false" or "mixed"
	CheckedValue  any    `json:"checked,omitempty" jsonschema:"true, false or \"mixed\""`
	Pressed       any    `json:"pressed,omitempty" jsonschema:"true, false or \"mixed\""`
	Selected      *bool  `json:"selected,omitempty"`
	Expanded      *bool  `json:"expanded,omitempty"`
	Focused       bool   `json:"focused,omitempty"`
	Required      bool   `json:"required,omitempty"`
	Invalid       bool   `json:"invalid,omitempty"`
	ReadOnly      bool   `json:"readonly,omitempty"`
	Disabled      bool   `json:"disabled,omitempty"`
	Current       string `json:"current,omitempty" jsonschema:"aria-current: page, step, true, …"`
	Level         int    `json:"level,omitempty"`
	Value         string `json:"value,omitempty" jsonschema:"what it holds, at most 120 characters"`
	ValueLength   int    `json:"valueLength,omitempty" jsonschema:"characters of the whole value, where the value is cut or redacted"`
	ValueRedacted bool   `json:"valueRedacted,omitempty" jsonschema:"it holds a secret, which is not told"`
	Options       int    `json:"options,omitempty" jsonschema:"how many options a select has"`
	Choices       string `json:"choices,omitempty" jsonschema:"its first 12 options, separated by |"`
	HasPopup      string `json:"hasPopup,omitempty"`
	Covered       string `json:"covered,omitempty" jsonschema:"what lies over its middle, such as div#overlay"`
	Clipped       bool   `json:"clipped,omitempty" jsonschema:"cut away by a box that does not scroll"`
	Hidden        bool   `json:"hidden,omitempty" jsonschema:"not rendered, and usable all the same"`
}

// The words of contract §1.9 that mark a field whose value is never told:
// those that stand by themselves, and those of two words that may be joined by
// nothing, a space, "-" or "_".
var (
	secretWords = strings.Fields("password passwd pwd secret token bearer otp 2fa mfa cvc cvv ssn")
	secretPairs = strings.Fields("apikey accesskey authcode onetime verificationcode recoverycode creditcard cardnumber ccnumber cccsc securitycode socialsecurity")
	joiners     = strings.NewReplacer(" ", "", "-", "", "_", "")
)

// secret reports whether a name marks a field that holds a secret.
func secret(name string) bool {
	if name == "" {
		return false
	}
	low := strings.ToLower(name)
	for _, w := range secretWords {
		if strings.Contains(low, w) {
			return true
		}
	}
	joined := joiners.Replace(low)
	for _, w := range secretPairs {
		if strings.Contains(joined, w) {
			return true
		}
	}
	return false
}

// holds returns the value of a control, or that it is a secret.
func (v *view) holds(i int) (value string, length int, redacted bool) {
	r := &v.rows[i]
	length, _ = strconv.Atoi(r.get("~vl"))
	if r.hasAttr("~x") {
		return "", length, true
	}
	switch r.tag {
	case "input", "textarea":
		switch r.get("~t") {
		case "submit", "reset", "button", "image", "checkbox", "radio", "file":
			return "", 0, false
		}
		if secret(v.name(i)) || secret(r.get("title")) {
			return "", length, true
		}
		return r.get("~v"), length, false
	case "select", "meter", "progress":
		s := r.get("~v")
		return s, runes(s), false
	}
	if s, ok := r.attr("aria-valuetext"); ok {
		return s, runes(s), false
	}
	if s, ok := r.attr("aria-valuenow"); ok {
		return s, runes(s), false
	}
	if v.editableRoot(i) {
		if secret(v.name(i)) {
			s := v.text(i)
			return "", runes(s), true
		}
		s := v.text(i)
		return s, runes(s), false
	}
	return "", 0, false
}

// editableRoot reports whether the row is where an editable part begins.
func (v *view) editableRoot(i int) bool {
	r := &v.rows[i]
	if !r.has(rowEditable) || r.tag == "input" || r.tag == "textarea" {
		return false
	}
	c, ok := r.attr("contenteditable")
	return ok && !strings.EqualFold(c, "false")
}

func tri(s string) any {
	switch s {
	case "true":
		return true
	case "false":
		return false
	case "mixed":
		return "mixed"
	}
	return nil
}

func flag(s string) *bool {
	switch s {
	case "true":
		return new(true)
	case "false":
		return new(false)
	}
	return nil
}

// state is how a row's control stands.
func (v *view) state(i int, role string) ActionState {
	value, length, redacted := v.holds(i)
	return v.stateHolding(i, role, value, length, redacted)
}

// stateHolding is state for those who have asked what the control holds.
func (v *view) stateHolding(i int, role, value string, length int, redacted bool) ActionState {
	r := &v.rows[i]
	var s ActionState
	switch role {
	case "checkbox", "radio", "switch", "menuitemcheckbox", "menuitemradio":
		s.Checked = "false"
		switch {
		case r.tag == "input":
			s.Checked = map[string]string{"1": "true", "0": "false", "m": "mixed"}[r.get("~c")]
		default:
			if c := r.get("aria-checked"); c == "true" || c == "mixed" && role != "radio" && role != "switch" && role != "menuitemradio" {
				s.Checked = c
			}
		}
		s.CheckedValue = tri(s.Checked)
	case "option", "treeitem":
		if c := r.get("aria-checked"); c == "true" || c == "false" || c == "mixed" {
			s.Checked, s.CheckedValue = c, tri(c)
		}
	case "button":
		s.Pressed = tri(r.get("aria-pressed"))
	}
	switch role {
	case "option":
		if r.tag == "option" {
			s.Selected = new(r.get("~c") == "1")
		} else {
			s.Selected = flag(r.get("aria-selected"))
		}
	case "tab", "row", "gridcell", "treeitem", "columnheader", "rowheader":
		s.Selected = flag(r.get("aria-selected"))
	}
	if e := r.get("aria-expanded"); e != "" {
		s.Expanded = flag(e)
	} else if r.tag == "summary" && strings.HasPrefix(role, "DisclosureTriangle") && r.parent() >= 0 {
		s.Expanded = new(v.rows[r.parent()].hasAttr("open"))
	}
	s.Required = r.hasAttr("required") && (r.tag == "input" || r.tag == "select" || r.tag == "textarea") || r.get("aria-required") == "true"
	switch inv := r.get("aria-invalid"); inv {
	case "":
		// A required text that nobody has written yet is not called wrong, as
		// in Chrome's tree.
		s.Invalid = r.hasAttr("~iv") && !(r.hasAttr("required") && r.get("~vl") == "0" && !picked(r.get("~t")))
	case "false":
	default:
		s.Invalid = true
	}
	s.ReadOnly = r.hasAttr("readonly") && (r.tag == "input" || r.tag == "textarea") || r.get("aria-readonly") == "true"
	s.Disabled = v.disabled(i)
	if c := r.get("aria-current"); c != "" && c != "false" {
		s.Current = head(c, 20)
	}
	s.Level = v.level(i)
	if p := strings.ToLower(r.get("aria-haspopup")); p != "" && p != "false" {
		s.HasPopup = head(p, 10)
		if p == "true" {
			s.HasPopup = "menu"
		}
	}
	switch {
	case redacted:
		s.ValueRedacted, s.ValueLength = true, length
	default:
		s.Value = head(oneLine(value), 120)
		if length > runes(s.Value) {
			s.ValueLength = length
		}
	}
	if r.tag == "select" {
		s.Options, _ = strconv.Atoi(r.get("~n"))
		s.Choices = head(oneLine(r.get("~o")), 300)
	}
	s.Hidden = r.has(rowHidden)
	return s
}

// disabled reports whether nothing can be done with the row.
func (v *view) disabled(i int) bool {
	r := &v.rows[i]
	if r.has(rowDisabled) {
		return true
	}
	for p := i; p >= 0; p = v.rows[p].parent() {
		if v.rows[p].attrs != "" && v.rows[p].get("aria-disabled") == "true" {
			return true
		}
	}
	return false
}

// clickRoles take a click.
var clickRoles = []string{"button", "checkbox", "link", "menuitem", "menuitemcheckbox", "menuitemradio", "option", "radio", "switch", "tab", "treeitem",
	"DisclosureTriangle", "DisclosureTriangleGrouped", "gridcell"}

// What a row takes; nobody writes to these.
var (
	takesUpload = []string{verbUpload}
	takesClick  = []string{verbClick}
	takesKeys   = []string{verbClick, verbPress}
	takesText   = []string{verbFill, verbPress}
	takesAll    = []string{verbClick, verbPress, verbFill}
)

// verbs are what can be done with a row (contract §1.9). A row that cannot be
// seen or used has none.
func (v *view) verbs(i int) []string {
	r := &v.rows[i]
	if r.tag == "" || !r.has(rowCandidate) || r.has(rowRefOnly) || r.has(rowInert) || v.inert {
		return nil
	}
	if v.disabled(i) {
		return nil
	}
	if r.tag == "input" && r.get("~t") == "file" {
		return takesUpload
	}
	if v.hidden || r.has(rowInvisible) || r.has(rowNoEvents) || r.has(rowClipped) {
		return nil
	}
	if r.has(rowHidden) {
		// A check box behind its label: the label is what a person clicks.
		if r.tag == "input" && v.visibleLabel(i) >= 0 {
			return takesClick
		}
		return nil
	}
	if !r.has(rowBox) && !v.boxWithin(i) {
		return nil
	}
	role := v.role(i)
	readonly := r.hasAttr("readonly") || r.get("aria-readonly") == "true"
	switch {
	case r.tag == "textarea", r.tag == "input" && textual(r.get("~t")):
		if readonly {
			return takesKeys
		}
		return takesText
	case v.editableRoot(i), role == "searchbox", role == "spinbutton", role == "textbox":
		return takesText
	case r.tag == "select":
		if r.get("~lb") == "1" {
			return takesText
		}
		return takesAll
	case role == "combobox", role == "slider":
		return takesKeys
	case r.tag == "option":
		return takesClick
	case slices.Contains(clickRoles, role):
		if role == "gridcell" && !r.hasAttr("tabindex") && !v.listening[i] {
			return nil
		}
		return takesClick
	case r.tag == "label":
		return nil
	}
	tab, tabbed := r.attr("tabindex")
	if tabbed && strings.TrimSpace(tab) != "-1" || r.hasAttr("onclick") || r.tag == "summary" {
		return takesClick
	}
	if v.listening[i] && v.clickable(i) {
		return takesClick
	}
	if r.has(rowPointer) && v.pointed(i) {
		return takesClick
	}
	return nil
}

// textual are the input types that a text goes into.
func textual(kind string) bool {
	switch kind {
	case "checkbox", "radio", "button", "submit", "reset", "image", "file", "hidden":
		return false
	}
	return true
}

// picked are the input types whose value is picked, though it can be written.
func picked(kind string) bool {
	switch kind {
	case "date", "datetime-local", "month", "week", "time", "color":
		return true
	}
	return false
}

// visibleLabel returns the row of a label of the control that can be clicked,
// or -1.
func (v *view) visibleLabel(i int) int {
	for _, l := range v.rel.labels[i] {
		if r := &v.rows[l]; (r.has(rowBox) || v.boxWithin(l)) && !r.has(rowInvisible) && !r.has(rowNoEvents) && !r.has(rowInert) && !r.has(rowRefOnly) {
			return l
		}
	}
	return -1
}

// boxWithin reports whether something in the row has a box: an inline link
// around a floating picture has none of its own.
func (v *view) boxWithin(i int) bool {
	r := &v.rows[i]
	for c := i + 1; c < min(r.end(), i+50); c++ {
		if v.rows[c].tag != "" && v.rows[c].has(rowBox) && !v.rows[c].has(rowInvisible) {
			return r.tag != "svg:a" || true
		}
	}
	return r.tag == "area"
}

// clickable reports whether a listener on the row is about the row itself. One
// that holds many controls only collects their events.
func (v *view) clickable(i int) bool {
	r := &v.rows[i]
	if r.tag == "html" || r.tag == "body" || r.tag == "form" {
		return false
	}
	inner, last := 0, 0
	for c := i + 1; c < r.end(); c++ {
		if v.rows[c].tag != "" && v.rows[c].has(rowCandidate) && v.nativeAction(c) {
			last = c
			if inner++; inner > 3 {
				return false
			}
		}
	}
	// Around a single control it says nothing that the control does not.
	return inner != 1 || v.text(i) != v.label(last)
}

// nativeAction reports whether the row is an action by its kind or role.
func (v *view) nativeAction(i int) bool {
	r := &v.rows[i]
	switch r.tag {
	case "button", "input", "select", "textarea", "summary", "option":
		return true
	}
	role := v.role(i)
	return slices.Contains(clickRoles, role) || role == "textbox" || role == "combobox" || role == "searchbox" || role == "slider" || role == "spinbutton"
}

// pointed reports whether a row whose only sign is the pointer over it is an
// action: somebody around it listens, and it is neither in an action nor
// around one.
func (v *view) pointed(i int) bool {
	r := &v.rows[i]
	heard := v.rooted
	for p := r.parent(); p >= 0; p = v.rows[p].parent() {
		if v.rows[p].has(rowCandidate) && (v.nativeAction(p) || v.rows[p].tag == "label" || v.listening[p] && v.rows[p].has(rowPointer)) {
			return false
		}
		heard = heard || v.listening[p]
	}
	if !heard {
		return false
	}
	for c := i + 1; c < r.end(); c++ {
		if v.rows[c].tag != "" && v.rows[c].has(rowCandidate) && (v.nativeAction(c) || v.listening[c]) {
			return false
		}
	}
	return true
}
