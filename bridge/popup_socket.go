package bridge

import (
	"context"
	"net/http"
	"sync"
	"time"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// Bounds of one popup's socket.
const (
	popupSilence = 90 * time.Second // without an ask; a page in the background asks once a minute
	popupAsks    = 4                // at once: a stop does not wait for a browser that is slow to tell its tabs
)

// ServePopup is the handler of /popup.
func (r *Relay) ServePopup(w http.ResponseWriter, req *http.Request) {
	r.serve(w, req, wire.ScopePopup)
}

// servePopup carries one socket of a popup: the handshake of a connector under
// a domain of its own, then asks and their answers. It changes nothing about
// the connection of the worker.
func (r *Relay) servePopup(sock socket, handshakeDone func()) (*wire.Hello, *refusal) {
	var secret string
	h, no := r.handshake(sock, wire.ScopePopup, func(hello *wire.Hello) (string, *refusal) {
		var no *refusal
		secret, no = r.secretOf(hello)
		return secret, no
	})
	if no != nil {
		return helloOf(h), no
	}
	hello := h.hello
	c, no := r.popupOf(hello, secret)
	if no != nil {
		return hello, no
	}
	handshakeDone()
	sock.SetReadLimit(wire.PopupBytes)
	if err := r.send(sock, wire.Ready{Type: wire.TypeReady, ConnectionID: wire.NewSecret()[:16], Generation: 1}); err != nil {
		return hello, silence(err, "ready", r.time.hello)
	}
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	var mu sync.Mutex // of writing
	answer := func(a wire.PopupAnswer) {
		mu.Lock()
		defer mu.Unlock()
		if err := r.send(sock, a); err != nil {
			sock.CloseNow() // the popup has gone, or does not read
		}
	}
	slots := make(chan struct{}, popupAsks)
	var asks sync.WaitGroup
	defer asks.Wait()
	defer cancel() // before the wait
	for {
		ask, no := r.nextAsk(ctx, sock)
		if ask == nil {
			return hello, no
		}
		if _, no := r.popupOf(hello, secret); no != nil {
			return hello, no
		}
		select {
		case slots <- struct{}{}:
		default:
			answer(wire.PopupAnswer{Type: wire.TypeAnswer, ID: ask.ID, Error: failureOf(
				op.NotAvailable(op.ConnectorBusy, "this popup waits for %d answers already", popupAsks).WithHint("Wait for one of them."))})
			continue
		}
		asks.Go(func() {
			defer func() { <-slots }()
			status, err := r.opts.Hooks.Popup(ctx, c, *ask)
			a := wire.PopupAnswer{Type: wire.TypeAnswer, ID: ask.ID, Status: status}
			if err != nil {
				a.Status, a.Error = nil, failureOf(err)
			}
			answer(a)
		})
	}
}

// nextAsk reads one ask; nil when the popup has gone or is refused.
func (r *Relay) nextAsk(ctx context.Context, sock socket) (*wire.PopupAsk, *refusal) {
	ctx, cancel := context.WithTimeout(ctx, popupSilence)
	defer cancel()
	raw, err := sock.Read(ctx)
	if err != nil {
		return nil, nil // closed, silent or too long: there is nobody to tell
	}
	ask, err := wire.DecodePopupAsk(raw)
	if err != nil {
		return nil, &refusal{wire.RefuseMalformed, sentence(err)}
	}
	return ask, nil
}

// isElsewhere reports whether the connector is connected from another start of a
// browser than the given one.
func (c *Connector) isElsewhere(epoch string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn != nil && c.browserEpoch != epoch
}

// popupOf is the profile whose popup has proved the secret. It is looked up for
// each ask: a pairing that is over, or was made anew, ends its popups too. The
// popup of a copied profile is refused as its worker is.
func (r *Relay) popupOf(hello *wire.Hello, secret string) (*Connector, *refusal) {
	now, no := r.secretOf(hello)
	if no != nil {
		return nil, no
	}
	c, ok := r.Connector(hello.ConnectorID)
	switch {
	case !ok || !wire.EqualProof(now, secret) || r.opts.Hooks.Popup == nil:
		return nil, unknownConnector
	case c.isElsewhere(hello.BrowserEpoch):
		return nil, &refusal{wire.RefuseDuplicate, "Another running browser has the same identity."}
	}
	return c, nil
}
