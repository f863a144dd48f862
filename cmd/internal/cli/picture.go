package cli

import (
	"encoding/json"

	"pi-chrome/cmd/internal/artifact"
	"pi-chrome/driver/op"
)

// screenshotTool is the one tool whose result holds pictures.
const screenshotTool = "chrome_screenshot"

// picturePlan says where the picture of a call goes. The zero plan leaves a
// result as it is.
type picturePlan struct {
	dir   string
	input json.RawMessage
}

// picture checks where the pictures of a call go, before anything is asked.
func (a *app) picture(desc op.Descriptor, raw json.RawMessage) (picturePlan, error) {
	if desc.Tool != screenshotTool {
		return picturePlan{}, nil
	}
	if err := artifact.Check(raw); err != nil {
		return picturePlan{}, err
	}
	return picturePlan{dir: a.env.Dir, input: raw}, nil
}

// publish writes the pictures of a result and returns it with their paths.
func (p picturePlan) publish(r op.Result) (op.Result, error) {
	if p.dir == "" {
		return r, nil
	}
	value, text, err := artifact.Publish(p.dir, p.input, r.Value)
	if err != nil {
		return r, err
	}
	return op.Result{Value: value, Text: text}, nil
}
