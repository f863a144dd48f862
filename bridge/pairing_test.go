package bridge

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// stranger is a profile that is not paired.
func stranger(t testing.TB, r *Relay, label string) *fakeProfile {
	p := newProfile(t, r)
	assert.NilError(t, r.bindings.RemoveBinding(t.Context(), p.id))
	p.label, p.secret = label, ""
	return p
}

// pair offers the profile with the token and returns its worker.
func (p *fakeProfile) pair(token string) *fakeWorker {
	return p.worker().openScope(wire.ScopePairing, token)
}

func TestPairWithTypedToken(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		r := p.relay
		one := stranger(t, r, "One")
		two := stranger(t, r, "Two")
		assert.Equal(t, r.Pairing().Status().State, PairingIdle)
		assert.Equal(t, one.pair(wire.NewToken()).refusal.Code, wire.RefuseNoPairing)

		s, err := r.Pairing().Start(PairingOptions{})
		assert.NilError(t, err)
		assert.Check(t, regexp.MustCompile(`^[0-9A-F]{32}$`).MatchString(s.Token))
		assert.Equal(t, time.Until(s.ExpiresAt), 120*time.Second)
		assert.Equal(t, r.Pairing().Status().Token, "", "the token is shown again")

		start := time.Now()
		w := one.pair(s.Token)
		assert.Check(t, w.refusal == nil)
		assert.Equal(t, time.Since(start), time.Duration(0))
		done, err := r.Pairing().Wait(t.Context())
		assert.NilError(t, err)
		assert.Equal(t, done.State, PairingDone)
		assert.Equal(t, done.Paired[0].Label, "One")
		b, ok, err := r.bindings.Binding(t.Context(), one.id)
		assert.NilError(t, err)
		assert.Check(t, ok && b.Secret == one.secret && wire.IsHex256(b.Secret) && !b.PairedAt.IsZero())
		assert.Check(t, one.worker().open().refusal == nil)
		assert.NilError(t, evaluate(t.Context(), one.attachedTab(1)))

		// The token is good once.
		assert.Equal(t, two.pair(s.Token).refusal.Code, wire.RefuseTokenUsed)
		assert.Check(t, strings.Contains(r.Refusals()[0].Message, "onboard"))
	})
}

// TestWrongTokenLeavesThePairingOpen.
func TestWrongTokenLeavesThePairingOpen(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		one := stranger(t, p.relay, "One")
		s, err := p.relay.Pairing().Start(PairingOptions{})
		assert.NilError(t, err)
		w := one.worker()
		w.proof = func(string) string { return strings.Repeat("0", 64) }
		w.openScope(wire.ScopePairing, s.Token)
		assert.Equal(t, w.refusal.Code, wire.RefuseProof)
		assert.Check(t, strings.Contains(w.refusal.Message, "token"))
		assert.Check(t, one.pair(s.Token).refusal == nil)
	})
}

func TestTokenExpires(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		one := stranger(t, p.relay, "One")
		s, err := p.relay.Pairing().Start(PairingOptions{Folder: true, Profiles: 2})
		assert.NilError(t, err)
		time.Sleep(118 * time.Second)
		late := make(chan *fakeWorker, 1)
		go func() { late <- one.pair(s.Token) }()
		assert.Equal(t, (<-late).refusal.Code, wire.RefuseTokenOld)
		done, err := p.relay.Pairing().Wait(t.Context())
		assert.NilError(t, err)
		assert.Equal(t, done.State, PairingExpired)
		assert.Equal(t, one.pair(s.Token).refusal.Code, wire.RefuseTokenOld)
	})
}

func TestCanceledPairing(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		one := stranger(t, p.relay, "One")
		first, err := p.relay.Pairing().Start(PairingOptions{})
		assert.NilError(t, err)
		second, err := p.relay.Pairing().Start(PairingOptions{})
		assert.NilError(t, err)
		w := one.worker()
		w.proof = func(string) string { return strings.Repeat("0", 64) }
		assert.Check(t, first.Token != second.Token)
		p.relay.Pairing().Cancel()
		p.relay.Pairing().Cancel()
		assert.Equal(t, one.pair(second.Token).refusal.Code, wire.RefuseNoPairing)
		assert.Equal(t, p.relay.Pairing().Status().State, PairingCanceled)
	})
}

// TestFolderTokenWithOneProfile is paired after the three seconds in which
// others could have come.
func TestFolderTokenWithOneProfile(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		one := stranger(t, p.relay, "One")
		s, err := p.relay.Pairing().Start(PairingOptions{Folder: true})
		assert.NilError(t, err)
		start := time.Now()
		assert.Check(t, one.pair(s.Token).refusal == nil)
		assert.Equal(t, time.Since(start), 3*time.Second)
		assert.Check(t, one.worker().open().refusal == nil)
	})
}

// offerAll lets profiles offer themselves one second apart.
func offerAll(token string, profiles ...*fakeProfile) []*fakeWorker {
	ch := make([]chan *fakeWorker, len(profiles))
	for i, p := range profiles {
		ch[i] = make(chan *fakeWorker, 1)
		go func() {
			time.Sleep(time.Duration(i) * time.Second)
			ch[i] <- p.pair(token)
		}()
	}
	all := make([]*fakeWorker, len(profiles))
	for i := range ch {
		all[i] = <-ch[i]
	}
	return all
}

// TestFolderTokenWithSeveralProfiles pairs none until one is picked.
func TestFolderTokenWithSeveralProfiles(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		pairing := p.relay.Pairing()
		work, home, twin := stranger(t, p.relay, "Work"), stranger(t, p.relay, "Home"), stranger(t, p.relay, "Home")
		s, err := pairing.Start(PairingOptions{Folder: true})
		assert.NilError(t, err)
		assert.ErrorIs(t, pairing.Pick("Work"), &op.Error{Code: op.PairingUnavailable})
		for _, w := range offerAll(s.Token, work, home, twin) {
			assert.Equal(t, w.refusal.Code, wire.RefuseAmbiguous)
			assert.Check(t, strings.Contains(w.refusal.Message, "--pick"))
		}
		done, err := pairing.Wait(t.Context())
		assert.NilError(t, err)
		assert.Equal(t, done.State, PairingAmbiguous)
		var labels []string
		for _, o := range done.Offers {
			labels = append(labels, o.Label)
		}
		assert.DeepEqual(t, labels, []string{"Home", "Home", "Work"})
		// None is paired because the others have not come again yet.
		assert.Equal(t, work.pair(s.Token).refusal.Code, wire.RefuseAmbiguous)
		assert.ErrorContains(t, pairing.Pick("Play"), "there are: Home, Home, Work")
		assert.ErrorContains(t, pairing.Pick("Home"), "pick one by its id")
		assert.NilError(t, pairing.Pick(twin.id))
		assert.Equal(t, home.pair(s.Token).refusal.Code, wire.RefuseAmbiguous)
		assert.Check(t, twin.pair(s.Token).refusal == nil)
		done, err = pairing.Wait(t.Context())
		assert.NilError(t, err)
		assert.Equal(t, done.State, PairingDone)
		assert.Equal(t, done.Paired[0].ConnectorID, twin.id)
		assert.Equal(t, work.pair(s.Token).refusal.Code, wire.RefuseTokenUsed)
		bindings, err := p.relay.bindings.Bindings(t.Context())
		assert.NilError(t, err)
		assert.Equal(t, len(bindings), 2)
	})
}

// TestPickedProfile pairs the profile that was named and no other, also when
// another answers alone.
func TestPickedProfile(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		pairing := p.relay.Pairing()
		work, home := stranger(t, p.relay, "Work"), stranger(t, p.relay, "Home")
		s, err := pairing.Start(PairingOptions{Folder: true, Pick: "home"})
		assert.NilError(t, err)
		alone := work.pair(s.Token)
		assert.Equal(t, alone.refusal.Code, wire.RefuseAmbiguous)
		assert.Check(t, strings.Contains(alone.refusal.Message, "Another profile is wanted: home"))
		assert.Equal(t, pairing.Status().State, PairingWaiting)
		all := offerAll(s.Token, work, home)
		assert.Equal(t, all[0].refusal.Code, wire.RefuseTokenUsed)
		assert.Check(t, all[1].refusal == nil)
		done, err := pairing.Wait(t.Context())
		assert.NilError(t, err)
		assert.Equal(t, done.State, PairingDone)
		assert.Equal(t, len(done.Paired), 1)
		assert.Equal(t, done.Paired[0].ConnectorID, home.id)
		assert.Check(t, home.worker().open().refusal == nil)
		assert.Equal(t, work.worker().open().refusal.Code, wire.RefuseUnknown)
	})
}

// TestPickedLabelOfTwo pairs neither; the id says which.
func TestPickedLabelOfTwo(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		pairing := p.relay.Pairing()
		one, two := stranger(t, p.relay, "Home"), stranger(t, p.relay, "Home")
		s, err := pairing.Start(PairingOptions{Folder: true, Pick: "Home"})
		assert.NilError(t, err)
		for _, w := range offerAll(s.Token, one, two) {
			assert.Equal(t, w.refusal.Code, wire.RefuseAmbiguous)
		}
		assert.Equal(t, pairing.Status().State, PairingAmbiguous)
		s, err = pairing.Start(PairingOptions{Folder: true, Pick: two.id})
		assert.NilError(t, err)
		all := offerAll(s.Token, one, two)
		assert.Equal(t, all[0].refusal.Code, wire.RefuseTokenUsed)
		assert.Check(t, all[1].refusal == nil)
		_, err = pairing.Start(PairingOptions{Pick: "Home"})
		assert.ErrorContains(t, err, "finds the token in its folder")
	})
}

func TestSeveralProfilesThatAreWanted(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		pairing := p.relay.Pairing()
		a, b := stranger(t, p.relay, "A"), stranger(t, p.relay, "B")
		s, err := pairing.Start(PairingOptions{Folder: true, Profiles: 2})
		assert.NilError(t, err)
		early := make(chan *fakeWorker, 1)
		go func() { early <- a.pair(s.Token) }()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		assert.Equal(t, len(early), 0, "one of two was decided about")
		assert.Check(t, b.pair(s.Token).refusal == nil)
		assert.Check(t, (<-early).refusal == nil)
		assert.Check(t, a.secret != b.secret)
		assert.Check(t, a.worker().open().refusal == nil)
		assert.Check(t, b.worker().open().refusal == nil)
	})
}

// TestOfferThatLeaves is not counted, and one that comes again counts once.
func TestOfferThatLeaves(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		a, b := stranger(t, p.relay, "A"), stranger(t, p.relay, "B")
		s, err := p.relay.Pairing().Start(PairingOptions{Folder: true})
		assert.NilError(t, err)
		gone, again := make(chan *fakeWorker, 1), make(chan *fakeWorker, 1)
		leaver := a.worker()
		go func() { gone <- leaver.openScope(wire.ScopePairing, s.Token) }()
		go func() { again <- b.pair(s.Token) }()
		time.Sleep(time.Second)
		synctest.Wait()
		leaver.sock.CloseNow()
		assert.Check(t, b.pair(s.Token).refusal == nil)
		assert.Equal(t, (<-again).refusal.Code, wire.RefuseNonceUsed)
		<-gone
		assert.Check(t, b.worker().open().refusal == nil)
	})
}

func TestBindingThatCannotBeStored(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		one := stranger(t, p.relay, "One")
		s, err := p.relay.Pairing().Start(PairingOptions{})
		assert.NilError(t, err)
		store := p.relay.bindings.(*memBindings)
		store.mu.Lock()
		store.fail = errors.New("no space left")
		store.mu.Unlock()
		w := one.pair(s.Token)
		assert.Equal(t, w.refusal.Code, wire.RefuseNoPairing)
		assert.Check(t, strings.Contains(w.refusal.Message, "could not store"))
		assert.Equal(t, p.relay.Pairing().Status().State, PairingWaiting)
		store.mu.Lock()
		store.fail = nil
		store.mu.Unlock()
		assert.Check(t, one.pair(s.Token).refusal == nil)
	})
}

func TestPairingOptionsAndWait(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		pairing := p.relay.Pairing()
		for _, o := range []PairingOptions{{Profiles: -1}, {Folder: true, Profiles: 33}, {Profiles: 2}} {
			_, err := pairing.Start(o)
			assert.ErrorIs(t, err, &op.Error{Code: op.InvalidInput, Kind: op.Invalid})
		}
		s, err := pairing.Wait(t.Context())
		assert.NilError(t, err)
		assert.Equal(t, s.State, PairingIdle)
		_, err = pairing.Start(PairingOptions{})
		assert.NilError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = pairing.Wait(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// TestPairingAgainReplacesTheBinding of a profile that is bound already.
func TestPairingAgainReplacesTheBinding(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		old := p.secret
		s, err := p.relay.Pairing().Start(PairingOptions{})
		assert.NilError(t, err)
		assert.Check(t, p.pair(s.Token).refusal == nil)
		assert.Check(t, p.secret != old)
		assert.Check(t, p.worker().open().refusal == nil)
		w := p.worker()
		w.openScope(wire.ScopeConnector, p.secret)
		assert.Check(t, w.refusal == nil)
	})
}
