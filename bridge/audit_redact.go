package bridge

import (
	"encoding/json"
	"fmt"
	"net/url"
	"unicode/utf8"
)

// auditPlain are the input fields whose texts are no secrets: names of modes,
// keys of refs and the like. Of every other text only the length is kept.
var auditPlain = map[string]bool{"ref": true, "by": true, "mode": true, "action": true, "format": true, "kind": true, "view": true, "groupColor": true, "tool": true, "role": true}

// auditInput is the input of a command as the log keeps it: numbers, switches
// and the shape of it; addresses without query and fragment; of other texts
// the length.
func auditInput(raw json.RawMessage) map[string]any {
	var in map[string]any
	if json.Unmarshal(raw, &in) != nil {
		return nil
	}
	out, _ := auditValue("", in, 0).(map[string]any)
	return out
}

func auditValue(key string, v any, depth int) any {
	switch x := v.(type) {
	case map[string]any:
		if depth > 4 {
			return fmt.Sprintf("(%d fields)", len(x))
		}
		out := map[string]any{}
		for k, e := range x {
			out[k] = auditValue(k, e, depth+1)
		}
		return out
	case []any:
		if depth > 4 || len(x) > 20 {
			return fmt.Sprintf("(%d items)", len(x))
		}
		out := make([]any, len(x))
		for i, e := range x {
			out[i] = auditValue(key, e, depth+1)
		}
		return out
	case string:
		if auditPlain[key] && len(x) <= 64 {
			return x
		}
		if key == "url" {
			if u, err := url.Parse(x); err == nil && u.Host != "" {
				return clipText(u.Scheme+"://"+u.Host+u.EscapedPath(), 300)
			}
		}
		return fmt.Sprintf("(%d characters)", utf8.RuneCountInString(x))
	}
	return v
}
