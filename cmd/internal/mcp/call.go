package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"pi-chrome/bridge"
	"pi-chrome/bridge/client"
	"pi-chrome/bridge/wire"
	"pi-chrome/cmd/internal/artifact"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/op"
)

// snapshotTool is the operation whose text this surface keeps beside passing
// it on.
const snapshotTool = "chrome_snapshot"

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
	if err := artifact.Check(d.Tool, raw); err != nil {
		return nil, err
	}
	out, err := f.command(ctx, id, d, raw, progress)
	if err != nil {
		return nil, err
	}
	res := &sdk.CallToolResult{Meta: sdk.Meta{"pi-chrome/commandId": id, "pi-chrome/elapsedMs": out.Elapsed.Milliseconds()}}
	kept, pictures, err := artifact.Keep(f.opts.Dir, d.Tool, raw, out.Result)
	if err != nil {
		return nil, err
	}
	if d.Tool == snapshotTool {
		f.keepSnapshot(ctx, kept.Text)
	}
	shown, note := artifact.Bounded(pictures, maxPictures, maxPictureBytes)
	res.Content = []sdk.Content{&sdk.TextContent{Text: kept.Text + note}}
	for _, p := range shown {
		res.Content = append(res.Content, &sdk.ImageContent{Data: p.Data, MIMEType: p.MIMEType})
	}
	f.keepShots(shown)
	if f.opts.Structured {
		res.StructuredContent = kept.Value
	}
	if d.Name == op.DoName {
		return res, stopped(res, id, kept.Value, kept.Text+note)
	}
	return res, nil
}

// stopped makes the result of a list that stopped on its way an error, as its
// last step is.
func stopped(res *sdk.CallToolResult, id string, value json.RawMessage, text string) error {
	var done op.DoOut
	if err := json.Unmarshal(value, &done); err != nil {
		return fmt.Errorf("reading the result of the steps: %w", err)
	}
	if n := len(done.Steps); n > 0 && done.Steps[n-1].Error != nil {
		e := *done.Steps[n-1].Error
		res.IsError = true
		// Where a client shows only this, the message must tell it all.
		e.Message = text
		res.StructuredContent = failure{Error: &e, CommandID: id}
	}
	return nil
}

// offered answers calls of tools that this connection does not offer. One that
// chrome_enable adds is a result, which a model sees and can act on. One that
// there is not is an error of the protocol, as that wants, with what other
// surfaces say of it.
func (f *face) offered(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		call, ok := req.(*sdk.CallToolRequest)
		if !ok || call.Params.Name == op.EnableTool {
			return next(ctx, method, req)
		}
		d, ok := f.find(call.Params.Name)
		if !ok || d.Tool != call.Params.Name {
			_, err := owner.Find(call.Params.Name)
			if err == nil {
				return next(ctx, method, req) // another of its names, which is none here
			}
			e := op.AsError(err)
			data, err := json.Marshal(failure{Error: e})
			if err != nil {
				return nil, fmt.Errorf("encoding the error of %s: %w", method, err)
			}
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: e.Message, Data: data}
		}
		f.mu.Lock()
		active := slices.Contains(f.active, d.Profile)
		f.mu.Unlock()
		if !active {
			e := op.Invalidf("tool %q is not enabled on this connection; nothing was done", d.Tool).WithDetail("tool", d.Tool).WithDetail("profile", d.Profile)
			e.Code = op.UnknownTool
			return failed("", e.WithHint("call %s with the profile %s, then call it again", op.EnableTool, d.Profile)), nil
		}
		return next(ctx, method, req)
	}
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
	out, err := c.Command(ctx, wire.Command{
		ID: id, Operation: d.Name, Session: f.session, Browser: f.opts.Browser, Input: raw,
		Trace: f.opts.Trace, DeadlineMs: int(f.opts.Timeout.Milliseconds()),
	}, progress)
	if e, ok := errors.AsType[*op.Error](err); ok && e.Code == op.SessionLocked && f.opts.Authorize != nil && f.opts.Authorize.Policy != nil {
		told := *e // the hint is this surface's
		err = told.WithHint("%s The session then has the policy that it had; add --policy FILE for that of pi-chrome mcp --policy.", e.Hint)
	}
	return out, err
}

// authorize gives the session what --authorize says, once: what the user takes
// away again stays away. So does what they took away before this connection:
// the owner refuses, the command that follows says what the user can do, and
// nothing is asked again, or it would replace what they then allow.
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
	in := bridge.AuthorizeParams{Session: f.session.Key, Mode: bridge.AuthorizedIndefinite, Minutes: f.opts.Authorize.Minutes, Policy: f.opts.Authorize.Policy, Automatic: true}
	if in.Minutes > 0 {
		in.Mode = bridge.AuthorizedUntil
	}
	if err := c.Request(ctx, "authorize", in, nil); err != nil && op.AsError(err).Code != op.SessionLocked {
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
