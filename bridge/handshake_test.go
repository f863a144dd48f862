package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
)

// TestRefusals: each wrong client is told why, by code, and status shows it.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		tamper func(*wire.Hello)
		proof  func(string) string
		want   wire.RefusalCode
		hint   string
	}{
		"another version":      {tamper: func(h *wire.Hello) { h.Version = 2 }, want: wire.RefuseVersion, hint: "extension install"},
		"another contract":     {tamper: func(h *wire.Hello) { h.Fingerprint = strings.Repeat("0", 64) }, want: wire.RefuseFingerprint, hint: "extension install"},
		"another extension":    {tamper: func(h *wire.Hello) { h.ExtensionID = strings.Repeat("a", 32) }, want: wire.RefuseMalformed, hint: "not pi-chrome's"},
		"not paired":           {tamper: func(h *wire.Hello) { h.ConnectorID = "99999999-2222-4333-8444-555555555555" }, want: wire.RefuseUnknown, hint: "onboard"},
		"malformed":            {tamper: func(h *wire.Hello) { h.ClientNonce = "" }, want: wire.RefuseMalformed, hint: "clientNonce"},
		"wrong proof":          {proof: func(string) string { return strings.Repeat("0", 64) }, want: wire.RefuseProof, hint: "onboard"},
		"proof of another":     {proof: func(p string) string { return p[32:] + p[:32] }, want: wire.RefuseProof, hint: "onboard"},
		"proof in upper case":  {proof: strings.ToUpper, want: wire.RefuseMalformed, hint: "proof"},
		"call that never was":  {tamper: nil, want: ""},
		"label is not a label": {tamper: func(h *wire.Hello) { h.Label = "\n" }, want: wire.RefuseMalformed, hint: "label"},
	} {
		t.Run(name, func(t *testing.T) {
			conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
				w := p.worker()
				w.tamper, w.proof = c.tamper, c.proof
				w.open()
				if c.want == "" {
					assert.Check(t, w.refusal == nil)
					return
				}
				assert.Assert(t, w.refusal != nil)
				assert.Equal(t, w.refusal.Code, c.want)
				assert.Check(t, strings.Contains(w.refusal.Message, c.hint), w.refusal.Message)
				<-w.served
				records := p.relay.Refusals()
				assert.Equal(t, len(records), 1)
				assert.Equal(t, records[0].Code, c.want)
				assert.Equal(t, records[0].Path, "/connector")
			})
		})
	}
}

// TestReplayedHandshake: what an eavesdropper recorded proves nothing, since
// the owner's nonce is another.
//
// Invariant 9 of the design.
func TestReplayedHandshake(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker()
		var hello wire.Hello
		var proof string
		w.tamper = func(h *wire.Hello) { hello = *h }
		w.proof = func(s string) string { proof = s; return s }
		w.open()
		w.drop()
		thief := p.worker()
		thief.tamper = func(h *wire.Hello) { *h = hello }
		thief.proof = func(string) string { return proof }
		thief.open()
		assert.Equal(t, thief.refusal.Code, wire.RefuseProof)
	})
}

// TestLateProof: a nonce lives five seconds, and a peer that says nothing is
// let go of.
func TestLateProof(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker()
		w.proof = func(s string) string { time.Sleep(wire.NonceTTL + time.Millisecond); return s }
		w.open()
		assert.Equal(t, w.refusal.Code, wire.RefuseNonceOld)

		w = p.worker()
		w.tamper = func(*wire.Hello) { time.Sleep(4 * time.Second) }
		w.open()
		assert.Equal(t, w.refusal.Code, wire.RefuseMalformed)
		assert.Check(t, strings.Contains(w.refusal.Message, "No hello within 3s"))
		<-w.served
		assert.Equal(t, p.relay.nonces[wire.ScopeConnector].Len(), 0)
	})
}

// TestEvictedNonce: with too many handshakes waiting, the oldest nonce is
// dropped and told as used.
func TestEvictedNonce(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker()
		w.proof = func(s string) string {
			for range wire.MaxPendingNonces {
				p.relay.nonces[wire.ScopeConnector].Issue(time.Now())
			}
			return s
		}
		w.open()
		assert.Equal(t, w.refusal.Code, wire.RefuseNonceUsed)
	})
}

// TestTooManyHandshakes: who says hello and nothing more makes room for who
// proves itself, is told so, and keeps nobody out.
func TestTooManyHandshakes(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		var silent []*fakeWorker
		var opened sync.WaitGroup
		for range maxHandshakes {
			w := p.worker()
			w.proof = func(proof string) string { time.Sleep(10 * time.Second); return proof }
			silent = append(silent, w)
			opened.Go(func() { w.open() })
			synctest.Wait()
		}
		w := p.worker().open()
		assert.Check(t, w.refusal == nil, "%v", w.refusal)
		opened.Wait()
		crowded := 0
		for _, w := range silent {
			if w.refusal.Code == wire.RefuseCrowded {
				crowded++
			}
		}
		assert.Equal(t, crowded, 1)
		assert.Equal(t, silent[0].refusal.Code, wire.RefuseCrowded)
		p.relay.mu.Lock()
		defer p.relay.mu.Unlock()
		assert.Equal(t, len(p.relay.guests), 0)
	})
}

func TestTooManySockets(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		for range maxSockets {
			assert.Check(t, p.relay.enter())
		}
		assert.Equal(t, string(p.worker().open().refusal.Code), "http-503")
		for range maxSockets {
			p.relay.leave()
		}
		assert.Check(t, p.worker().open().refusal == nil)
	})
}

// TestSameBrowserReplaces: the worker opened another socket.
func TestSameBrowserReplaces(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		tab := p.attachedTab(1)
		first := w.sock
		served := w.served
		w.mu.Lock()
		w.online = false
		w.mu.Unlock()
		w.open()
		<-served
		assert.Equal(t, w.ready.Generation, 2)
		_, err := first.Read(context.Background())
		assert.ErrorIs(t, err, errMemClosed)
		assert.NilError(t, evaluate(t.Context(), tab))

		// So does another worker of the same browser.
		second := p.worker().open()
		assert.Equal(t, second.ready.Generation, 3)
		<-w.served
		assert.NilError(t, tab.Attach(t.Context()))
		assert.NilError(t, evaluate(t.Context(), tab))
	})
}

// TestFramesOfAnOlderConnectionAreDropped.
func TestFramesOfAnOlderConnectionAreDropped(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		tab := p.attachedTab(1)
		var heard recorder
		tab.Listen(heard.listen)
		old := w.sock
		w.drop()
		w.open()
		frame, err := wire.Encode(wire.EventFrame{Seq: 1000, Event: "debugger.onEvent", Args: []json.RawMessage{
			json.RawMessage(`{"tabId":1}`), json.RawMessage(`"Page.stale"`)}})
		assert.NilError(t, err)
		assert.ErrorIs(t, old.Write(t.Context(), frame), errMemClosed)
		assert.NilError(t, evaluate(t.Context(), tab))
		assert.Equal(t, len(heard.heard()), 0)
	})
}

// TestCopiedProfileIsRefused: the same identity in another browser, while the
// first lives.
func TestCopiedProfileIsRefused(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		copied := p.worker()
		copied.tamper = func(h *wire.Hello) { h.BrowserEpoch = "browser-copy" }
		copied.open()
		assert.Assert(t, copied.refusal != nil)
		assert.Equal(t, copied.refusal.Code, wire.RefuseDuplicate)
		assert.NilError(t, evaluate(t.Context(), p.attachedTab(1)))

		// The first is only a socket that nobody holds any more.
		w.mu.Lock()
		w.pongs, w.online = false, false
		w.mu.Unlock()
		start := time.Now()
		p.epoch = "browser-2"
		fresh := p.worker().open()
		assert.Check(t, fresh.refusal == nil)
		assert.Check(t, time.Since(start) <= 2*time.Second)
		<-w.served
	})
}

func TestResumeThatCannotBe(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		w.drop()
		w.mu.Lock()
		w.lastCall = 1_000_000
		w.mu.Unlock()
		w.open()
		assert.Equal(t, w.refusal.Code, wire.RefuseMalformed)
	})
}

// TestAnotherOwnerInBetween: the worker spoke to another owner since, so what
// we asked it is lost.
func TestAnotherOwnerInBetween(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		p.attachedTab(1)
		w.drop()
		w.mu.Lock()
		w.epoch, w.kept, w.seq, w.lastCall = strings.Repeat("9", 64), nil, 0, 3
		w.mu.Unlock()
		w.open()
		assert.Check(t, w.refusal == nil)
		assert.Equal(t, w.ready.Ack, uint64(0))
		assert.NilError(t, evaluate(t.Context(), p.attachedTab(1)))
	})
}

func TestUnreadableBindings(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		store := p.relay.bindings.(*memBindings)
		store.mu.Lock()
		store.fail = errors.New("the disk is gone")
		store.mu.Unlock()
		w := p.worker().open()
		assert.Equal(t, w.refusal.Code, wire.RefuseUnknown)
		assert.Check(t, strings.Contains(w.refusal.Message, "doctor"))
		assert.Check(t, !strings.Contains(w.refusal.Message, p.secret))
		_, err := NewRelay(RelayOptions{ExtensionID: pinnedExtension, Bindings: store})
		assert.ErrorContains(t, err, "the disk is gone")
	})
}

// TestBindingFollowsTheProfile: the id of a profile is not that of the package,
// and the version that people see is not the contract's fingerprint.
//
// Invariant 1 of the design.
func TestBindingFollowsTheProfile(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		p.label = "Renamed"
		p.worker().open()
		b, ok, err := p.relay.bindings.Binding(t.Context(), p.id)
		assert.NilError(t, err)
		assert.Check(t, ok)
		assert.Equal(t, b.Label, "Renamed")
		assert.Equal(t, b.Fingerprint, wire.Fingerprint())
		assert.Equal(t, b.ExtensionID, pinnedExtension)
		assert.Check(t, b.ConnectorID != b.ExtensionID && b.DisplayVersion != b.Fingerprint)
		assert.Equal(t, b.Secret, p.secret)
		assert.Equal(t, p.connector().Label(), "Renamed")
		assert.NilError(t, p.connector().WaitLive(t.Context()))
		info := p.connector().Info()
		assert.Check(t, info.Live && info.Browser.Family == "chromium" && !info.ConnectedAt.IsZero())
	})
}

func TestHooksOfLiveness(t *testing.T) {
	var heard recorder
	hooks := Hooks{
		Live:    func(*Connector) { heard.add("live") },
		Offline: func(*Connector) { heard.add("offline") },
		Reset:   func(_ context.Context, _ *Connector, r ResetReason) { heard.add(string(r)) },
	}
	conversation(t, hooks, func(t *testing.T, p *fakeProfile) {
		changed := p.relay.Changed()
		w := p.worker().open()
		<-changed
		synctest.Wait()
		w.drop()
		synctest.Wait()
		w.open()
		synctest.Wait()
		w.kill()
		p.worker().open()
		synctest.Wait()
		assert.DeepEqual(t, heard.heard(), []string{"first", "live", "offline", "live", "offline", "worker", "live"})
	})
}

// TestResetThatIsInterrupted is done again by the next connection.
func TestResetThatIsInterrupted(t *testing.T) {
	var heard recorder
	hang := true
	hooks := Hooks{Reset: func(ctx context.Context, _ *Connector, r ResetReason) {
		heard.add(string(r))
		if hang {
			<-ctx.Done()
		}
	}}
	conversation(t, hooks, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		synctest.Wait()
		assert.Check(t, !p.connector().Live())
		w.drop()
		synctest.Wait()
		hang = false
		w.open()
		assert.NilError(t, p.connector().WaitLive(t.Context()))
		assert.DeepEqual(t, heard.heard(), []string{"first", "first"})

		// Targets that cannot be read end the connection, which tries again.
		w.kill()
		p.play(func(*fakeWorker, string, []json.RawMessage) (any, error) { return nil, errNoAnswer })
		next := p.worker().open()
		<-next.served
		assert.Check(t, !p.connector().Live())
	})
}

// TestForgottenDuringTheHandshake: a profile that is unpaired while it proves
// itself does not come back.
func TestForgottenDuringTheHandshake(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker()
		w.proof = func(s string) string { p.relay.Forget(p.id); return s }
		w.open()
		assert.Equal(t, w.refusal.Code, wire.RefuseUnknown)
		_, ok, err := p.relay.bindings.Binding(t.Context(), p.id)
		assert.NilError(t, err)
		assert.Check(t, !ok)
		assert.Equal(t, len(p.relay.Connectors()), 0)
	})
}
