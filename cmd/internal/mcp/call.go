package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"pi-chrome/bridge/client"
	"pi-chrome/bridge/wire"
	"pi-chrome/cmd/internal/artifact"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/op"
)

// Names of operations whose results this surface keeps beside passing them on.
const (
	screenshotTool = "chrome_screenshot"
	snapshotTool   = "chrome_snapshot"
)

// call runs one tool. What fails is a result with isError, never an error of
// the protocol: a model sees only the former.
func (f *face) call(ctx context.Context, req *sdk.CallToolRequest, d op.Descriptor) *sdk.CallToolResult {
	id := client.NewID()
	ctx, end := f.begin(ctx, id)
	defer end()
	raw := bytes.TrimSpace(req.Params.Arguments)
	if len(raw) == 0 || string(raw) == "null" {
		raw = []byte("{}")
	}
	res, err := f.run(ctx, id, d, raw, progressOf(ctx, req))
	if err != nil {
		return failed(id, op.AsError(err))
	}
	return res
}

func (f *face) run(ctx context.Context, id string, d op.Descriptor, raw json.RawMessage, progress client.Progress) (*sdk.CallToolResult, error) {
	if f.opts.Prepare != nil {
		raw = f.opts.Prepare(d.Tool, raw)
	}
	if err := owner.Validate(d.Name, raw); err != nil {
		return nil, err
	}
	if d.Tool == screenshotTool {
		if err := artifact.Check(raw); err != nil {
			return nil, err
		}
	}
	out, err := f.command(ctx, id, d, raw, progress)
	if err != nil {
		return nil, err
	}
	res := &sdk.CallToolResult{Meta: sdk.Meta{"pi-chrome/commandId": id, "pi-chrome/elapsedMs": out.Elapsed.Milliseconds()}}
	value, text, pictures := out.Result.Value, out.Result.Text, []picture(nil)
	switch {
	case d.Tool == screenshotTool:
		if pictures, err = picturesOf(out.Result.Value); err != nil {
			return nil, err
		}
		if value, text, err = artifact.Publish(f.opts.Dir, raw, out.Result.Value); err != nil {
			return nil, err
		}
	case d.Name == op.DoName:
		return f.list(res, id, raw, out)
	case d.Tool == snapshotTool:
		f.keepSnapshot(ctx, text)
	}
	f.fill(res, value, text, pictures)
	return res, nil
}

// fill writes text, pictures and value into a result.
func (f *face) fill(res *sdk.CallToolResult, value json.RawMessage, text string, pictures []picture) {
	shown, note := bounded(pictures)
	res.Content = append(res.Content, &sdk.TextContent{Text: text + note})
	for _, p := range shown {
		res.Content = append(res.Content, &sdk.ImageContent{Data: p.data, MIMEType: p.mime})
	}
	f.keepShots(shown)
	if f.opts.Structured {
		res.StructuredContent = value
	}
}

// list ends a list of steps: the pictures of its steps are kept and shown too,
// and one that stopped on its way is an error, as its last step is.
func (f *face) list(res *sdk.CallToolResult, id string, raw json.RawMessage, out client.Outcome) (*sdk.CallToolResult, error) {
	var in op.DoIn
	var done op.DoOut
	if err := json.Unmarshal(out.Result.Value, &done); err != nil {
		return nil, fmt.Errorf("reading the result of the steps: %w", err)
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, fmt.Errorf("reading the steps: %w", err)
	}
	text, pictures := out.Result.Text, []picture(nil)
	for i, s := range done.Steps {
		d, ok := f.find(s.Tool)
		if !ok || d.Tool != screenshotTool || len(s.Value) == 0 || i >= len(in.Steps) {
			continue
		}
		// The steps are done: what becomes of a picture changes nothing there.
		more, err := picturesOf(s.Value)
		var value json.RawMessage
		var note string
		if err == nil {
			value, note, err = artifact.Publish(f.opts.Dir, json.RawMessage(in.Steps[i].Input), s.Value)
		}
		if err != nil {
			note = op.AsError(err).Text()
		}
		done.Steps[i].Value, pictures = value, append(pictures, more...)
		text += fmt.Sprintf("\n\nStep %d: %s", i+1, note)
	}
	value, err := op.NewResult(done)
	if err != nil {
		return nil, err
	}
	f.fill(res, value.Value, text, pictures)
	if n := len(done.Steps); n > 0 && done.Steps[n-1].Error != nil {
		e := *done.Steps[n-1].Error
		res.IsError = true
		// Where a client shows only this, the message must tell it all.
		e.Message = text
		res.StructuredContent = failure{Error: &e, CommandID: id}
	}
	return res, nil
}

func (f *face) find(name string) (op.Descriptor, bool) {
	for _, d := range f.tools {
		if d.Name == name || d.Tool == name {
			return d, true
		}
	}
	return op.Descriptor{}, false
}

// command sends one command to the owner and waits for what it came to.
func (f *face) command(ctx context.Context, id string, d op.Descriptor, raw json.RawMessage, progress client.Progress) (client.Outcome, error) {
	c, err := f.link.client(ctx)
	if err != nil {
		return client.Outcome{}, err
	}
	if err := f.authorize(ctx, c); err != nil {
		return client.Outcome{}, err
	}
	f.mu.Lock()
	f.used = true
	f.mu.Unlock()
	return c.Command(ctx, wire.Command{
		ID: id, Operation: d.Name, Session: f.session, Browser: f.opts.Browser, Input: raw,
		Trace: f.opts.Trace, DeadlineMs: int(f.opts.Timeout.Milliseconds()),
	}, progress)
}

// authorize gives the session what --authorize says, once: what the user takes
// away again stays away.
func (f *face) authorize(ctx context.Context, c *client.Client) error {
	if f.opts.Authorize == nil {
		return nil
	}
	select {
	case _, first := <-f.authorizing:
		if !first {
			return nil
		}
	case <-ctx.Done():
		return op.Reject(op.Canceled, "the call was canceled before it was sent; nothing was done").WithCause(ctx.Err())
	}
	if _, err := owner.AuthorizeWith(ctx, c, f.session.Key, f.opts.Authorize.Minutes, f.opts.Authorize.Policy); err != nil {
		f.authorizing <- struct{}{}
		return err
	}
	close(f.authorizing)
	return nil
}

// progressOf tells the client of a call how far it is, if it wants to know.
// The protocol wants a number that only rises.
func progressOf(ctx context.Context, req *sdk.CallToolRequest) client.Progress {
	token := req.Params.GetProgressToken()
	if token == nil || req.Session == nil {
		return nil
	}
	var last atomic.Int64
	last.Store(-1)
	return func(done, total int, note string) {
		if int64(done) <= last.Load() {
			return
		}
		last.Store(int64(done))
		// A client that has gone does not want to know.
		_ = req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
			ProgressToken: token, Progress: float64(done), Total: float64(total), Message: note,
		})
	}
}

// failure is the structured content of a call that failed: what --json prints
// on a command line.
type failure struct {
	OK        bool      `json:"ok"`
	Error     *op.Error `json:"error"`
	CommandID string    `json:"commandId,omitempty"`
}

// failed is the result of a call that failed.
func failed(id string, e *op.Error) *sdk.CallToolResult {
	return &sdk.CallToolResult{
		IsError:           true,
		Content:           []sdk.Content{&sdk.TextContent{Text: e.Text()}},
		StructuredContent: failure{Error: e, CommandID: id},
	}
}
