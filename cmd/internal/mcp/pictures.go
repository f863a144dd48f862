package mcp

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"pi-chrome/driver/op"
)

// Bounds of the pictures in one result. Clients put them into the model's
// context, and some refuse results of more than a few megabytes.
const (
	maxPictures     = 12
	maxPictureBytes = 8 << 20
)

// picture is one picture of a result.
type picture struct {
	mime string // such as image/png
	data []byte
}

// picturesOf are the pictures of a result of chrome_screenshot, from the top
// of the page down.
func picturesOf(value json.RawMessage) ([]picture, error) {
	var v struct {
		DataURL string `json:"dataUrl"`
		Tiles   []struct {
			DataURL string `json:"dataUrl"`
		} `json:"tiles"`
	}
	if err := json.Unmarshal(value, &v); err != nil {
		return nil, op.Reject(op.ScreenshotFailure, "reading the picture: %s", err)
	}
	urls := []string{v.DataURL}
	if v.DataURL == "" {
		urls = urls[:0]
	}
	for _, t := range v.Tiles {
		urls = append(urls, t.DataURL)
	}
	var out []picture
	for _, u := range urls {
		head, data, ok := strings.Cut(strings.TrimPrefix(u, "data:"), ";base64,")
		raw, err := base64.StdEncoding.DecodeString(data)
		if !ok || err != nil {
			return nil, op.Reject(op.ScreenshotFailure, "reading the picture: %.40q is not a picture", u).
				WithHint("the page was pictured and not changed; take the screenshot again")
		}
		out = append(out, picture{mime: head, data: raw})
	}
	return out, nil
}

// bounded are the pictures that a result can hold, and what to say of the
// others.
func bounded(all []picture) ([]picture, string) {
	size := 0
	for i, p := range all {
		size += len(p.data)
		if i >= maxPictures || size > maxPictureBytes {
			return all[:i], fmt.Sprintf("\n\n[%d of %d pictures are shown here; all are in the files]", i, len(all))
		}
	}
	return all, ""
}
