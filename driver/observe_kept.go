package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/runtime"

	"pi-chrome/driver/op"
)

// lookGroup holds what observations return. All of it is copied, so that it may
// be released at any time. nodeGroup holds the nodes that are handed to the
// page while one observation runs.
const (
	lookGroup = "pi-chrome-look"
	nodeGroup = "pi-chrome-look-nodes"
)

// kept is what a frame's isolated world keeps for us: functions that need not
// be sent and compiled again, and the document. A world's number alone does
// not tell it: another process may give the same one.
type kept struct {
	world   runtime.ExecutionContextID
	loader  cdp.LoaderID
	session string
	ids     map[string]runtime.RemoteObjectID
}

// apply calls a page function that the world keeps, putting it there first
// where it is not yet.
func (t *Tab) apply(ctx context.Context, f frameRef, world runtime.ExecutionContextID, name string, args []callArgument) (runtime.CallFunctionOnResult, error) {
	id, err := t.function(ctx, f, world, name)
	if err != nil {
		return runtime.CallFunctionOnResult{}, err
	}
	return call(ctx, f.s, callFunctionOn, callParams{FunctionDeclaration: script("apply"), ObjectID: id, Arguments: args, Silent: true,
		ObjectGroup: lookGroup, SerializationOptions: deepOptions})
}

// function returns the object of js/<name>.js in the world.
func (t *Tab) function(ctx context.Context, f frameRef, world runtime.ExecutionContextID, name string) (runtime.RemoteObjectID, error) {
	if id := t.kept(f, world, name); id != "" {
		return id, nil
	}
	res, err := call(ctx, f.s, runtime.Evaluate, runtime.EvaluateParams{Expression: script(name), ContextID: world, ObjectGroup: lookGroup + "-kept"})
	if err != nil {
		return "", err
	}
	if res.Result == nil || res.Result.ObjectID == "" {
		return "", fmt.Errorf("keeping %s in the page: it is no object", name)
	}
	t.keep(f, world, name, res.Result.ObjectID)
	return res.Result.ObjectID, nil
}

// pageDocument returns the frame's document as an object of the page's own
// world. It is for calls that wrap what belongs to the page: Chrome 156 wraps
// into the world of the object that it is given, and the page's functions in
// an isolated world crash the renderer within a few navigations.
func (t *Tab) pageDocument(ctx context.Context, f frameRef, world runtime.ExecutionContextID) (runtime.RemoteObjectID, error) {
	const name = "document of the page"
	if id := t.kept(f, world, name); id != "" {
		return id, nil
	}
	res, err := call(ctx, f.s, runtime.Evaluate, runtime.EvaluateParams{Expression: script("document"), ContextID: world,
		ObjectGroup: lookGroup, SerializationOptions: deepOptions})
	if err != nil {
		return "", err
	}
	var doc deepNode
	if res.Result == nil || res.Result.DeepSerializedValue == nil {
		return "", errors.New("the frame has no document")
	}
	if err := json.Unmarshal(res.Result.DeepSerializedValue.Value, &doc); err != nil {
		return "", fmt.Errorf("decoding the document: %w", err)
	}
	obj, err := call(ctx, f.s, dom.ResolveNode, dom.ResolveNodeParams{BackendNodeID: doc.Backend, ObjectGroup: lookGroup + "-kept"})
	if err != nil {
		return "", err
	}
	if obj.Object == nil || obj.Object.ObjectID == "" {
		return "", errors.New("the document has no object")
	}
	t.keep(f, world, name, obj.Object.ObjectID)
	return obj.Object.ObjectID, nil
}

// holds reports whether this is what the frame's world keeps now.
func (k *kept) holds(f frameRef, world runtime.ExecutionContextID) bool {
	return k != nil && k.world == world && k.loader == f.loader && k.session == f.session
}

// kept is the object that the world keeps under the name, "" where there is
// none.
func (t *Tab) kept(f frameRef, world runtime.ExecutionContextID, name string) runtime.RemoteObjectID {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k := t.observed.functions[f.id]; k.holds(f, world) {
		return k.ids[name]
	}
	return ""
}

// keep remembers an object of the world.
func (t *Tab) keep(f frameRef, world runtime.ExecutionContextID, name string, id runtime.RemoteObjectID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.observed.functions == nil {
		t.observed.functions = map[cdp.FrameID]*kept{}
	}
	k := t.observed.functions[f.id]
	if !k.holds(f, world) {
		k = &kept{world: world, loader: f.loader, session: f.session, ids: map[string]runtime.RemoteObjectID{}}
		t.observed.functions[f.id] = k
	}
	k.ids[name] = id
}

func (t *Tab) forgetFunctions(id cdp.FrameID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.observed.functions, id)
}

// isLost reports whether Chrome no longer has the object of a call, as after
// another attachment.
func isLost(err error) bool {
	p, ok := errors.AsType[*op.ProtocolError](err)
	return ok && strings.Contains(p.Message, "Could not find object")
}

// nodeObject hands a node to the frame's isolated world, for the length of one
// observation.
func (t *Tab) nodeObject(ctx context.Context, f frameRef, node cdp.BackendNodeID) (runtime.RemoteObjectID, error) {
	world, err := t.world(ctx, f)
	if err != nil {
		return "", err
	}
	res, err := call(ctx, f.s, dom.ResolveNode, dom.ResolveNodeParams{BackendNodeID: node, ExecutionContextID: world, ObjectGroup: nodeGroup})
	if err != nil {
		return "", err
	}
	t.mu.Lock()
	t.observed.handed = true
	t.mu.Unlock()
	if res.Object == nil || res.Object.ObjectID == "" {
		return "", noObject(node)
	}
	return res.Object.ObjectID, nil
}

// release lets go of a group of remote objects in the sessions of some frames.
// Failing to do so costs memory in the page only, until its next navigation.
func (t *Tab) release(ctx context.Context, frames []frameRef, group string) {
	seen := map[string]bool{}
	var fns []func() error
	for _, f := range frames {
		if seen[f.session] {
			continue
		}
		seen[f.session] = true
		fns = append(fns, func() error {
			ctx, cancel := context.WithTimeout(ctx, childBound)
			defer cancel()
			_, err := call(ctx, f.s, runtime.ReleaseObjectGroup, runtime.ReleaseObjectGroupParams{ObjectGroup: group})
			return err
		})
	}
	if err := together(fns...); err != nil {
		t.log.Debug("releasing objects", "group", group, "error", err)
	}
}
