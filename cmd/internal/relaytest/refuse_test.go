package relaytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/coder/websocket"
	"gotest.tools/v3/assert"

	"pi-chrome/bridge"
	"pi-chrome/bridge/wire"
	"pi-chrome/cmd/internal/install"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/direct"
	"pi-chrome/driver/drivertest"
	"pi-chrome/extension"
)

func TestRefusals(t *testing.T) {
	t.Parallel()
	l := Start(t, false)
	t.Run("a web page", func(t *testing.T) { pageRefused(t, l) })
	t.Run("a name that was bound anew", func(t *testing.T) { reboundRefused(t, l) })
	t.Run("a late proof", func(t *testing.T) { lateProof(t, l) })
	t.Run("wrong and replayed proofs", func(t *testing.T) { wrongProofs(t, l) })
	t.Run("another secret", func(t *testing.T) { anotherSecret(t, l) })
	t.Run("other extensions", func(t *testing.T) { otherExtensions(t, l) })
	t.Run("tokens", func(t *testing.T) { tokens(t, l) })
}

// doctor is what pi-chrome doctor says, whatever it finds.
func (l *Lane) doctor(t testing.TB) string {
	t.Helper()
	exe, err := owner.Executable()
	assert.NilError(t, err)
	cmd := exec.Command(exe)
	cmd.Args = []string{"pi-chrome", "doctor"}
	cmd.Env = append(os.Environ(), l.Env()...)
	out, err := cmd.Output()
	if _, ok := errors.AsType[*exec.ExitError](err); !ok {
		assert.NilError(t, err)
	}
	return string(out)
}

// pageRefused has a page of another site ask every route in every way that a
// page has. Each is refused, and the page learns nothing.
func pageRefused(t *testing.T, l *Lane) {
	p, err := l.Browser.NewPage(t.Context(), nil)
	assert.NilError(t, err)
	drivertest.Goto(t, p, l.Cross+"/counter/click.html")
	statuses, stop := p.Subscribe(network.ResponseReceivedExtraInfo.Method)
	defer stop()
	sockets, stop2 := p.Subscribe(network.WebSocketFrameError.Method)
	defer stop2()
	_, err = cdp.Call(t.Context(), p, network.Enable, network.EnableParams{})
	assert.NilError(t, err)
	base := fmt.Sprintf("127.0.0.1:%d", l.Port)
	asks := []string{
		`fetch("http://HOST/PATH").then((r) => r.text(), () => "refused")`,
		`fetch("http://HOST/PATH", {mode: "no-cors", credentials: "include"}).then((r) => r.text(), () => "refused").then((t) => t || "refused")`,
		`fetch("http://HOST/PATH", {method: "POST", mode: "no-cors", body: "{}"}).then((r) => r.text(), () => "refused").then((t) => t || "refused")`,
		`new Promise((done) => { const i = new Image(); i.onload = () => done("loaded"); i.onerror = () => done("refused"); i.src = "http://HOST/PATH"; })`,
		`new Promise((done) => { const s = new WebSocket("ws://HOST/PATH"); s.onopen = () => done("open"); s.onerror = () => done("refused"); })`,
	}
	n := 0
	for _, path := range []string{"owner", "connector", "pairing", "popup", "health"} {
		for _, ask := range asks {
			ask = strings.NewReplacer("HOST", base, "PATH", path).Replace(ask)
			assert.Equal(t, pageEval(t, p, ask), "refused", ask)
			if !strings.Contains(ask, "WebSocket") {
				n++
				continue
			}
			select {
			case raw := <-sockets:
				assert.Assert(t, strings.Contains(string(raw), "403"), "%s: %s", ask, raw)
			case <-time.After(10 * time.Second):
				t.Fatalf("%s: no answer", ask)
			}
		}
	}
	// What Chrome saw of the answers: none of them gave anything.
	icon := "" // Chrome asks for the page's icon too
	for n > 0 {
		var e struct {
			RequestID  string            `json:"requestId"`
			StatusCode int               `json:"statusCode"`
			Headers    map[string]string `json:"headers"`
		}
		select {
		case raw := <-statuses:
			assert.NilError(t, json.Unmarshal(raw, &e))
			if strings.Contains(e.Headers["Location"], "favicon") {
				icon = e.RequestID
			}
			if e.RequestID == icon {
				continue
			}
			assert.Assert(t, e.StatusCode >= 400 && e.StatusCode < 500, "an answer of %d: %s", e.StatusCode, raw)
			n--
		case <-time.After(10 * time.Second):
			t.Fatalf("%d answers never came", n)
		}
	}
	told := l.doctor(t)
	assert.Assert(t, strings.Contains(told, fmt.Sprintf("the origin %q is not the extension's", l.Cross)), told)
	res, err := http.Get("http://" + base + "/health") // a program may ask
	assert.NilError(t, err)
	assert.NilError(t, res.Body.Close())
	assert.Equal(t, res.StatusCode, http.StatusOK)
}

// reboundRefused: a page that had its own name lead to this machine sends that
// name.
func reboundRefused(t *testing.T, l *Lane) {
	for _, path := range []string{"/health", "/owner", "/connector", "/pairing", "/popup"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", l.Port, path), nil)
		assert.NilError(t, err)
		req.Host = fmt.Sprintf("evil.example:%d", l.Port)
		res, err := http.DefaultClient.Do(req)
		assert.NilError(t, err)
		assert.NilError(t, res.Body.Close())
		assert.Equal(t, res.StatusCode, http.StatusForbidden, path)
	}
}

// impostor is a program that speaks the extension's side by hand, with the
// extension's origin.
type impostor struct {
	t     testing.TB
	sock  *websocket.Conn
	hello wire.Hello
	asked wire.Challenge
}

// pretend connects as the profile of the lane's browser and takes the
// challenge, if one comes; else it returns the refusal.
func pretend(t testing.TB, l *Lane, change func(*wire.Hello)) (*impostor, *wire.Refused) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	sock, _, err := websocket.Dial(ctx, fmt.Sprintf("ws://127.0.0.1:%d/connector", l.Port),
		&websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"chrome-extension://" + extension.ID}}})
	assert.NilError(t, err)
	t.Cleanup(func() { _ = sock.CloseNow() })
	i := &impostor{t: t, sock: sock, hello: wire.Hello{
		Type: wire.TypeHello, Version: wire.Version, Fingerprint: wire.Fingerprint(), ConnectorID: l.profile(t).ID, ExtensionID: extension.ID,
		DisplayVersion: "0.1.0", Label: "Impostor", Browser: wire.Browser{Family: "chromium", Version: "156"},
		BrowserEpoch: wire.NewSecret(), WorkerID: wire.NewSecret()[:32], ClientNonce: wire.NewSecret(), Capabilities: wire.Capabilities{FlatSessions: true},
		Resume: wire.Resume{FirstSeq: 1},
	}}
	if change != nil {
		change(&i.hello)
	}
	switch f := i.exchange(i.hello).(type) {
	case *wire.Challenge:
		i.asked = *f
		return i, nil
	case *wire.Refused:
		return nil, f
	default:
		t.Fatalf("the owner answered with a %T", f)
		return nil, nil
	}
}

// exchange sends a frame and reads the answer.
func (i *impostor) exchange(f any) any {
	i.t.Helper()
	ctx, cancel := context.WithTimeout(i.t.Context(), 10*time.Second)
	defer cancel()
	if f != nil {
		raw, err := wire.Encode(f)
		assert.NilError(i.t, err)
		assert.NilError(i.t, i.sock.Write(ctx, websocket.MessageText, raw))
	}
	_, raw, err := i.sock.Read(ctx)
	assert.NilError(i.t, err)
	v, err := wire.DecodeForExtension(raw)
	assert.NilError(i.t, err)
	return v
}

// proof is the proof of the challenge with the secret.
func (i *impostor) proof(secret string) string {
	proof, err := wire.SocketProof(wire.ScopeConnector, secret, i.hello.Identity(), i.asked.BridgeEpoch, i.asked.RequestNonce, i.hello.Fingerprint)
	assert.NilError(i.t, err)
	return proof
}

// refused sends a frame, or nothing, and returns the refusal that must come.
func (i *impostor) refused(f any) *wire.Refused {
	i.t.Helper()
	r, ok := i.exchange(f).(*wire.Refused)
	assert.Assert(i.t, ok, "it was not refused")
	return r
}

// profile is the lane's one profile as the owner sees it.
func (l *Lane) profile(t testing.TB) bridge.ProfileStatus {
	t.Helper()
	c, err := l.Dial(t.Context())
	assert.NilError(t, err)
	defer c.Close()
	st, err := owner.Status(t.Context(), c, "")
	assert.NilError(t, err)
	assert.Equal(t, len(st.Profiles), 1)
	return st.Profiles[0]
}

// identity is what the extension has stored of itself.
type identity struct {
	ConnectorID string `json:"connectorId"`
	Secret      string `json:"secret"`
}

func (w *worker) identity(t testing.TB) identity {
	t.Helper()
	var id identity
	assert.NilError(t, w.eval(t.Context(), `chrome.storage.local.get("piChromeConnectorIdentity").then((all) => all.piChromeConnectorIdentity)`, &id))
	return id
}

func (w *worker) setIdentity(t testing.TB, id identity) {
	t.Helper()
	raw, err := json.Marshal(id)
	assert.NilError(t, err)
	assert.NilError(t, w.eval(t.Context(), fmt.Sprintf(`chrome.storage.local.set({piChromeConnectorIdentity: %s})`, raw), nil))
}

func wrongProofs(t *testing.T, l *Lane) {
	secret := (&worker{browser: l.Browser}).identity(t).Secret
	assert.Assert(t, wire.IsHex256(secret))
	generation := l.profile(t).Generation

	t.Run("a guess", func(t *testing.T) {
		i, no := pretend(t, l, nil)
		assert.Assert(t, no == nil)
		r := i.refused(wire.Prove{Type: wire.TypeProve, Proof: i.proof(wire.NewSecret())})
		assert.Equal(t, r.Code, wire.RefuseProof)
		assert.Assert(t, r.Message != "")
	})
	t.Run("a proof that was heard before", func(t *testing.T) {
		first, no := pretend(t, l, nil)
		assert.Assert(t, no == nil)
		heard := wire.Prove{Type: wire.TypeProve, Proof: first.proof(secret)}
		second, no := pretend(t, l, func(h *wire.Hello) { *h = first.hello })
		assert.Assert(t, no == nil)
		assert.Assert(t, second.asked.RequestNonce != first.asked.RequestNonce)
		assert.Equal(t, second.refused(heard).Code, wire.RefuseProof)
	})
	t.Run("another fingerprint", func(t *testing.T) {
		_, no := pretend(t, l, func(h *wire.Hello) { h.Fingerprint = wire.NewSecret() })
		assert.Assert(t, no != nil)
		assert.Equal(t, no.Code, wire.RefuseFingerprint)
	})
	t.Run("another version", func(t *testing.T) {
		_, no := pretend(t, l, func(h *wire.Hello) { h.Version++ })
		assert.Assert(t, no != nil)
		assert.Equal(t, no.Code, wire.RefuseVersion)
	})
	t.Run("an unknown profile", func(t *testing.T) {
		_, no := pretend(t, l, func(h *wire.Hello) { h.ConnectorID = "11111111-2222-4333-8444-555555555555" })
		assert.Assert(t, no != nil)
		assert.Equal(t, no.Code, wire.RefuseUnknown)
		told := l.doctor(t)
		assert.Assert(t, strings.Contains(told, `the profile "Impostor" on /connector`) && strings.Contains(told, no.Message), told)
	})
	t.Run("a copy with the right proof", func(t *testing.T) {
		i, no := pretend(t, l, nil)
		assert.Assert(t, no == nil)
		assert.Equal(t, i.refused(wire.Prove{Type: wire.TypeProve, Proof: i.proof(secret)}).Code, wire.RefuseDuplicate)
	})
	// The real one has kept its connection through all of it.
	p := l.profile(t)
	assert.Assert(t, p.Live)
	assert.Equal(t, p.Generation, generation)
}

// lateProof: a nonce is good for five seconds.
func lateProof(t *testing.T, l *Lane) {
	t.Parallel() // it only waits
	i, no := pretend(t, l, nil)
	assert.Assert(t, no == nil)
	assert.Equal(t, i.refused(nil).Code, wire.RefuseNonceOld)
}

// says waits until the popup says the text.
func says(t testing.TB, popup *direct.Page, text string) {
	t.Helper()
	shown := ""
	until(t, 15*time.Second, "the popup does not say "+text, func() bool {
		// The popup writes its own name with an unbroken hyphen.
		shown = strings.ReplaceAll(pageEval(t, popup, `document.querySelector("main").innerText`), "\u2011", "-")
		return strings.Contains(shown, text)
	})
}

// anotherSecret: an owner that does not prove the profile's secret is left, and
// the popup says so; with the right one the profile is back.
func anotherSecret(t *testing.T, l *Lane) {
	w := &worker{browser: l.Browser}
	popup := l.openPopup(t)
	right := w.identity(t)
	w.setIdentity(t, identity{right.ConnectorID, wire.NewSecret()})
	connect := `chrome.runtime.sendMessage({do: "connect"}).then(() => "")`
	pageEval(t, popup, connect)
	says(t, popup, "Something else holds the port")
	w.setIdentity(t, right)
	pageEval(t, popup, connect)
	says(t, popup, "Ready")
	l.live(t)
}

// elsewhere starts another browser with an extension folder of its own, which
// leads to the lane's owner, and returns the browser and its popup.
//
// change may change the folder; it returns the id that the extension has then,
// "" for one that Chrome makes.
func elsewhere(t testing.TB, l *Lane, change func(dir string) (id string)) (*direct.Browser, *direct.Page) {
	t.Helper()
	dir := t.TempDir()
	_, err := install.Folder{Dir: dir}.Write(l.Port)
	assert.NilError(t, err)
	id := extension.ID
	if change != nil {
		id = change(dir)
	}
	b, err := direct.Launch(t.Context(), &direct.Options{ExtensionDir: dir})
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, b.Close()) })
	// Once its worker runs the extension is there.
	until(t, 15*time.Second, "the extension has not started", func() bool {
		info, err := b.Worker(t.Context(), "chrome-extension://"+id)
		if err == nil {
			id = strings.Split(info.URL, "/")[2]
		}
		return err == nil
	})
	return b, popupOf(t, b, id)
}

// rewrite changes a file of an extension folder.
func rewrite(t testing.TB, path string, change func(string) string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	assert.NilError(t, err)
	next := change(string(raw))
	assert.Assert(t, next != string(raw), "%s is as it was", path)
	assert.NilError(t, os.WriteFile(path, []byte(next), 0o600))
}

func otherExtensions(t *testing.T, l *Lane) {
	t.Run("another id", func(t *testing.T) {
		_, popup := elsewhere(t, l, func(dir string) string {
			rewrite(t, filepath.Join(dir, "manifest.json"), func(text string) string {
				var m map[string]any
				assert.NilError(t, json.Unmarshal([]byte(text), &m))
				delete(m, "key")
				raw, err := json.Marshal(m)
				assert.NilError(t, err)
				return string(raw)
			})
			rewrite(t, filepath.Join(dir, "bridge.json"), func(string) string {
				return fmt.Sprintf(`{"port":%d,"pairingToken":"%032d"}`, l.Port, 7)
			})
			return ""
		})
		id := pageEval(t, popup, "chrome.runtime.id")
		until(t, 15*time.Second, "doctor does not tell of it", func() bool {
			return strings.Contains(l.doctor(t), fmt.Sprintf("the origin %q is not the extension's", "chrome-extension://"+id))
		})
		assert.Assert(t, !strings.Contains(pageEval(t, popup, "document.body.innerText"), "Ready"))
	})
	t.Run("another contract", func(t *testing.T) {
		_, popup := elsewhere(t, l, func(dir string) string {
			rewrite(t, filepath.Join(dir, "contract.js"), func(text string) string {
				return strings.Replace(text, `"debugger.attach"`, `"debugger.attach", "tabs.captureVisibleTab"`, 1)
			})
			return extension.ID
		})
		pageEval(t, popup, fmt.Sprintf(`chrome.runtime.sendMessage({do: "pair", token: "%032d"}).then(() => "")`, 7))
		says(t, popup, "The releases do not match")
		assert.Assert(t, strings.Contains(l.doctor(t), "different builds"), l.doctor(t))
	})
}

// typeToken types a token into the popup as a user does.
func typeToken(t testing.TB, popup *direct.Page, token string) {
	t.Helper()
	pageEval(t, popup, fmt.Sprintf(`(() => { token.value = %q; token.dispatchEvent(new Event("input")); pair.click(); return ""; })()`, token))
}

// tokens: what a second profile hears of a token that does not pair it, and
// what becomes of a copied profile.
func tokens(t *testing.T, l *Lane) {
	c, err := l.Dial(t.Context())
	assert.NilError(t, err)
	defer c.Close()
	second, popup := elsewhere(t, l, nil)
	mine := l.openPopup(t)
	says(t, popup, "Pair this profile")

	_, err = owner.StartPairing(t.Context(), c, bridge.PairingOptions{})
	assert.NilError(t, err)
	typeToken(t, popup, strings.Repeat("0123", 8))
	says(t, popup, "That token does not fit")
	assert.NilError(t, owner.CancelPairing(t.Context(), c))
	typeToken(t, popup, strings.Repeat("0123", 8))
	says(t, popup, "No pairing is under way")

	// The first profile takes the token; the second comes too late.
	pairing, err := owner.StartPairing(t.Context(), c, bridge.PairingOptions{})
	assert.NilError(t, err)
	before := (&worker{browser: l.Browser}).identity(t)
	pageEval(t, mine, fmt.Sprintf(`chrome.runtime.sendMessage({do: "pair", token: %q}).then(() => "")`, pairing.Token))
	says(t, mine, "Ready")
	until(t, 15*time.Second, "the first profile has the secret of its older pairing", func() bool {
		return (&worker{browser: l.Browser}).identity(t).Secret != before.Secret
	})
	typeToken(t, popup, pairing.Token)
	says(t, popup, "The token was used already")
	st, err := owner.Status(t.Context(), c, "")
	assert.NilError(t, err)
	assert.Equal(t, len(st.Profiles), 1)
	// A copy of the first profile is told that it is one, and becomes another.
	w := &worker{browser: second}
	w.setIdentity(t, (&worker{browser: l.Browser}).identity(t))
	pageEval(t, popup, `chrome.runtime.sendMessage({do: "connect"}).then(() => "")`)
	says(t, popup, "This profile is a copy")
	pageEval(t, popup, `(document.getElementById("new-identity").click(), "")`)
	says(t, popup, "Pair this profile")
	assert.Assert(t, l.profile(t).Live)
}
