package driver

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/runtime"

	"pi-chrome/driver/op"
)

// scripts are the page functions: one function expression a file.
//
//go:embed js/*.js
var scripts embed.FS

// script returns the source of js/<name>.js. A missing file is a mistake in
// the source, found by the first test that runs the operation.
func script(name string) string {
	b, err := scripts.ReadFile("js/" + name + ".js")
	if err != nil {
		panic(err)
	}
	return strings.TrimSpace(string(b))
}

// pageError is an exception that one of our own page functions threw.
type pageError struct{ text string }

func (e *pageError) Error() string { return "page script: " + e.text }

// run calls a page function in our isolated world of the frame, with
// arguments as JSON, and decodes what it returns into out. It is for
// functions that only look: when the world is gone with its document, the
// call is made once more in the new one.
func (t *Tab) run(ctx context.Context, f frameRef, name string, out any, args ...any) error {
	err := t.runOnce(ctx, f, name, out, args...)
	if isCode(err, op.DocumentChanged) {
		t.dropWorld(f)
		if now, ok := t.frameByID(f.id); ok {
			return t.runOnce(ctx, now, name, out, args...)
		}
	}
	return err
}

func (t *Tab) runOnce(ctx context.Context, f frameRef, name string, out any, args ...any) error {
	world, err := t.world(ctx, f)
	if err != nil {
		return err
	}
	list, err := arguments(args)
	if err != nil {
		return err
	}
	res, err := call(ctx, f.s, callFunctionOn, callParams{FunctionDeclaration: script(name),
		ExecutionContextID: world, Arguments: list, ReturnByValue: true, AwaitPromise: true, Silent: true})
	if err != nil {
		return err
	}
	return result(res.Result, res.ExceptionDetails, name, out)
}

// runOn is run with the node as the function's `this`. It is made once only.
func (t *Tab) runOn(ctx context.Context, s cdp.Session, object runtime.RemoteObjectID, name string, out any, args ...any) error {
	list, err := arguments(args)
	if err != nil {
		return err
	}
	res, err := call(ctx, s, callFunctionOn, callParams{FunctionDeclaration: script(name),
		ObjectID: object, Arguments: list, ReturnByValue: true, AwaitPromise: true, Silent: true})
	if err != nil {
		return err
	}
	return result(res.Result, res.ExceptionDetails, name, out)
}

// noObject is the error of a node that its document has no object for: it is of
// another one, which has gone.
func noObject(node cdp.BackendNodeID) error {
	return &op.ProtocolError{Method: dom.ResolveNode.Method, Message: fmt.Sprintf("Node with given id does not belong to the document: %d has no object", node)}
}

// resolve hands a node to our isolated world of its frame.
func (t *Tab) resolve(ctx context.Context, f frameRef, node cdp.BackendNodeID) (runtime.RemoteObjectID, error) {
	world, err := t.world(ctx, f)
	if err != nil {
		return "", err
	}
	res, err := call(ctx, f.s, dom.ResolveNode, dom.ResolveNodeParams{BackendNodeID: node, ExecutionContextID: world, ObjectGroup: objectGroup})
	if err != nil {
		return "", err
	}
	if res.Object == nil || res.Object.ObjectID == "" {
		return "", noObject(node)
	}
	return res.Object.ObjectID, nil
}

// objectGroup names the remote objects of one operation, which releases them
// together at its end.
const objectGroup = "pi-chrome"

// releaseObjects lets go of the remote objects in the session; failing to do
// so costs memory in the page only until its next navigation.
func (t *Tab) releaseObjects(ctx context.Context, s cdp.Session) {
	if _, err := call(ctx, s, runtime.ReleaseObjectGroup, runtime.ReleaseObjectGroupParams{ObjectGroup: objectGroup}); err != nil {
		t.log.Debug("releasing objects", "error", err)
	}
}

// callFunctionOn is Runtime.callFunctionOn with arguments of our own: the
// generated type leaves out a value that is an empty text, array or object, and
// the function would get undefined.
var callFunctionOn = cdp.Command[callParams, runtime.CallFunctionOnResult]{Method: runtime.CommandCallFunctionOn}

type callParams struct {
	FunctionDeclaration  string                        `json:"functionDeclaration"`
	ObjectID             runtime.RemoteObjectID        `json:"objectId,omitzero"`
	ExecutionContextID   runtime.ExecutionContextID    `json:"executionContextId,omitzero"`
	Arguments            []callArgument                `json:"arguments"`
	Silent               bool                          `json:"silent,omitzero"`
	ReturnByValue        bool                          `json:"returnByValue,omitzero"`
	AwaitPromise         bool                          `json:"awaitPromise,omitzero"`
	ObjectGroup          string                        `json:"objectGroup,omitzero"`
	SerializationOptions *runtime.SerializationOptions `json:"serializationOptions,omitzero"`
}

type callArgument struct {
	Value    jsonv2.Value           `json:"value,omitzero"`
	ObjectID runtime.RemoteObjectID `json:"objectId,omitzero"`
}

func arguments(args []any) ([]callArgument, error) {
	list := []callArgument{}
	for _, a := range args {
		if id, ok := a.(runtime.RemoteObjectID); ok {
			list = append(list, callArgument{ObjectID: id})
			continue
		}
		b, err := json.Marshal(a)
		if err != nil {
			return nil, fmt.Errorf("encoding an argument: %w", err)
		}
		list = append(list, callArgument{Value: jsonv2.Value(b)})
	}
	return list, nil
}

func result(obj *runtime.RemoteObject, exc *runtime.ExceptionDetails, name string, out any) error {
	if exc != nil {
		return &pageError{text: name + ": " + exceptionText(exc)}
	}
	if out == nil || obj == nil || len(obj.Value) == 0 {
		return nil
	}
	if err := json.Unmarshal(obj.Value, out); err != nil {
		return fmt.Errorf("decoding the result of %s: %w", name, err)
	}
	return nil
}

// exceptionText is a thrown value as a person reads it.
func exceptionText(exc *runtime.ExceptionDetails) string {
	if exc.Exception != nil {
		if exc.Exception.Description != "" {
			first, _, _ := strings.Cut(exc.Exception.Description, "\n")
			return first
		}
		if len(exc.Exception.Value) > 0 {
			return cut(string(exc.Exception.Value), 500)
		}
	}
	return exc.Text
}
