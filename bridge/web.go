package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// Bounds of the routes that pages give to sessions.
const (
	webOfferLife  = 120 * time.Second // from the page's message to the claim
	webLeaseLife  = 12 * time.Hour    // from the claim
	maxWebOffers  = 128               // not claimed yet
	maxWebMessage = 16 << 10          // of a page, with where it comes from
	maxWebRoutes  = 4096
	webRouteKept  = 30 * 24 * time.Hour // after the end of the lease, then its session counts as new
	webOfferType  = "pi-chrome/offer"
	webOfferForms = `{"type":"pi-chrome/offer","version":1,"offer":"64 hex digits"}`
)

// bucketRoutes holds WebRoute by session key.
var bucketRoutes = []byte("webRoutes")

// DefaultWebOrigins are the pages of this machine that may offer their
// profile.
var DefaultWebOrigins = []string{"http://localhost:30141", "http://127.0.0.1:30141"}

// WebRoute binds a session to the profile whose page was claimed for it. After
// ExpiresAt the session is still attached: its commands fail, and go to no
// other profile.
type WebRoute struct {
	Session     string    `json:"session"`
	PairingID   string    `json:"pairingId"` // names the route in errors; no capability
	ConnectorID string    `json:"connectorId"`
	Label       string    `json:"label"`
	Origin      string    `json:"origin"` // of the page
	ClaimedAt   time.Time `json:"claimedAt"`
	ExpiresAt   time.Time `json:"expiresAt"`
}

// ClaimParams are of the request "web.claim". Offer is the number that the page
// made up: who knows it was told by the page.
type ClaimParams struct {
	Session string `json:"session"`
	Offer   string `json:"offer"`
}

// webOffer is one page's offer of its profile.
type webOffer struct {
	connectorID, origin string
	at                  time.Time
	doubtful            bool // two profiles offered the same number
}

// checkWebOrigin accepts what the extension's manifest lets through.
func checkWebOrigin(origin string) error {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" || u.Hostname() != "localhost" && u.Hostname() != "127.0.0.1" || u.Port() == "" || origin != "http://"+u.Host {
		return op.Invalidf("web origin is %q; allowed: http://localhost:PORT and http://127.0.0.1:PORT", clip(origin))
	}
	return nil
}

// external takes a message of a page. Chrome tells where it comes from; pages
// elsewhere than on the allowed origins get nothing, not even an answer. It runs
// on the connection's reader and waits for nothing.
func (s *Server) external(connectorID string, args []json.RawMessage) {
	var from struct {
		Origin  string `json:"origin"`
		FrameID *int   `json:"frameId"`
	}
	var m struct {
		Type    string `json:"type"`
		Version int    `json:"version"`
		Offer   string `json:"offer"`
	}
	refuse := func(why string) {
		s.log.Info("a page's message was passed over", "connector", connectorID, "origin", clip(from.Origin), "why", why)
	}
	size := 0
	for _, a := range args {
		size += len(a)
	}
	if size > maxWebMessage {
		refuse(fmt.Sprintf("it has %d bytes, more than %d", size, maxWebMessage))
		return
	}
	if len(args) != 2 || json.Unmarshal(args[1], &from) != nil {
		refuse("it does not say where it comes from")
		return
	}
	switch {
	case !slices.Contains(s.webOrigins, from.Origin):
		refuse("its origin is not allowed")
		return
	case from.FrameID == nil || *from.FrameID != 0:
		refuse("it comes from a frame inside another page")
		return
	case json.Unmarshal(args[0], &m) != nil || m.Type != webOfferType || m.Version != 1 || !wire.IsHex256(m.Offer):
		refuse("it is not " + webOfferForms)
		return
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropOffersLocked(now)
	if o, ok := s.webOffers[m.Offer]; ok {
		o.doubtful = o.doubtful || o.connectorID != connectorID
		s.webOffers[m.Offer] = o
		return
	}
	if len(s.webOffers) >= maxWebOffers {
		refuse(fmt.Sprintf("%d offers wait already", len(s.webOffers)))
		return
	}
	s.webOffers[m.Offer] = webOffer{connectorID: connectorID, origin: from.Origin, at: now}
	s.log.Info("a page offers its profile", "connector", connectorID, "origin", from.Origin)
}

func (s *Server) dropOffersLocked(now time.Time) {
	for k, o := range s.webOffers {
		if wire.Elapsed(o.at, now) >= webOfferLife {
			delete(s.webOffers, k)
		}
	}
}

// claimOffer attaches a session to the profile of an offer. An offer is good once.
func (s *Server) claimOffer(ctx context.Context, in ClaimParams) (WebRoute, error) {
	if _, err := checkSession(wire.Session{Key: in.Session}); err != nil {
		return WebRoute{}, err
	}
	if !wire.IsHex256(in.Offer) {
		return WebRoute{}, op.Invalidf("an offer is 64 hex digits, as the page made it")
	}
	refs, err := s.profiles.bound(ctx)
	if err != nil {
		return WebRoute{}, op.NotAvailable(op.StateUnreadable, "the paired browsers cannot be read: %s", err)
	}
	home, owns := s.home(in.Session)
	s.webMu.Lock()
	defer s.webMu.Unlock()
	r, o, oerr := s.takeOffer(in, refs, home, owns, time.Now())
	if oerr != nil {
		return r, oerr
	}
	if err := s.store.saveRoute(r); err != nil {
		s.mu.Lock()
		s.webOffers[in.Offer] = o
		s.mu.Unlock()
		return WebRoute{}, writeFailed(err)
	}
	s.mu.Lock()
	s.webRoutes[in.Session] = r
	s.mu.Unlock()
	s.log.Info("a session was attached", "session", in.Session, "connector", r.ConnectorID, "origin", r.Origin, "until", r.ExpiresAt)
	return r, nil
}

// takeOffer uses an offer up.
func (s *Server) takeOffer(in ClaimParams, refs []profileRef, home string, owns bool, now time.Time) (WebRoute, webOffer, *op.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropOffersLocked(now)
	o, ok := s.webOffers[in.Offer]
	if !ok {
		return WebRoute{}, o, op.Reject(op.PairingUnavailable, "there is no such offer: its page was not heard, or it was claimed, or is older than %s", webOfferLife).
			WithHint("Have the page offer its profile again. Only a profile that is paired and connected can be offered, and only by pages of %s.", joinWords(s.webOrigins))
	}
	if o.doubtful {
		return WebRoute{}, o, op.Reject(op.PairingUnavailable, "two profiles made this offer; none was attached").WithHint("Have the page make a number of its own for each profile.")
	}
	i := slices.IndexFunc(refs, func(r profileRef) bool { return r.ID == o.connectorID })
	if i < 0 || s.leaving[o.connectorID] {
		return WebRoute{}, o, op.NotAvailable(op.ConnectorNotBound, "the profile that was offered is not paired any more")
	}
	if owns && home != o.connectorID {
		return WebRoute{}, o, op.Reject(op.BrowserRequired, "session %q works in the browser %q and still has tabs there; it was not attached to %q", in.Session, labelOf(home, refs), refs[i].Label).
			WithHint("Close its tabs first: pi-chrome cleanup --session %s.", in.Session)
	}
	for _, c := range s.commands {
		// One that waits for a place has its profile already.
		if c.session.Key == in.Session && c.profile != nil && c.profile.ID() != o.connectorID && !c.free {
			return WebRoute{}, o, op.Reject(op.ConnectorBusy, "session %q has commands under way in another browser; it was not attached", in.Session).WithHint("Wait for them, or lock the session with pi-chrome revoke.")
		}
	}
	if _, again := s.webRoutes[in.Session]; !again && len(s.webRoutes) >= maxWebRoutes {
		return WebRoute{}, o, op.Reject(op.ConnectorBusy, "%d sessions are attached by pages already", len(s.webRoutes))
	}
	r := WebRoute{
		Session: in.Session, PairingID: wire.NewSecret()[:32], ConnectorID: o.connectorID, Label: refs[i].Label, Origin: o.origin,
		ClaimedAt: now.UTC(), ExpiresAt: now.Add(webLeaseLife).UTC(),
	}
	delete(s.webOffers, in.Offer)
	return r, o, nil
}

// detach ends a session's route, whether its lease runs or is over.
func (s *Server) detach(key string) (WebRoute, error) {
	s.webMu.Lock()
	defer s.webMu.Unlock()
	s.mu.Lock()
	r, ok := s.webRoutes[key]
	s.mu.Unlock()
	if !ok {
		return r, op.Reject(op.PairingUnavailable, "session %q is attached to no profile by a page", key)
	}
	if err := s.store.removeRoute(key); err != nil {
		return r, writeFailed(err)
	}
	s.mu.Lock()
	delete(s.webRoutes, key)
	s.mu.Unlock()
	return r, nil
}

// attached decides for a session that a page has attached; false for any
// other. There is no way around the route: neither --browser nor the only
// connected profile.
func (s *Server) attached(c *command, refs []profileRef) (ref profileRef, attached bool, err *op.Error) {
	s.mu.Lock()
	r, ok := s.webRoutes[c.session.Key]
	s.mu.Unlock()
	if !ok {
		return profileRef{}, false, nil
	}
	i := slices.IndexFunc(refs, func(ref profileRef) bool { return ref.ID == r.ConnectorID })
	why := ""
	switch {
	case i < 0:
		why = "is not paired any more"
	case !time.Now().Before(r.ExpiresAt):
		why = "was attached until " + r.ExpiresAt.Local().Format("2006-01-02 15:04")
	}
	if why != "" {
		return profileRef{}, true, op.NotAvailable(op.WebLeaseUnavailable, "session %q is attached to the browser %q, which %s; the command was not started and goes to no other browser", c.session.Key, r.Label, why).
			WithHint("Attach it again from the page at %s, or end that with pi-chrome detach --session %s.", r.Origin, c.session.Key).
			WithDetail("pairingId", r.PairingID)
	}
	if c.browser != "" {
		named, err := named(c.browser, refs)
		if err != nil {
			return named, true, err
		}
		if named.ID != r.ConnectorID {
			return named, true, op.Reject(op.BrowserRequired, "session %q is attached to the browser %q by the page at %s; nothing was done", c.session.Key, refs[i].Label, r.Origin).
				WithHint("End that first: pi-chrome detach --session %s.", c.session.Key).WithDetail("pairingId", r.PairingID)
		}
	}
	return refs[i], true, nil
}

// routeOf is the route of a session for status, nil for none.
func (s *Server) routeOf(key string) *WebRoute {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.webRoutes[key]; ok {
		return &r
	}
	return nil
}

func (s *store) saveRoute(r WebRoute) error {
	return s.update(func(tx *bolt.Tx) error { return putJSON(tx, bucketRoutes, r.Session, r) })
}

func (s *store) removeRoute(session string) error {
	return s.update(func(tx *bolt.Tx) error { return tx.Bucket(bucketRoutes).Delete([]byte(session)) })
}

// readRoutes reads the routes and drops those that ended long ago.
func readRoutes(tx *bolt.Tx, now time.Time) (map[string]WebRoute, error) {
	bucket, err := tx.CreateBucketIfNotExists(bucketRoutes)
	if err != nil {
		return nil, err
	}
	var all []WebRoute
	if err := readAll(tx, bucketRoutes, &all); err != nil {
		return nil, err
	}
	routes := map[string]WebRoute{}
	for _, r := range all {
		if now.Sub(r.ExpiresAt) > webRouteKept {
			if err := bucket.Delete([]byte(r.Session)); err != nil {
				return nil, err
			}
			continue
		}
		routes[r.Session] = r
	}
	return routes, nil
}

func joinWords(words []string) string {
	if len(words) == 0 {
		return "no origin"
	}
	text := words[0]
	for i, w := range words[1:] {
		if i == len(words)-2 {
			text += " and " + w
		} else {
			text += ", " + w
		}
	}
	return text
}
