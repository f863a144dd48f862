package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// tokenLife is how long a pairing token is good, at most and by default.
const tokenLife = 120 * time.Second

// maxOffers bounds the profiles that one pairing lists.
const maxOffers = 32

// Pairing issues one-time tokens and binds the profiles that prove them. There
// is one pairing at a time; a goroutine of its own decides about its offers.
type Pairing struct {
	relay   *Relay
	startMu sync.Mutex

	mu      sync.Mutex
	latest  *attempt
	changed chan struct{} // closed at each change of state
}

// PairingOptions say how a profile is going to be paired.
type PairingOptions struct {
	// Folder says that the token is written into the extension's folder,
	// where every unpaired profile reads it: offers are collected for 3 s.
	// Without it the user types the token into the wanted profile's popup.
	Folder bool
	// Profiles is how many profiles are wanted with a folder token; 0 is 1.
	Profiles int
	// Pick is the label or connector id of the one profile that is wanted
	// with a folder token; "" for whoever answers. No other is paired.
	Pick string
	// Seconds is how long the token is good, 1 to 120; 0 is 120.
	Seconds int
}

// PairingState is how far a pairing is.
type PairingState string

// The states of a pairing.
const (
	PairingIdle      PairingState = "idle"      // none was started
	PairingWaiting   PairingState = "waiting"   // for a profile
	PairingOffers    PairingState = "offers"    // a profile offered itself, others may follow
	PairingAmbiguous PairingState = "ambiguous" // more profiles than wanted: Pick one
	PairingDone      PairingState = "paired"
	PairingExpired   PairingState = "expired"
	PairingCanceled  PairingState = "canceled" // by Cancel or by a later Start
)

// PairingStatus is the state of the latest pairing.
type PairingStatus struct {
	State     PairingState   `json:"state"`
	Token     string         `json:"token,omitempty"` // only from Start: 32 hex digits, upper case
	ExpiresAt time.Time      `json:"expiresAt,omitzero"`
	Offers    []PairingOffer `json:"offers,omitempty"` // those seen so far, by label
	Paired    []PairingOffer `json:"paired,omitempty"`
}

// PairingOffer is one profile that holds the token.
type PairingOffer struct {
	ConnectorID    string       `json:"connectorId"`
	Label          string       `json:"label"`
	DisplayVersion string       `json:"displayVersion"`
	Browser        wire.Browser `json:"browser"`
}

// attempt is one pairing. Its goroutine owns the offers; status is under
// Pairing.mu.
type attempt struct {
	p      *Pairing
	token  string
	folder bool
	want   int
	pick   string
	life   time.Duration // of the token

	offered  chan *offer
	left     chan *offer
	picks    chan string
	canceled chan struct{} // closed by Cancel
	done     chan struct{} // closed when the goroutine has ended
	once     sync.Once

	status PairingStatus
}

// offer is one profile that waits for a decision, on its socket's goroutine.
type offer struct {
	PairingOffer
	secret  string
	hello   *wire.Hello
	decided chan *refusal // one slot; nil means paired
}

// Start issues a token, good once and for as long as the options say. An unfinished pairing is
// canceled.
func (p *Pairing) Start(o PairingOptions) (PairingStatus, error) {
	if o.Profiles == 0 {
		o.Profiles = 1
	}
	if o.Profiles < 1 || o.Profiles > maxOffers {
		return PairingStatus{}, op.Invalidf("profiles is %d; allowed: 1 to %d", o.Profiles, maxOffers)
	}
	if !o.Folder && o.Profiles > 1 {
		return PairingStatus{}, op.Invalidf("a typed token pairs one profile; start a pairing for each")
	}
	if o.Pick != "" && (!o.Folder || o.Profiles > 1) {
		return PairingStatus{}, op.Invalidf("pick is for one profile that finds the token in its folder")
	}
	life := tokenLife
	if o.Seconds != 0 {
		life = time.Duration(o.Seconds) * time.Second
	}
	if life < time.Second || life > tokenLife {
		return PairingStatus{}, op.Invalidf("seconds is %d; allowed: 1 to %d", o.Seconds, int(tokenLife.Seconds()))
	}
	p.startMu.Lock()
	defer p.startMu.Unlock()
	p.Cancel()
	a := &attempt{
		p: p, token: wire.NewToken(), folder: o.Folder, want: o.Profiles, pick: o.Pick, life: life,
		offered: make(chan *offer), left: make(chan *offer), picks: make(chan string),
		canceled: make(chan struct{}), done: make(chan struct{}),
		status: PairingStatus{State: PairingWaiting, ExpiresAt: time.Now().Add(life)},
	}
	r := p.relay
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return PairingStatus{}, op.NotAvailable(op.BridgeStopped, "the owner is stopping")
	}
	r.wg.Go(a.run)
	r.mu.Unlock()
	p.mu.Lock()
	p.latest = a
	status := a.status
	p.bumpLocked()
	p.mu.Unlock()
	status.Token = a.token
	return status, nil
}

// Status returns how far the latest pairing is.
func (p *Pairing) Status() PairingStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.statusLocked()
}

func (p *Pairing) statusLocked() PairingStatus {
	if p.latest == nil {
		return PairingStatus{State: PairingIdle}
	}
	s := p.latest.status
	s.Offers, s.Paired = slices.Clone(s.Offers), slices.Clone(s.Paired)
	return s
}

// Wait waits until the pairing that is the latest now is paired, ambiguous,
// expired or canceled, and returns its status then.
func (p *Pairing) Wait(ctx context.Context) (PairingStatus, error) {
	p.mu.Lock()
	a := p.latest
	p.mu.Unlock()
	if a == nil {
		return PairingStatus{State: PairingIdle}, nil
	}
	for {
		p.mu.Lock()
		s, changed := a.status, p.changed
		s.Offers, s.Paired = slices.Clone(s.Offers), slices.Clone(s.Paired)
		p.mu.Unlock()
		if s.State != PairingWaiting && s.State != PairingOffers {
			return s, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return s, fmt.Errorf("waiting for a profile: %w", context.Cause(ctx))
		}
	}
}

// Pick chooses the profile of an ambiguous pairing by its label or connector
// id. It is paired when it offers itself the next time, within seconds.
func (p *Pairing) Pick(label string) error {
	p.mu.Lock()
	a := p.latest
	if a == nil || a.status.State != PairingAmbiguous {
		state := p.statusLocked().State
		p.mu.Unlock()
		return op.Reject(op.PairingUnavailable, "there is nothing to pick: the pairing is %s", state)
	}
	var ids, labels []string
	for _, o := range a.status.Offers {
		labels = append(labels, o.Label)
		if o.ConnectorID == label || o.Label == label {
			ids = append(ids, o.ConnectorID)
		}
	}
	p.mu.Unlock()
	switch len(ids) {
	case 1:
	case 0:
		return op.Reject(op.PairingUnavailable, "no profile %q offered itself; there are: %s", clip(label), strings.Join(labels, ", "))
	default:
		return op.Reject(op.PairingUnavailable, "%d profiles are called %q: pick one by its id", len(ids), clip(label)).WithDetail("connectorIds", ids)
	}
	select {
	case a.picks <- ids[0]:
		// Here and not where it is received: the status that follows the pick
		// shows it.
		a.set(func(s *PairingStatus) {
			if s.State == PairingAmbiguous {
				s.State = PairingWaiting
			}
		})
		return nil
	case <-a.done:
		return op.Reject(op.PairingUnavailable, "the pairing has ended in the meantime")
	}
}

// Cancel ends an unfinished pairing; its token is good for nothing then.
func (p *Pairing) Cancel() {
	p.mu.Lock()
	a := p.latest
	p.mu.Unlock()
	if a != nil {
		a.once.Do(func() { close(a.canceled) })
		<-a.done
	}
}

func (p *Pairing) bumpLocked() {
	close(p.changed)
	p.changed = make(chan struct{})
}

func (a *attempt) set(change func(*PairingStatus)) {
	a.p.mu.Lock()
	defer a.p.mu.Unlock()
	change(&a.status)
	a.p.bumpLocked()
}

// expired reports whether the token's time is over by the wall clock: the timer
// stands still while the machine sleeps.
func (a *attempt) expired() bool {
	a.p.mu.Lock()
	defer a.p.mu.Unlock()
	return !time.Now().Round(0).Before(a.status.ExpiresAt.Round(0))
}

// run decides about the offers until the pairing has ended.
func (a *attempt) run() {
	defer close(a.done)
	expiry := time.NewTimer(a.life)
	defer expiry.Stop()
	var window *time.Timer
	var windowC <-chan time.Time
	var waiting []*offer
	picked, ambiguous := "", false
	refuseAll := func(no *refusal) {
		for _, o := range waiting {
			o.decided <- no
		}
		waiting = nil
	}
	end := func(state PairingState, no *refusal) {
		refuseAll(no)
		a.set(func(s *PairingStatus) { s.State = state })
	}
	for {
		select {
		case o := <-a.offered:
			if a.expired() {
				o.decided <- tokenOld
				end(PairingExpired, tokenOld)
				return
			}
			a.see(o)
			switch {
			case !a.folder || picked == o.ConnectorID:
				if a.bind(o) {
					end(PairingDone, tokenUsed)
					return
				}
			case picked != "" || ambiguous:
				o.decided <- &refusal{wire.RefuseAmbiguous, "Several profiles offered themselves. Choose one with pi-chrome onboard --pick LABEL."}
			default:
				// The same profile may have lost its socket and come again.
				waiting = slices.DeleteFunc(waiting, func(w *offer) bool {
					again := w.ConnectorID == o.ConnectorID
					if again {
						w.decided <- &refusal{wire.RefuseNonceUsed, "This profile has offered itself again."}
					}
					return again
				})
				waiting = append(waiting, o)
				if windowC == nil {
					window = time.NewTimer(a.p.relay.time.offers)
					defer window.Stop()
					windowC = window.C
				}
				a.set(func(s *PairingStatus) { s.State = PairingOffers })
			}
		case o := <-a.left:
			waiting = slices.DeleteFunc(waiting, func(w *offer) bool { return w == o })
		case <-windowC:
			windowC = nil
			wanted := a.wanted(waiting)
			switch {
			case a.pick != "" && len(wanted) == 0:
				refuseAll(&refusal{wire.RefuseAmbiguous, fmt.Sprintf("Another profile is wanted: %s.", clip(a.pick))})
				a.set(func(s *PairingStatus) { s.State = PairingWaiting })
			case a.pick != "" && len(wanted) == 1:
				waiting = slices.DeleteFunc(waiting, func(o *offer) bool { return o == wanted[0] })
				if a.bind(wanted[0]) {
					end(PairingDone, tokenUsed)
					return
				}
				a.set(func(s *PairingStatus) { s.State = PairingWaiting })
			case len(wanted) > a.want:
				ambiguous = true
				refuseAll(&refusal{wire.RefuseAmbiguous, "Several profiles offered themselves. Choose one with pi-chrome onboard --pick LABEL."})
				a.set(func(s *PairingStatus) { s.State = PairingAmbiguous })
			case len(wanted) == a.want:
				all := true
				for _, o := range waiting {
					all = a.bind(o) && all
				}
				waiting = nil
				if all {
					end(PairingDone, tokenUsed)
					return
				}
				a.set(func(s *PairingStatus) { s.State = PairingWaiting })
			}
			// Fewer than wanted: the next offer opens another window.
		case picked = <-a.picks:
		case <-expiry.C:
			end(PairingExpired, tokenOld)
			return
		case <-a.p.relay.ctx.Done():
			end(PairingCanceled, &refusal{wire.RefuseShutDown, "The owner is stopping."})
			return
		case <-a.canceled:
			end(PairingCanceled, &refusal{wire.RefuseNoPairing, "The pairing was canceled. Run pi-chrome onboard again."})
			return
		}
	}
}

// wanted are the offers that the pairing is for. An id fits one profile only.
func (a *attempt) wanted(offers []*offer) []*offer {
	if a.pick == "" {
		return offers
	}
	var byLabel []*offer
	for _, o := range offers {
		if o.ConnectorID == a.pick {
			return []*offer{o}
		}
		if strings.EqualFold(o.Label, a.pick) {
			byLabel = append(byLabel, o)
		}
	}
	return byLabel
}

var (
	tokenOld  = &refusal{wire.RefuseTokenOld, "The pairing token has expired. Run pi-chrome onboard again."}
	tokenUsed = &refusal{wire.RefuseTokenUsed, "The pairing token was used by another profile. Run pi-chrome onboard again for this one."}
)

// see lists the offer in the status.
func (a *attempt) see(o *offer) {
	a.set(func(s *PairingStatus) {
		s.Offers = slices.DeleteFunc(s.Offers, func(x PairingOffer) bool { return x.ConnectorID == o.ConnectorID })
		if len(s.Offers) < maxOffers {
			s.Offers = append(s.Offers, o.PairingOffer)
		}
		slices.SortFunc(s.Offers, func(x, y PairingOffer) int { return strings.Compare(x.Label+x.ConnectorID, y.Label+y.ConnectorID) })
	})
}

// bind stores the binding and lets the profile know; false when it could not
// be stored.
func (a *attempt) bind(o *offer) bool {
	r := a.p.relay
	b := Binding{
		ConnectorID: o.ConnectorID, Secret: o.secret, Label: o.Label, ExtensionID: o.hello.ExtensionID,
		DisplayVersion: o.DisplayVersion, Fingerprint: o.hello.Fingerprint, PairedAt: time.Now().UTC(),
	}
	c, err := r.bind(b)
	if err != nil {
		r.log.Error("storing a binding", "connector", o.ConnectorID, "error", err)
		o.decided <- &refusal{wire.RefuseNoPairing, "The owner could not store the pairing. Run pi-chrome doctor."}
		return false
	}
	if h := r.opts.Hooks.Paired; h != nil && c != nil {
		c.hooks.push(func() { h(c) })
	}
	a.set(func(s *PairingStatus) { s.Paired = append(s.Paired, o.PairingOffer) })
	o.decided <- nil
	r.announce()
	return true
}

// serve carries one socket of /pairing.
func (p *Pairing) serve(sock socket, handshakeDone func()) (*wire.Hello, *refusal) {
	r := p.relay
	var a *attempt
	s, no := r.handshake(sock, wire.ScopePairing, func(*wire.Hello) (string, *refusal) {
		p.mu.Lock()
		defer p.mu.Unlock()
		a = p.latest
		if no := p.inactiveLocked(); no != nil {
			return "", no
		}
		return a.token, nil
	})
	if no != nil {
		return helloOf(s), no
	}
	handshakeDone()
	h := s.hello
	secret, err := wire.PairingSecret(a.token, h.ConnectorID, h.ClientNonce, r.opts.Epoch, s.requestNonce)
	if err != nil {
		return h, &refusal{wire.RefuseMalformed, "The secret could not be derived: " + err.Error() + "."}
	}
	if err := r.send(sock, wire.Offered{Type: wire.TypeOffered}); err != nil {
		return h, silence(err, "offered", r.time.hello)
	}
	o := &offer{
		PairingOffer: PairingOffer{ConnectorID: h.ConnectorID, Label: h.Label, DisplayVersion: h.DisplayVersion, Browser: h.Browser},
		secret:       secret, hello: h, decided: make(chan *refusal, 1),
	}
	select {
	case a.offered <- o:
	case <-a.done:
		p.mu.Lock()
		defer p.mu.Unlock()
		return h, p.endedLocked(a)
	}
	// Nothing is to come from the profile now, except that it leaves.
	gone := make(chan error, 1)
	r.wg.Go(func() {
		_, err := sock.Read(r.ctx)
		if err == nil {
			err = errors.New("a frame was sent while the pairing was undecided")
		}
		gone <- err
	})
	select {
	case no = <-o.decided:
	case err := <-gone:
		select {
		case a.left <- o:
		case <-a.done:
		}
		select {
		case no = <-o.decided: // it was decided in that very moment
		default:
			return h, silence(err, "offered", r.time.hello)
		}
	}
	if no != nil {
		return h, no
	}
	if err := r.send(sock, wire.Paired{Type: wire.TypePaired, ConnectorID: h.ConnectorID, Label: h.Label}); err != nil {
		// The binding is stored, but the profile does not know: its next try
		// is refused as "used", and a new pairing replaces the binding.
		r.log.Warn("a paired profile left before it was told", "connector", h.ConnectorID, "error", err)
		return h, nil
	}
	sock.Close(websocket.StatusNormalClosure, "paired")
	return h, nil
}

// inactiveLocked says why no token can be proved now, nil when one can.
func (p *Pairing) inactiveLocked() *refusal {
	if p.latest == nil {
		return &refusal{wire.RefuseNoPairing, "Nobody asked for a pairing. Run pi-chrome onboard."}
	}
	return p.endedLocked(p.latest)
}

func (p *Pairing) endedLocked(a *attempt) *refusal {
	switch a.status.State {
	case PairingDone:
		return tokenUsed
	case PairingExpired:
		return tokenOld
	case PairingCanceled:
		return &refusal{wire.RefuseNoPairing, "The pairing was canceled. Run pi-chrome onboard again."}
	}
	return nil
}
