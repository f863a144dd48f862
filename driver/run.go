package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/chromedp/cdproto/inspector"
	"github.com/chromedp/cdproto/page"

	"pi-chrome/driver/op"
)

// Options configure a [Driver]. Nil means the defaults.
type Options struct {
	// Logger receives debug records; nil discards them. It never sees page
	// content or input text.
	Logger *slog.Logger
}

// Driver runs operations on tabs. It keeps what it knows of each tab between
// calls (frames, refs, the frame lease) under the tab's fence.
type Driver struct {
	log *slog.Logger
	ops map[string]op.Operation[*Call]

	dialogs policies // by session

	mu     sync.Mutex
	tabs   map[op.TabKey]*Tab
	closed bool
}

// New returns a driver with all [Operations].
func New(opts *Options) *Driver {
	d := &Driver{log: slog.New(slog.DiscardHandler), ops: map[string]op.Operation[*Call]{}, tabs: map[op.TabKey]*Tab{}}
	if opts != nil && opts.Logger != nil {
		d.log = opts.Logger
	}
	for _, o := range Operations() {
		d.ops[o.Name()] = o
	}
	return d
}

// Operation returns the operation with this wire name or tool name.
func (d *Driver) Operation(name string) (op.Operation[*Call], bool) {
	if o, ok := d.ops[name]; ok {
		return o, true
	}
	for _, o := range d.ops {
		if o.Tool() == name {
			return o, true
		}
	}
	return op.Operation[*Call]{}, false
}

// Run runs one call. The error is always an *op.Error: rejected when nothing
// was done, outcome-unknown when something may have been.
func (d *Driver) Run(ctx context.Context, operation string, call *Call, input json.RawMessage) (op.Result, error) {
	o, ok := d.Operation(operation)
	if !ok {
		return op.Result{}, op.Invalidf("unknown operation %q", operation)
	}
	desc, err := o.Descriptor()
	if err != nil {
		return op.Result{}, op.AsError(err)
	}
	call.driver = d
	if desc.Tab == op.PageTab {
		front, err := call.inFront(o, input)
		if err != nil {
			return op.Result{}, op.AsError(err)
		}
		t, err := d.tab(call.Conn)
		if err != nil {
			return op.Result{}, op.AsError(err)
		}
		call.tab = t
		t.serve(call.Session.Key, &d.dialogs)
		var end context.CancelCauseFunc
		ctx, end = context.WithCancelCause(ctx)
		defer end(nil)
		// A crashed renderer answers nothing that is under way, and neither
		// does a page under a dialog.
		looks := looking(o.Name())
		defer t.watch(func(ev op.Event) {
			switch {
			case ev.Method == inspector.TargetCrashed.Method && ev.SessionID == "":
				end(errCrashed)
			case ev.Method == page.JavascriptDialogOpening.Method && looks && !call.effects.Load():
				if d := t.openDialog(); d != nil {
					end(dialogError(t, d))
				}
			}
		})()
		if err := t.ready(ctx, o.Name()); err != nil {
			return op.Result{}, d.explain(call, o, input, err)
		}
		if front && o.Validate(input) == nil {
			if err := t.show(ctx); err != nil {
				return op.Result{}, d.explain(call, o, input, err)
			}
		}
		if strings.HasPrefix(o.Name(), "input.") {
			release, err := t.holdView(ctx, false)
			if err != nil {
				return op.Result{}, d.explain(call, o, input, err)
			}
			defer release()
		}
	}
	res, err := o.Run(ctx, call, input)
	if err != nil {
		cause := context.Cause(ctx)
		if dialog, ok := errors.AsType[*op.Error](cause); ok && !isCode(err, op.DialogOpen) {
			if call.effects.Load() {
				// Something was sent in the moment in which it opened.
				dialog = op.Unknown(dialog.Code, "%s: %s", o.Tool(), dialog.Message).WithHint("answer the dialog, then take a snapshot and look")
			}
			return op.Result{}, dialog
		}
		if errors.Is(cause, errCrashed) {
			err = cause
		}
		return op.Result{}, d.explain(call, o, input, err)
	}
	return res, nil
}

// looking reports whether an operation begins with a look at the page, or is
// no more than one: a dialog that opens meanwhile ends it. The others deal with
// dialogs themselves.
func looking(operation string) bool {
	switch operation {
	case "page.snapshot", "page.read", "page.find", "page.inspect":
		return true
	}
	return strings.HasPrefix(operation, "input.")
}

// errCrashed is the cause of a call's end when the page's renderer crashes.
var errCrashed = errors.New("the page's renderer crashed")

// explain turns any error of a call into the one error type, by what is known
// about its effect.
func (d *Driver) explain(call *Call, o op.Operation[*Call], input json.RawMessage, err error) error {
	if e, ok := errors.AsType[*op.Error](err); ok {
		if call.begun.Load() > 1 && call.effects.Load() && o.EffectOf(input) == op.MayMutate && saysLost(e) {
			return lostLate(o, e)
		}
		return e
	}
	where := ""
	if call.Conn != nil {
		where = fmt.Sprintf(" on tab %d", call.Conn.Key().TabID)
	}
	mayHave := call.effects.Load() && o.EffectOf(input) == op.MayMutate && !(errors.Is(err, op.ErrNotDelivered) && call.begun.Load() == 1)
	code, hint := classify(err)
	var e *op.Error
	if mayHave {
		e = op.Unknown(code, "%s%s may have changed the page before it failed: %s; it was not sent again", o.Tool(), where, plain(err))
		e.WithHint("take a snapshot and look before trying again")
		switch code {
		case op.ConnectorOffline:
			e.WithHint("open that browser again, then take a snapshot and look before trying again")
		case op.DebuggerDetached:
			e.WithHint("take a snapshot and look before trying again: Chrome ended the debugger session, as it does when it discards a tab to save memory, or when a frame of another extension, such as a password manager's list, or of an unknown scheme comes into the page")
		case op.TabGone:
			e.WithHint("list the tabs, and look for what it may have done before trying again in another one")
		}
	} else {
		e = op.Reject(code, "%s%s failed and changed nothing: %s", o.Tool(), where, plain(err)).WithHint("%s", hint)
	}
	return e.WithCause(err)
}

// saysLost reports whether the error says that the tab cannot be reached any more.
func saysLost(e *op.Error) bool {
	switch e.Code {
	case op.TabGone, op.ConnectorOffline, op.BridgeStopped, op.ProtectedTabURL,
		op.DebuggerBusy, op.DebuggerDetached, op.DebuggerCanceled, op.DebuggerQuarantined:
		return e.Kind == op.Rejected || e.Kind == op.Unavailable
	}
	return false
}

// lostLate is the error of a tab that was lost after the call had had effects:
// what was asked of the tab then was not done, what came before was.
func lostLate(o op.Operation[*Call], e *op.Error) *op.Error {
	late := *e
	late.Kind = op.OutcomeUnknown
	late.Message = fmt.Sprintf("%s was under way and may have had its effect when its tab was lost: %s; it was not sent again", o.Tool(), strings.TrimSuffix(e.Message, "; nothing was done"))
	return late.WithHint("list the tabs, and look for what it may have done before trying again")
}

// explain turns an error of a part of the call's operation into the one error
// type, where the operation has more to say of it.
func (c *Call) explain(operation string, err error) error {
	return c.driver.explain(c, c.driver.ops[operation], nil, err)
}

// tab returns what the driver knows of the tab behind conn.
func (d *Driver) tab(conn Conn) (*Tab, error) {
	if conn == nil {
		return nil, op.Reject(op.AutomationTargetRequired, "no tab was given")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, op.NotAvailable(op.BridgeStopped, "the driver is closed")
	}
	key := conn.Key()
	if t := d.tabs[key]; t != nil {
		if t.conn == conn {
			return t, nil
		}
		t.close()
	}
	t := newTab(conn, d.log)
	d.tabs[key] = t
	return t, nil
}

// Forget drops what the driver knows of a tab that is gone or given back.
func (d *Driver) Forget(key op.TabKey) {
	d.mu.Lock()
	t := d.tabs[key]
	delete(d.tabs, key)
	d.mu.Unlock()
	if t != nil {
		t.close()
	}
}

// Release undoes what the driver left on in a tab that stays with the user:
// the frame lease and the captures. The tab is forgotten afterwards.
func (d *Driver) Release(ctx context.Context, key op.TabKey) error {
	d.mu.Lock()
	t := d.tabs[key]
	d.mu.Unlock()
	if t == nil {
		return nil
	}
	err := errors.Join(t.releaseFrames(ctx), t.releaseCapture(ctx))
	d.Forget(key)
	return err
}

// Close forgets every tab and waits for their goroutines.
func (d *Driver) Close() {
	d.mu.Lock()
	tabs := d.tabs
	d.tabs, d.closed = map[op.TabKey]*Tab{}, true
	d.mu.Unlock()
	for _, t := range tabs {
		t.close()
	}
}
