package cli

import (
	"encoding/json"
)

// uploadTool is the one tool whose input names files of this machine.
const uploadTool = "chrome_upload"

// screenshotTool pictures the page of a script's line that failed.
const screenshotTool = "chrome_screenshot"

// doTool is the tool that runs a list of calls.
const doTool = "chrome_do"

// absolutePaths makes the files that an upload names absolute, in a list of
// steps too: the owner does not know the caller's folder. Input that does not
// decode is left to the operation's own check.
func absolutePaths(dir, tool string, raw json.RawMessage) json.RawMessage {
	if tool != uploadTool && tool != doTool {
		return raw
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return raw
	}
	field := "paths"
	var value any
	if tool == uploadTool {
		var paths []string
		if json.Unmarshal(fields[field], &paths) != nil {
			return raw
		}
		for i, p := range paths {
			if p != "" {
				paths[i] = absolute(dir, p)
			}
		}
		value = paths
	} else {
		field = "steps"
		var steps []map[string]json.RawMessage
		if json.Unmarshal(fields[field], &steps) != nil {
			return raw
		}
		for _, step := range steps {
			var tool string
			if json.Unmarshal(step["tool"], &tool) == nil && tool == uploadTool {
				step["input"] = absolutePaths(dir, tool, step["input"])
			}
		}
		value = steps
	}
	changed, err := json.Marshal(value)
	if err != nil {
		return raw
	}
	fields[field] = changed
	out, err := json.Marshal(fields)
	if err != nil {
		return raw
	}
	return out
}
