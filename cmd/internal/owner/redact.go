package owner

import (
	"bytes"
	"encoding/json"
	"strings"
)

// redacted stands in a trace for what must not be in it.
const redacted = "[redacted]"

// secretKeys are object keys whose values never enter a trace: credentials of
// requests, in whatever case.
var secretKeys = map[string]bool{
	"authorization": true, "proxy-authorization": true, "cookie": true, "set-cookie": true,
	"x-api-key": true, "x-auth-token": true, "x-csrf-token": true, "password": true,
	// A cookie that was blocked or let through, and the parts of a request's body.
	"cookieline": true, "postdataentries": true,
}

// redactor takes secrets out of the frames of a tab: cookies, authorization
// headers, and what was typed into the page, since that may be a password and
// the frames do not tell.
type redactor struct {
	typed []string
}

// typedIn is what a command types into the page or into a dialog, in the forms
// in which frames may have it.
func typedIn(operation string, input json.RawMessage) []string {
	if !strings.HasPrefix(operation, "input.") && operation != "page.dialog" {
		return nil
	}
	var in struct {
		Text string `json:"text"`
	}
	// Input without a text has nothing to hide.
	_ = json.Unmarshal(input, &in)
	if in.Text == "" {
		return nil
	}
	forms := []string{in.Text}
	if lines := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(in.Text); lines != in.Text {
		forms = append(forms, lines) // as a page keeps them
	}
	return forms
}

// json returns the frame without secrets; a frame that is not JSON is left
// out whole.
func (r *redactor) json(method string, raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return json.RawMessage(`"` + redacted + `"`)
	}
	if m, ok := v.(map[string]any); ok && method == "Input.dispatchKeyEvent" {
		hideLetter(m)
	}
	v = r.value("", v)
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return json.RawMessage(`"` + redacted + `"`)
	}
	return bytes.TrimRight(buf.Bytes(), "\n")
}

func (r *redactor) value(key string, v any) any {
	switch x := v.(type) {
	case map[string]any:
		// A header or a form field as {name, value}, and a cookie.
		if name, ok := x["name"].(string); ok && x["value"] != nil {
			_, cookie := x["httpOnly"]
			if secretKeys[strings.ToLower(name)] || cookie {
				x["value"] = redacted
			}
		}
		for k, e := range x {
			if secretKeys[strings.ToLower(k)] {
				x[k] = redacted
				continue
			}
			x[k] = r.value(k, e)
		}
		return x
	case []any:
		for i, e := range x {
			x[i] = r.value(key, e)
		}
		return x
	case string:
		return r.text(key, x)
	}
	return v
}

func (r *redactor) text(key, s string) string {
	if key == "headersText" || key == "requestHeadersText" || key == "postData" {
		return redacted
	}
	for _, typed := range r.typed {
		if s == typed {
			return redacted
		}
		// A short text would be found by chance in every other string.
		if len(typed) >= 4 {
			s = strings.ReplaceAll(s, typed, redacted)
		}
	}
	return s
}

// hideLetter takes the letter out of a key event: key by key, a password would
// stand in the trace. Shortcuts and named keys stay.
func hideLetter(event map[string]any) {
	key, _ := event["key"].(string)
	if len([]rune(key)) != 1 {
		return
	}
	const altControlMeta = 1 | 2 | 4
	if n, ok := event["modifiers"].(json.Number); ok {
		if m, err := n.Int64(); err == nil && m&altControlMeta != 0 {
			return
		}
	}
	for _, name := range []string{"key", "text", "unmodifiedText", "code", "windowsVirtualKeyCode", "nativeVirtualKeyCode", "keyIdentifier"} {
		if event[name] != nil {
			event[name] = redacted
		}
	}
}
