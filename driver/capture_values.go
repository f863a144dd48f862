package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/runtime"

	"pi-chrome/cdpmodel"
)

// maxConsoleValue bounds one argument of a console message, in characters of
// its JSON, markers included.
const maxConsoleValue = 2000

// remoteValue is a logged value as Chrome described it when it was logged.
// more says that its parts are not all told: a closer look may tell them.
// refs numbers the objects of one message.
func remoteValue(o *runtime.RemoteObject, refs *int) (value json.RawMessage, more bool) {
	if o == nil {
		return json.RawMessage("null"), false
	}
	switch o.Type {
	case runtime.RemoteObjectTypeString:
		var s string
		if json.Unmarshal(o.Value, &s) != nil {
			s = o.Description
		}
		return boundedText(s), false
	case runtime.RemoteObjectTypeSymbol:
		d := strings.TrimSuffix(strings.TrimPrefix(o.Description, "Symbol("), ")")
		return marker(cdpmodel.Marker{Kind: cdpmodel.KindSymbol, Description: shortText(d)}), false
	case runtime.RemoteObjectTypeFunction:
		*refs++
		return marker(cdpmodel.Marker{Kind: cdpmodel.KindFunction, ReferenceID: *refs, Source: shortText(o.Description)}), false
	case runtime.RemoteObjectTypeObject:
		if o.Subtype == "null" || string(o.Value) == "null" {
			return json.RawMessage("null"), false
		}
	default:
		if v, ok := primitive(string(o.Type), string(o.UnserializableValue)); ok {
			return v, false
		}
		if json.Valid(o.Value) && len(o.Value) <= maxConsoleValue {
			return json.RawMessage(o.Value), false
		}
		return boundedText(o.Description), false
	}
	*refs++
	v, more := loggedObject(o, *refs)
	if len(v) > maxConsoleValue {
		v = boundedText(o.Description)
	}
	return v, more
}

// loggedObject is an object by its description and preview.
func loggedObject(o *runtime.RemoteObject, ref int) (json.RawMessage, bool) {
	p := o.Preview
	if o.Subtype == "error" {
		return errorMarker(o, ref), false
	}
	if p == nil {
		// What Chrome had kept comes without a preview.
		more := o.Subtype == "" || o.Subtype == "array" || o.Subtype == "map" || o.Subtype == "set"
		return instance(o.ClassName, o.Description, ref, nil), more
	}
	props, whole := previewParts(p)
	switch {
	case o.Subtype == "array":
		return arrayOf(p, o.Description, props), !whole || p.Overflow
	case o.Subtype == "" && (o.ClassName == "Object" || o.ClassName == ""):
		if p.Overflow {
			props = append(props, part{"…", jsonText("there are more properties")})
		}
		return objectNoMarker(props, ref), !whole || p.Overflow
	case o.Subtype == "map" || o.Subtype == "set":
		return instance(o.ClassName, "", ref, props), true
	case o.Subtype == "":
		return instance(o.ClassName, "", ref, props), !whole || p.Overflow
	}
	// Dates, nodes, regular expressions and the like: what Chrome calls them
	// says it all.
	return instance(o.ClassName, o.Description, ref, nil), false
}

// part is one property of a value.
type part struct {
	key   string
	value json.RawMessage
}

// previewParts are the properties of a preview; whole says that none of them
// is only named.
func previewParts(p *runtime.ObjectPreview) (props []part, whole bool) {
	whole = true
	for _, q := range p.Properties {
		v, ok := previewValue(q)
		whole = whole && ok
		props = append(props, part{cut(q.Name, cdpmodel.MaxKeyLength), v})
	}
	return props, whole
}

// What stands for properties that have no value to tell.
const (
	getterText   = "(a getter, which is not run)"
	functionText = "(a function)"
)

// previewValue is one property of a preview; false when it is only named, or
// its text is cut.
func previewValue(q *runtime.PropertyPreview) (json.RawMessage, bool) {
	switch q.Type {
	case "string":
		return jsonText(q.Value), !strings.Contains(q.Value, "…")
	case "number", "boolean", "bigint", "undefined":
		if v, ok := primitive(string(q.Type), q.Value); ok {
			return v, true
		}
		if json.Valid([]byte(q.Value)) {
			return json.RawMessage(q.Value), true
		}
	case "object":
		if q.Subtype == "null" {
			return json.RawMessage("null"), true
		}
	case "accessor":
		return jsonText(getterText), true
	case "function":
		return jsonText(functionText), true
	}
	return jsonText(q.Value), false
}

// primitive is a value that JSON cannot say.
func primitive(kind, text string) (json.RawMessage, bool) {
	switch {
	case kind == "undefined":
		return marker(cdpmodel.Marker{Kind: cdpmodel.KindUndefined}), true
	case kind == "bigint":
		return marker(cdpmodel.Marker{Kind: cdpmodel.KindBigInt, Value: shortText(strings.TrimSuffix(text, "n"))}), true
	case text == "-0":
		return marker(cdpmodel.Marker{Kind: cdpmodel.KindNegativeZero}), true
	case text == "NaN" || text == "Infinity" || text == "-Infinity":
		return marker(cdpmodel.Marker{Kind: cdpmodel.KindNonFiniteNumber, Value: jsonText(text)}), true
	}
	return nil, false
}

// arrayOf is an array by its preview: holes are marked, and so is what does
// not stand in it.
func arrayOf(p *runtime.ObjectPreview, description string, props []part) json.RawMessage {
	length := len(props)
	if _, n, ok := strings.Cut(strings.TrimSuffix(description, ")"), "("); ok {
		if n, err := strconv.Atoi(n); err == nil {
			length = n
		}
	}
	var items []json.RawMessage
	at := 0
	for _, q := range props {
		i, err := strconv.Atoi(q.key)
		if err != nil || i < at || len(items) > 256 {
			continue
		}
		for ; at < i && len(items) <= 256; at++ {
			items = append(items, marker(cdpmodel.Marker{Kind: cdpmodel.KindArrayHole, Index: at}))
		}
		items = append(items, q.value)
		at = i + 1
	}
	if p.Overflow && length > at {
		items = append(items, marker(cdpmodel.Marker{Kind: cdpmodel.KindCollectionLimit, Collection: "Array", Omitted: length - at, Limit: at}))
	}
	if items == nil {
		items = []json.RawMessage{}
	}
	return compact(items)
}

// instance is an object of a class; its description stands under
// [[Description]] where it says more than the class.
func instance(class, description string, ref int, props []part) json.RawMessage {
	if description != "" && description != class {
		props = append([]part{{"[[Description]]", shortText(description)}}, props...)
	}
	return marker(cdpmodel.Marker{Kind: cdpmodel.KindNonPlainObject, ReferenceID: ref, ConstructorName: shortText(class),
		ObjectTag: shortText("[object " + class + "]"), Properties: object(props)})
}

func errorMarker(o *runtime.RemoteObject, ref int) json.RawMessage {
	first, _, _ := strings.Cut(o.Description, "\n")
	name, message, ok := strings.Cut(first, ": ")
	if !ok {
		name, message = o.ClassName, strings.TrimPrefix(first, o.ClassName)
	}
	if o.Preview != nil {
		for _, q := range o.Preview.Properties {
			if q.Name == "message" && !strings.Contains(q.Value, "…") {
				message = q.Value
			}
		}
	}
	return marker(cdpmodel.Marker{Kind: cdpmodel.KindError, ReferenceID: ref, Name: shortText(name), Message: textWithin(message, 500), Stack: textWithin(o.Description, 700)})
}

// objectNoMarker is a plain object of the page's, which must not be taken for a
// marker: one with a _tag is told by its entries, as chrome_evaluate does.
func objectNoMarker(props []part, ref int) json.RawMessage {
	if !slices.ContainsFunc(props, func(p part) bool { return p.key == "_tag" }) {
		return object(props)
	}
	m := cdpmodel.Marker{Kind: cdpmodel.KindObjectEntryProjection, ReferenceID: ref, Limit: len(props)}
	for _, p := range props {
		m.Entries = append(m.Entries, cdpmodel.MarkerEntry{Key: jsonText(p.key), Value: withoutSecret(p.key, p.value)})
	}
	return marker(m)
}

// withoutSecret is the value of a property, or what stands for one whose name
// says that it is secret, as in the bodies of requests.
func withoutSecret(name string, v json.RawMessage) json.RawMessage {
	if !secretName(name) {
		return v
	}
	switch s := string(v); {
	case s == `"`+getterText+`"`, s == `"`+functionText+`"`:
		return v
	case strings.HasPrefix(s, `{"_tag":`) && strings.Contains(s, `"kind":"`+string(cdpmodel.KindStringTruncated)+`"`):
		return jsonText(redacted)
	}
	pre := "{" + string(jsonText(name)) + ":"
	return json.RawMessage(strings.TrimSuffix(strings.TrimPrefix(redactJSON(pre+string(v)+"}"), pre), "}"))
}

func object(props []part) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, p := range props {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(jsonText(p.key))
		b.WriteByte(':')
		b.Write(withoutSecret(p.key, p.value))
	}
	b.WriteByte('}')
	return b.Bytes()
}

// marker writes a marker. One of a kind that exists always can be written.
func marker(m cdpmodel.Marker) json.RawMessage { return compact(m) }

// compact is JSON without the escapes for HTML.
func compact(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return json.RawMessage(strconv.Quote("not encoded: " + err.Error()))
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

func jsonText(s string) json.RawMessage { return compact(s) }

// boundedText is a text of at most cdpmodel.MaxStringLength characters.
func boundedText(s string) json.RawMessage { return textWithin(s, cdpmodel.MaxStringLength) }

func shortText(s string) json.RawMessage { return textWithin(s, 300) }

// textWithin is a text of at most max characters and how many it had. The
// marker of a text that was cut stands for the contract's bound only. Lengths
// are in UTF-16 units, as JavaScript counts.
func textWithin(s string, max int) json.RawMessage {
	if len(s) <= max {
		return jsonText(s)
	}
	units, end := 0, len(s)
	for i, r := range s {
		n := utf16.RuneLen(r)
		if units <= max && units+n > max {
			end = i
		}
		units += n
	}
	if units <= max {
		return jsonText(s)
	}
	if max < cdpmodel.MaxStringLength {
		return jsonText(fmt.Sprintf("%s… (%d characters)", s[:end], units))
	}
	return marker(cdpmodel.Marker{Kind: cdpmodel.KindStringTruncated, Prefix: s[:end], OriginalLength: units})
}

// lookCloserLocked has the worker read an object's parts. It runs no getter.
// Until then, and when the object is gone, its preview stands.
func (t *Tab) lookCloserLocked(s *captureSession, m *consoleEntry, arg int, o *runtime.RemoteObject) {
	if o.ObjectID == "" {
		return
	}
	t.enqueueJobLocked(captureJob{session: s.id, run: func(ctx context.Context, session cdp.Session) error {
		var packed any
		if err := t.runOn(ctx, session, o.ObjectID, "console_value", &packed, arg+1); err != nil {
			return err
		}
		value, ok := unpackLogged(packed, 0)
		if _, err := cdpmodel.CheckProjection(value); !ok || err != nil || len(value) > 2*maxConsoleValue {
			return nil // the page's own scripts garbled it: the preview stays
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		if !m.gone {
			c := &t.capture.console
			c.bytes += len(value) - len(m.msg.Args[arg])
			m.size += len(value) - len(m.msg.Args[arg])
			// What was given out keeps its own values.
			m.msg.Args = append([]json.RawMessage(nil), m.msg.Args...)
			m.msg.Args[arg] = value
		}
		return nil
	}})
}

// unpackLogged is the JSON of what js/console_value.js returns.
func unpackLogged(v any, depth int) (json.RawMessage, bool) {
	list, ok := v.([]any)
	if !ok {
		_, odd := v.(map[string]any)
		return compact(v), !odd
	}
	if len(list) == 0 || depth > 4*cdpmodel.MaxDepth {
		return nil, false
	}
	var props []part
	items := []json.RawMessage{}
	for i := 1; i < len(list); i++ {
		key := ""
		if list[0] == "o" {
			if key, ok = list[i].(string); !ok || i+1 == len(list) {
				return nil, false
			}
			i++
		}
		item, ok := unpackLogged(list[i], depth+1)
		if !ok {
			return nil, false
		}
		props, items = append(props, part{key, item}), append(items, item)
	}
	if list[0] == "o" {
		return object(props), true
	}
	return compact(items), list[0] == "a"
}

// releaseConsole lets go of the values that Chrome keeps for us: it would keep
// them as long as their document lives.
func releaseConsole(ctx context.Context, s cdp.Session) error {
	_, err := call(ctx, s, runtime.ReleaseObjectGroup, runtime.ReleaseObjectGroupParams{ObjectGroup: "console"})
	return err
}
