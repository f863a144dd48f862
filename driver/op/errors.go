package op

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Kind says what a caller may conclude from an [Error].
type Kind string

// The kinds of errors. A caller decides by the kind alone whether the command
// may be sent again.
const (
	// Invalid is bad input: nothing was sent anywhere.
	Invalid Kind = "invalid"
	// Rejected is known to have had no effect on the page.
	Rejected Kind = "rejected"
	// OutcomeUnknown was delivered and may have had an effect. It is never
	// replayed.
	OutcomeUnknown Kind = "outcome-unknown"
	// Unavailable means that no owner or no connector could take the command.
	// It had no effect and may be sent again.
	Unavailable Kind = "unavailable"
)

// Code names one failure, such as "stale-action-ref". The codes of the
// operations stand in codes.go.
type Code string

// Error is what a failed command tells, the same on every surface.
type Error struct {
	Kind    Kind           `json:"kind"`
	Code    Code           `json:"code"`
	Message string         `json:"message"`           // what failed, on which tab, and whether it had an effect
	Hint    string         `json:"hint,omitempty"`    // what to do next
	Details map[string]any `json:"details,omitempty"` // values for programs, as contract §1.6 lists them
	cause   error
}

// Error returns the message; the hint is for surfaces to show beside it.
func (e *Error) Error() string { return e.Message }

// Text is the error as a reader is shown it: the message, and the hint on a
// line of its own.
func (e *Error) Text() string {
	if e.Hint == "" {
		return "error: " + e.Message
	}
	return "error: " + e.Message + "\nhint: " + e.Hint
}

// Unwrap returns the error that caused e, or nil.
func (e *Error) Unwrap() error { return e.cause }

// Is reports whether target is an *Error with the same code, so that
// errors.Is(err, &op.Error{Code: op.StaleActionRef}) works.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && (t.Kind == "" || t.Kind == e.Kind)
}

// WithHint returns e with the hint set.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// WithDetail returns e with one more detail.
func (e *Error) WithDetail(key string, value any) *Error {
	if e.Details == nil {
		e.Details = map[string]any{}
	}
	e.Details[key] = value
	return e
}

// WithCause returns e with the error that caused it.
func (e *Error) WithCause(err error) *Error {
	e.cause = err
	return e
}

// Reject returns an error that is known to have had no effect.
func Reject(code Code, format string, args ...any) *Error {
	return &Error{Kind: Rejected, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Unknown returns an error of a command that may have had an effect.
func Unknown(code Code, format string, args ...any) *Error {
	return &Error{Kind: OutcomeUnknown, Code: code, Message: fmt.Sprintf(format, args...)}
}

// NotAvailable returns an error of a command that nothing could take.
func NotAvailable(code Code, format string, args ...any) *Error {
	return &Error{Kind: Unavailable, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Invalidf returns an error of bad input.
func Invalidf(format string, args ...any) *Error {
	return &Error{Kind: Invalid, Code: InvalidInput, Message: fmt.Sprintf(format, args...)}
}

// AsError returns err as an *Error. Anything else becomes a rejected
// browser-operation error, so use it only where no effect is possible.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return Reject(BrowserOperation, "%s", err).WithCause(err)
}

// ErrNotDelivered marks a CDP or relay call that never reached the browser:
// it had no effect and may be sent again. Transports wrap it.
var ErrNotDelivered = errors.New("not delivered to the browser")

// ErrReplyLost marks a call that was delivered and whose reply cannot arrive
// any more: it may have had an effect. Transports wrap it.
var ErrReplyLost = errors.New("reply lost")

// ErrOffline marks a call whose browser went away and did not come back in
// time. Transports wrap it beside ErrNotDelivered or ErrReplyLost.
var ErrOffline = errors.New("the browser went away")

// ErrTabGone marks a call on a tab that does not exist any more. Transports
// wrap it beside ErrDetached.
var ErrTabGone = errors.New("the tab is gone")

// ErrCovered marks a call that Chrome refused because another extension shows
// a frame in the page. Transports wrap it beside ErrNotDelivered.
var ErrCovered = errors.New("another extension shows a frame in the page, as password managers do under a field, and Chrome refuses every command until it is gone")

// ErrDetached marks a call on a tab whose debugger session has ended.
// Transports wrap it.
var ErrDetached = errors.New("debugger detached")

// ProtocolError is an error that the browser returned for one call. Message
// is Chrome's own text.
type ProtocolError struct {
	Method  string
	Code    int64
	Message string
}

func (e *ProtocolError) Error() string { return e.Method + ": " + e.Message }

// MarshalDetails returns the details as JSON, or null.
func (e *Error) MarshalDetails() json.RawMessage {
	b, err := json.Marshal(e.Details)
	if err != nil {
		return json.RawMessage("null")
	}
	return b
}
