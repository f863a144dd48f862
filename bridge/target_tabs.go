package bridge

import (
	"context"
	"errors"

	"pi-chrome/driver/op"
)

// resolved returns the tab that the call's target was resolved to when the
// command entered. target must be the call's own: a second look at a selector
// could find another tab.
func (b *SessionBrowser) resolved(target op.Target) (profile, resolvedTab, *op.Error) {
	p, oerr := b.live()
	if oerr != nil {
		return nil, resolvedTab{}, oerr
	}
	t := b.command.target
	if t.tab == nil || t.given != target {
		return nil, t, op.Reject(op.Internal, "the target %s is not the one that the command was resolved for; nothing was done", target)
	}
	return p, t, nil
}

// ActivateTab shows the call's tab in its window and gives the window the
// focus. A session that works in the background may not.
func (b *SessionBrowser) ActivateTab(ctx context.Context, target op.Target) (op.Tab, error) {
	p, t, oerr := b.resolved(target)
	if oerr != nil {
		return op.Tab{}, oerr
	}
	if !b.session.Foreground {
		return op.Tab{}, op.Reject(op.BackgroundMode, "session %q works in the background: tab %d was not shown", b.session.Key, t.id).
			WithHint("Go on without: every tool works on a hidden tab. Only the user can let the session take the focus (--foreground on a command line, /chrome background off in Pi).").
			WithDetail("session", b.session.Key).WithDetail("tabId", t.id)
	}
	tab, err := p.ActivateTab(ctx, t.id)
	if err != nil {
		return op.Tab{}, b.tabFailed(ctx, err, "tab %d could not be shown", t.id)
	}
	return b.mark(tab), nil
}

// GroupTab puts the call's tab into the session's tab group. color "" keeps
// the group's.
func (b *SessionBrowser) GroupTab(ctx context.Context, target op.Target, color string) (op.Tab, error) {
	p, t, oerr := b.resolved(target)
	if oerr != nil {
		return op.Tab{}, oerr
	}
	before, err := p.TabInfo(ctx, t.id)
	if err != nil {
		return op.Tab{}, noEffect(ctx, err, "reading tab %d", t.id)
	}
	if err := b.srv.group(ctx, b.session.Key, p, before.WindowID, t.id, color); err != nil {
		// It takes several calls: what the tab shows tells how far they came.
		now, ierr := p.TabInfo(ctx, t.id)
		if ierr != nil || now.GroupID != before.GroupID {
			return op.Tab{}, op.Unknown(op.BrowserOperation, "tab %d may be in its group, but not all was done: %s", t.id, err).
				WithHint("List the tabs to see how it stands.").WithCause(errors.Join(err, ierr))
		}
		return op.Tab{}, noEffect(ctx, err, "tab %d could not be grouped", t.id)
	}
	tab, err := p.TabInfo(ctx, t.id)
	if err != nil {
		return op.Tab{}, op.Unknown(op.BrowserOperation, "tab %d was grouped, but could not be read afterwards: %s", t.id, err).
			WithHint("List the tabs to see how it stands.").WithCause(err)
	}
	return b.mark(tab), nil
}

// UngroupTab takes the call's tab out of its group.
func (b *SessionBrowser) UngroupTab(ctx context.Context, target op.Target) (op.Tab, error) {
	p, t, oerr := b.resolved(target)
	if oerr != nil {
		return op.Tab{}, oerr
	}
	if err := p.UngroupTabs(ctx, t.id); err != nil {
		return op.Tab{}, b.tabFailed(ctx, err, "tab %d could not be taken out of its group", t.id)
	}
	tab, err := p.TabInfo(ctx, t.id)
	if err != nil {
		return op.Tab{}, op.Unknown(op.BrowserOperation, "tab %d was taken out of its group, but could not be read afterwards: %s", t.id, err).
			WithHint("List the tabs to see how it stands.").WithCause(err)
	}
	return b.mark(tab), nil
}

// tabFailed is the error of one call that changes a tab: what Chrome refused
// or never got had no effect, and nobody knows of the rest.
func (b *SessionBrowser) tabFailed(ctx context.Context, err error, format string, args ...any) error {
	_, refused := errors.AsType[*op.ProtocolError](err)
	if refused || errors.Is(err, op.ErrNotDelivered) || errors.Is(err, &op.Error{Code: op.TabGone}) {
		return noEffect(ctx, err, format, args...)
	}
	return err
}

// mark says whether the tab is the session's own, and hides a page that the
// session's policy does not allow.
func (b *SessionBrowser) mark(tab op.Tab) op.Tab {
	own, _ := b.srv.holder(b.profile.ID(), tab.ID, b.session.Key)
	tab.Owned = own != nil
	b.srv.policyOf(b.session.Key).maskPage(&tab.Title, &tab.URL)
	return tab
}
