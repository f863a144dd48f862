package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"pi-chrome/driver/op"
)

// NetworkGetIn is the input of chrome_network_get.
type NetworkGetIn struct {
	RequestID         string `json:"requestId" minLength:"1" maxLength:"100" pattern:"\\S" brief:"req-N of chrome_network_list" jsonschema:"the id of a request that chrome_network_list told, such as req-3"`
	BodyOffset        int    `json:"bodyOffset,omitzero" min:"0" max:"100000000" brief:"character to go on at" jsonschema:"from which character of the response body on, to go on where it was cut"`
	RequestBodyOffset int    `json:"requestBodyOffset,omitzero" min:"0" max:"100000000" brief:"the same for what was sent" jsonschema:"from which character of the request body on"`
	op.TabInput
}

// NetworkGetOut is the result of chrome_network_get.
type NetworkGetOut struct {
	NetworkRequest
	RequestHeaders        [][2]string    `json:"requestHeaders,omitempty" jsonschema:"as [name, value]; secrets are redacted"`
	Timing                *RequestTiming `json:"timing,omitempty"`
	RequestBody           string         `json:"requestBody,omitempty" jsonschema:"at most 8,000 characters; secrets are redacted"`
	RequestBodyBytes      int            `json:"requestBodyBytes,omitempty"`
	RequestBodyBinary     bool           `json:"requestBodyBinary,omitempty" jsonschema:"it is not text, and its bytes are not told"`
	RequestBodyOffset     int            `json:"requestBodyOffset,omitempty" jsonschema:"the character that it begins with"`
	RequestBodyLength     int            `json:"requestBodyLength,omitempty" jsonschema:"characters of the whole body, where that is longer; 64,000 are kept"`
	RequestBodyTruncated  bool           `json:"requestBodyTruncated,omitempty" jsonschema:"more comes after it: give requestBodyOffset"`
	RequestBodyError      string         `json:"requestBodyError,omitempty" jsonschema:"why it cannot be told"`
	ResponseBody          *string        `json:"responseBody,omitempty" jsonschema:"at most 8,000 characters; secrets are redacted"`
	ResponseBodyOffset    int            `json:"responseBodyOffset,omitempty" jsonschema:"the character that it begins with"`
	ResponseBodyLength    int            `json:"responseBodyLength,omitempty" jsonschema:"characters of the whole body"`
	ResponseBodyTruncated bool           `json:"responseBodyTruncated,omitempty" jsonschema:"more comes after it: give bodyOffset"`
	ResponseBodyBase64    bool           `json:"responseBodyBase64,omitempty" jsonschema:"it is binary; its bytes are not told"`
	ResponseBodyBytes     int            `json:"responseBodyBytes,omitempty" jsonschema:"bytes of a binary body"`
	ResponseBodyError     string         `json:"responseBodyError,omitempty" jsonschema:"why it cannot be told"`
	Frames                []SocketFrame  `json:"frames,omitempty" jsonschema:"the last messages of a web socket or events of an event source, at most 20"`
	FramesOmitted         int            `json:"framesOmitted,omitempty" jsonschema:"how many came before them"`
}

// pairLines finds a [name, value] that stands on four lines.
var pairLines = regexp.MustCompile(`\[\n\s+("(?:[^"\\]|\\.)*"),\n\s+("(?:[^"\\]|\\.)*")\n\s+\]`)

// Text is the result as indented JSON. Escapes can make a body longer than
// the cap of a text: then less of it is shown, and the truncation says so.
func (o NetworkGetOut) Text() string {
	for shown := maxBodyChars; ; shown /= 2 {
		s := pairLines.ReplaceAllString(indented(o), "[$1, $2]")
		if utf8.RuneCountInString(s) <= op.MaxText || shown < 100 {
			return s
		}
		if o.ResponseBody != nil && utf8.RuneCountInString(*o.ResponseBody) > shown {
			body := string([]rune(*o.ResponseBody)[:shown])
			o.ResponseBody, o.ResponseBodyTruncated = &body, true
		}
		if utf8.RuneCountInString(o.RequestBody) > shown {
			o.RequestBody, o.RequestBodyTruncated = string([]rune(o.RequestBody)[:shown]), true
		}
		for len(o.Frames) > 1 && shown < maxBodyChars/2 {
			o.Frames, o.FramesOmitted = o.Frames[1:], o.FramesOmitted+1
			if len(o.Frames) <= 5 {
				break
			}
		}
	}
}

var opNetworkGet = op.Define(op.Spec{
	Name: "page.network-get", Tool: "chrome_network_get", Profile: "network", Title: "Network Get",
	Summary: "Show one request with its headers, timing and bodies.",
	Brief:   "Show one request with headers, timing and bodies.",
	Doc: "Shows a request that chrome_network_list told, with request and response headers, timing, what was sent and what came. At most 8,000 characters of a body are returned; `bodyOffset` goes on behind them, and `requestBodyOffset` in what was sent. " +
		"The bytes of a binary body are not returned, only their number. Bodies of documents, xhr and fetch up to 64 KB are kept past a navigation, 4 MB in a tab; others can be read while their document lives, " +
		"and `responseBodyError` says why one cannot. Cookies, authorization, and values whose names say that they are secret are redacted.",
	Effect: op.ReadOnly, Deadline: op.DefaultDeadline, Tab: op.PageTab, Args: []string{"requestId"},
	Examples: []op.Example{
		{Title: "Show a request", Input: json.RawMessage(`{"requestId":"req-3"}`)},
		{Title: "Go on with a long body", Input: json.RawMessage(`{"requestId":"req-3","bodyOffset":8000}`)},
	},
	Errors: []op.Code{op.RequestNotFound, op.DialogOpen, op.InvalidInput},
}, networkGet)

func networkGet(ctx context.Context, c *Call, in NetworkGetIn) (NetworkGetOut, error) {
	t := c.tab
	r, err := t.request(in.RequestID)
	if err != nil {
		return NetworkGetOut{}, err
	}
	body, why := t.responseBody(ctx, r)
	sent, sentWhy := t.requestBody(ctx, r)

	t.mu.Lock()
	out := NetworkGetOut{NetworkRequest: r.req, RequestHeaders: r.sent, Timing: r.timing, Frames: r.frames}
	gone := r.gone
	t.mu.Unlock()
	if gone {
		return NetworkGetOut{}, t.noRequest(in.RequestID, "it was dropped from the bounded buffer meanwhile")
	}
	out.FramesOmitted = max(out.FramesSent+out.FramesReceived-len(out.Frames), 0)
	out.ResponseBodyError, out.RequestBodyError = why, sentWhy
	if sent != nil {
		kept := []rune(sent.text)
		if in.RequestBodyOffset > 0 && in.RequestBodyOffset >= len(kept) {
			return NetworkGetOut{}, op.Invalidf("chrome_network_get: field %q is %d; of the %d characters that %s sent %d are kept", "requestBodyOffset", in.RequestBodyOffset, sent.length, in.RequestID, len(kept))
		}
		end := min(in.RequestBodyOffset+maxBodyChars, len(kept))
		out.RequestBody, out.RequestBodyBytes, out.RequestBodyBinary = string(kept[in.RequestBodyOffset:end]), sent.bytes, sent.binary
		if out.RequestBodyOffset = in.RequestBodyOffset; end-in.RequestBodyOffset < sent.length {
			out.RequestBodyLength = sent.length
		}
		out.RequestBodyTruncated = end < sent.length
	}
	switch {
	case body == nil:
	case body.binary:
		out.ResponseBodyBase64, out.ResponseBodyBytes = true, body.bytes
		out.ResponseBodyError = fmt.Sprintf("it is binary: its %d bytes are not told", body.bytes)
	default:
		runes := []rune(body.text)
		if in.BodyOffset > 0 && in.BodyOffset >= len(runes) {
			return NetworkGetOut{}, op.Invalidf("chrome_network_get: field %q is %d; the body of %s has %d characters", "bodyOffset", in.BodyOffset, in.RequestID, len(runes))
		}
		end := min(in.BodyOffset+maxBodyChars, len(runes))
		text := string(runes[in.BodyOffset:end])
		out.ResponseBody, out.ResponseBodyOffset, out.ResponseBodyLength = &text, in.BodyOffset, len(runes)
		out.ResponseBodyTruncated = end < len(runes)
	}
	return out, nil
}

// request finds a request by its id.
func (t *Tab) request(id string) (*requestEntry, error) {
	number, err := strconv.Atoi(strings.TrimPrefix(strings.TrimPrefix(id, "@"), "req-"))
	t.mu.Lock()
	n := &t.capture.network
	for _, r := range n.list {
		if err == nil && r.number == number {
			t.mu.Unlock()
			return r, nil
		}
	}
	never, known := t.capture.networkSince == 0, n.next
	t.mu.Unlock()
	switch {
	case never:
		return nil, t.noRequest(id, "the network of this tab is not captured yet")
	case err == nil && number > 0 && number <= known:
		return nil, t.noRequest(id, "it was cleared or dropped from the bounded buffer")
	}
	return nil, t.noRequest(id, "no such request was made")
}

func (t *Tab) noRequest(id, why string) *op.Error {
	return op.Reject(op.RequestNotFound, "No network request with id %s on tab %d: %s; nothing was done", cut(id, 100), t.conn.Key().TabID, why).
		WithHint("list the requests with chrome_network_list and give one of their ids").WithDetail("requestId", cut(id, 100))
}
