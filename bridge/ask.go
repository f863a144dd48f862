package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// askCallTime bounds what a question asks of the browser.
const askCallTime = 5 * time.Second

// asked is the one question that a profile shows its user. Server.mu guards
// which one it is.
type asked struct {
	id      string
	text    string
	session string
	done    chan struct{} // closed when the user presses Done
}

// Ask shows the user a sentence in the popup of the profile, with a badge on
// its icon, until they press Done or the time is over; neither is an error. It
// is taken away in every case. One question at a time is shown in a profile:
// a second one is refused as ask-pending.
func (b *SessionBrowser) Ask(ctx context.Context, message string, timeout time.Duration) (answered bool, err error) {
	p, oerr := b.live()
	if oerr != nil {
		return false, oerr
	}
	a := &asked{id: wire.NewSecret()[:16], text: message, session: b.session.Key, done: make(chan struct{})}
	s := b.srv
	s.mu.Lock()
	if other := s.asks[p.ID()]; other != nil {
		s.mu.Unlock()
		return false, op.Reject(op.AskPending, "session %q is asking the user of this browser something already; nothing was asked", other.session).
			WithHint("Wait until that question is over, then ask again.").WithDetail("holder", other.session)
	}
	s.asks[p.ID()] = a
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.asks, p.ID())
		s.mu.Unlock()
	}()
	over := time.NewTimer(timeout)
	defer over.Stop()
	// The caller may have gone by the time the question is over.
	defer s.takeBack(context.WithoutCancel(ctx), p)
	sctx, cancel := context.WithTimeout(ctx, askCallTime)
	err = p.ShowAsk(sctx, a.id, a.text)
	cancel()
	if err != nil && !errors.Is(err, op.ErrReplyLost) {
		return false, noEffect(ctx, err, "the question could not be shown")
	}
	select {
	case <-a.done:
		return true, nil
	case <-over.C:
		return false, nil
	case <-ctx.Done():
		e := causeOf(ctx)
		e.Kind = op.Rejected
		e.Message += "; the question was taken back"
		return false, e
	}
}

// takeBack takes the question off the popup and the icon.
func (s *Server) takeBack(ctx context.Context, p profile) {
	ctx, cancel := context.WithTimeout(ctx, askCallTime)
	defer cancel()
	if err := p.HideAsk(ctx); err != nil {
		// The next owner takes it away.
		s.log.Debug("taking a question back", "connector", p.ID(), "err", err)
	}
}

// askAgain shows the open question of a profile again after a new connection:
// the worker has written its own badge since, and a new start of the browser
// has cleared the popup.
func (s *Server) askAgain(ctx context.Context, p profile) {
	s.mu.Lock()
	a := s.asks[p.ID()]
	s.mu.Unlock()
	if a == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askCallTime)
	defer cancel()
	if err := p.ShowAsk(ctx, a.id, a.text); err != nil {
		s.log.Debug("showing a question again", "connector", p.ID(), "err", err)
	}
}

// popupRequest takes what the user did in the popup.
func (s *Server) popupRequest(connector string, args []json.RawMessage) {
	var r struct {
		Kind  string `json:"kind"`
		ID    string `json:"id"`
		Label string `json:"label"`
	}
	if len(args) == 0 || json.Unmarshal(args[0], &r) != nil {
		return
	}
	if r.Kind == "rename" {
		s.relay.rename(connector, r.Label)
	}
	if r.Kind != "done" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.asks[connector]
	if a == nil || a.id != r.ID {
		return // of a question that is over
	}
	select {
	case <-a.done: // pressed twice
	default:
		close(a.done)
	}
}

// ShowAsk puts a question into the popup, and a badge on the icon.
func (c *Connector) ShowAsk(ctx context.Context, id, text string) error {
	if _, err := c.Chrome(ctx, "storage.session.set", map[string]any{"ask": map[string]string{"id": id, "text": text}}); err != nil {
		return err
	}
	return c.badge(ctx, "ask", "pi-chrome asks: "+clipText(text, 200))
}

// HideAsk takes the question away.
func (c *Connector) HideAsk(ctx context.Context) error {
	_, err := c.Chrome(ctx, "storage.session.remove", "ask")
	return errors.Join(err, c.badge(ctx, "on", "pi-chrome: connected"))
}

func (c *Connector) badge(ctx context.Context, text, title string) error {
	_, err := c.Chrome(ctx, "action.setBadgeText", map[string]string{"text": text})
	_, terr := c.Chrome(ctx, "action.setTitle", map[string]string{"title": title})
	return errors.Join(err, terr)
}
