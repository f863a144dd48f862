package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"pi-chrome/driver/op"
)

// Bounds of what is read of one element wholly.
const (
	wholeChars   = 4_000_000 // characters of a value, or of texts beyond what the walk read
	wholeOptions = 10_000    // options of a list
	wholeTexts   = 5000      // texts that are asked about
)

// wholeField is all that a field holds.
type wholeField struct {
	value   string
	options []wholeOption
	more    int // characters or options beyond the bounds
}

type wholeOption struct {
	chosen bool
	label  string
}

// whole reads what the walk cut in the element: the value or the options of a
// field, and long texts. It is for one element that was asked for: of every
// element of a page that would be too much.
func (t *Tab) whole(ctx context.Context, sc *scene, at spot) error {
	v := at.v
	if at.row < 0 {
		return nil
	}
	fields, texts, have := []int{}, []int{}, []int{}
	if v.cutField(at.row) {
		fields = append(fields, at.row)
	}
	if v.meta.TextsCut > 0 {
		for i := at.row; i < v.rows[at.row].end() && len(texts) < wholeTexts; i++ {
			if r := &v.rows[i]; r.tag == "" {
				texts, have = append(texts, i), append(have, utf16Length(r.text))
			}
		}
	}
	if len(fields)+len(texts) == 0 {
		return nil
	}
	var out struct {
		Gone   bool                `json:"gone"`
		Fields [][]json.RawMessage `json:"fields"`
		Texts  [][]json.RawMessage `json:"texts"`
	}
	if err := t.run(ctx, v.frame, "whole", &out, v.meta.Walk, fields, texts, have, wholeChars, wholeOptions); err != nil {
		return fmt.Errorf("reading the whole element: %w", err)
	}
	if out.Gone {
		return op.Reject(op.DocumentChanged, "the page of tab %d was replaced while it was read", t.conn.Key().TabID).WithHint("read the page again")
	}
	for _, f := range out.Fields {
		var row int
		var w wholeField
		var options [][2]json.RawMessage
		if err := scan(f, &row, &w.value, &options, &w.more); err != nil {
			return err
		}
		for _, o := range options {
			var one wholeOption
			if err := scan(o[:], &one.chosen, &one.label); err != nil {
				return err
			}
			w.options = append(w.options, one)
		}
		v.wholes = map[int]wholeField{row: w}
	}
	was := v.textsNote()
	for i := range out.Texts {
		var row, left int
		var s string
		if err := scan(out.Texts[i], &row, &s, &left); err != nil {
			return err
		}
		v.meta.TextsCut -= utf16Length(s) - have[slices.Index(texts, row)]
		v.rows[row].text = s
	}
	// What is still left out may stand elsewhere.
	for i := range sc.unread {
		if sc.unread[i] == was {
			sc.unread[i] = v.textsNote()
		}
	}
	if v.meta.TextsCut <= 0 {
		sc.unread = slices.DeleteFunc(sc.unread, func(n FrameNote) bool { return n == v.textsNote() })
	}
	return nil
}

// scan decodes the items of a list.
func scan(list []json.RawMessage, into ...any) error {
	if len(list) != len(into) {
		return fmt.Errorf("decoding a whole element: %d items instead of %d", len(list), len(into))
	}
	for i, p := range into {
		if err := json.Unmarshal(list[i], p); err != nil {
			return fmt.Errorf("decoding a whole element: %w", err)
		}
	}
	return nil
}

// textsNote is what is told of texts that were not read to their end.
func (v *view) textsNote() FrameNote {
	return FrameNote{URL: v.meta.URL, Reason: fmt.Sprintf("%d characters of very long texts were left out; reading their element by its ref gives up to 4,000,000", v.meta.TextsCut)}
}

// cutField reports whether the row is a field of which the walk told a part. A
// secret is no such field.
func (v *view) cutField(i int) bool {
	r := &v.rows[i]
	switch r.tag {
	case "input", "textarea":
		if !v.isField(i) {
			return false
		}
		value, length, redacted := v.holds(i)
		return !redacted && length > utf16Length(value)
	case "select":
		s := v.state(i, v.role(i))
		return r.get("~lb") != "1" && s.Options > 0
	}
	return false
}

// wholeField reads a field with all that it holds.
func (r *reader) wholeField(v *view, i int, w wholeField) {
	name, region := oneLine(v.name(i)), r.kinds[len(r.kinds)-1].region
	b := content{spot: spot{v, i}, kind: kindField, role: v.role(i), region: region}
	if name == "" {
		name = b.role
	}
	if v.rows[i].tag != "select" {
		_, length, _ := v.holds(i)
		if !strings.Contains(w.value, "\n") {
			r.add(b, name+": "+w.value)
		} else {
			r.add(b, name+": ("+plural(length, "character")+")")
			r.add(content{spot: b.spot, kind: kindCode, region: region}, strings.Trim(w.value, "\n"))
		}
		if w.more > 0 {
			r.add(b, plural(w.more, "more character")+" of its value not shown; chrome_evaluate reads them")
		}
		return
	}
	b.role = "" // its state would stand at every option
	r.add(b, fmt.Sprintf("%s: %s (%s)", name, oneLine(v.rows[i].get("~v")), plural(len(w.options)+w.more, "option")))
	for _, o := range w.options {
		mark := "[ ] "
		if o.chosen {
			mark = "[x] "
		}
		r.add(b, mark+o.label)
	}
	if w.more > 0 {
		r.add(b, plural(w.more, "more option")+" not shown; chrome_evaluate reads them")
	}
}
