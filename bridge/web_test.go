package bridge

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// message is what the extension passes on of a page's message.
func message(origin string, frame int, offer string) []json.RawMessage {
	return []json.RawMessage{
		json.RawMessage(fmt.Sprintf(`{"type":"pi-chrome/offer","version":1,"offer":%q}`, offer)),
		json.RawMessage(fmt.Sprintf(`{"origin":%q,"url":%q,"frameId":%d,"tabId":3}`, origin, origin+"/", frame)),
	}
}

const webPage = "http://localhost:30141"

// TestWebRoute attaches a session by a page's offer: it goes to that profile and
// no other, for twelve hours, and afterwards nowhere.
func TestWebRoute(t *testing.T) {
	bubble(t, func(t *testing.T) {
		work, home := newFakeBrowser("id-work", "Work"), newFakeBrowser("id-home", "Home")
		r := newRig(t, work, home)
		defer r.close()
		p := r.dial()
		defer p.close()
		time.Sleep(time.Minute)
		offer := wire.NewSecret()
		r.srv.external("id-home", message(webPage, 0, offer))
		var route WebRoute
		assert.NilError(t, p.ask("web.claim", ClaimParams{"default", offer}, &route))
		assert.Equal(t, route.ConnectorID, "id-home")
		assert.Equal(t, route.ExpiresAt.Sub(route.ClaimedAt), 12*time.Hour)
		assert.ErrorContains(t, p.ask("web.claim", ClaimParams{"other", offer}, nil), "there is no such offer")

		wantOK(t, p.do(cmd("1", "page.click", `{}`)))
		assert.Equal(t, len(home.tabs), 1)
		elsewhere := cmd("2", "page.click", `{}`)
		elsewhere.Browser = "Work"
		f := wantError(t, p.do(elsewhere), op.Rejected, op.BrowserRequired)
		assert.Equal(t, f.Details["pairingId"], route.PairingID)

		// Its browser away: it waits and fails, with the other one live.
		r.profiles.setLive(home, false)
		wantError(t, p.do(cmd("3", "page.click", `{}`)), op.Unavailable, op.ConnectorOffline)
		r.profiles.setLive(home, true)

		// An owner that is started again knows the route.
		r.crash()
		r.start()
		q := r.dial()
		defer q.close()
		wantOK(t, q.do(cmd("4", "page.click", `{}`)))
		time.Sleep(12 * time.Hour)
		f = wantError(t, q.do(cmd("5", "page.click", `{}`)), op.Unavailable, op.WebLeaseUnavailable)
		assert.Equal(t, f.Details["pairingId"], route.PairingID)
		assert.Check(t, strings.Contains(f.Hint, "pi-chrome detach"), f.Hint)
		assert.Equal(t, len(work.tabs), 0)
		var st Status
		assert.NilError(t, q.ask("status", SessionParams{"default"}, &st))
		assert.Equal(t, st.Session.Web.Origin, webPage)

		// Detached, it is a session like any other; a new offer attaches it.
		assert.NilError(t, q.ask("web.detach", SessionParams{"default"}, nil))
		assert.ErrorContains(t, q.ask("web.detach", SessionParams{"default"}, nil), "attached to no profile")
		wantOK(t, q.do(cmd("6", "page.click", `{}`)))
	})
}

// TestWebOffersThatAreNotTaken: other origins, frames, forms, an offer of two
// profiles, an old one, one too many, and a session that works elsewhere.
func TestWebOffersThatAreNotTaken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		work, home := newFakeBrowser("id-work", "Work"), newFakeBrowser("id-home", "Home")
		r := newRig(t, work, home)
		defer r.close()
		p := r.dial()
		defer p.close()
		time.Sleep(time.Minute)
		claim := func(session, offer string) error {
			return p.ask("web.claim", ClaimParams{session, offer}, nil)
		}
		good := wire.NewSecret()
		for _, args := range [][]json.RawMessage{
			message("http://localhost:30142", 0, good),
			message("https://localhost:30141", 0, good),
			message("http://localhost.example:30141", 0, good),
			message("null", 0, good),
			message(webPage, 7, good),
			message(webPage, 0, good[:63]),
			message(webPage, 0, good)[:1],
			nil,
			{json.RawMessage(fmt.Sprintf(`{"type":"pi-chrome/offer","version":1,"offer":%q,"more":%q}`, good, strings.Repeat("x", maxWebMessage))), message(webPage, 0, good)[1]},
			{json.RawMessage(`"x"`), message(webPage, 0, good)[1]},
			{message(webPage, 0, good)[0], json.RawMessage(`{"origin":"http://localhost:30141"}`)},
		} {
			r.srv.external("id-work", args)
		}
		assert.ErrorContains(t, claim("a", good), "there is no such offer")
		assert.ErrorContains(t, claim("a", "short"), "64 hex digits")
		assert.ErrorContains(t, claim("", good), "names no session")

		r.srv.external("id-work", message(webPage, 0, good))
		r.srv.external("id-home", message(webPage, 0, good))
		assert.ErrorContains(t, claim("a", good), "two profiles made this offer")

		old := wire.NewSecret()
		r.srv.external("id-work", message("http://127.0.0.1:30141", 0, old))
		time.Sleep(webOfferLife)
		assert.ErrorContains(t, claim("a", old), "older than 2m0s")

		var last string
		for range maxWebOffers + 1 {
			last = wire.NewSecret()
			r.srv.external("id-work", message(webPage, 0, last))
		}
		assert.ErrorContains(t, claim("a", last), "there is no such offer")
		time.Sleep(webOfferLife)

		busy := cmd("1", "page.click", `{}`)
		busy.Browser = "Home"
		wantOK(t, p.do(busy))
		offer := wire.NewSecret()
		r.srv.external("id-work", message(webPage, 0, offer))
		assert.ErrorContains(t, claim("default", offer), `works in the browser "Home" and still has tabs there`)
		assert.NilError(t, p.ask("cleanup", SessionParams{"default"}, nil))
		assert.NilError(t, claim("default", offer))
		wantOK(t, p.do(cmd("2", "page.click", `{}`)))
		assert.Equal(t, len(work.tabs), 1)
	})
}

func TestWebOriginsAreChecked(t *testing.T) {
	for origin, ok := range map[string]bool{
		"http://localhost:30141": true, "http://127.0.0.1:8080": true, "http://localhost": false, "https://localhost:1": false,
		"http://example.org:80": false, "http://localhost:30141/": false, "": false, "http://u@localhost:1": false,
	} {
		assert.Equal(t, checkWebOrigin(origin) == nil, ok, origin)
	}
}
