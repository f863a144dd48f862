package smoke

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"time"

	"pi-chrome/bridge"
	"pi-chrome/bridge/wire"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/cmd/internal/popup"
	"pi-chrome/cmd/internal/sandbox"
	"pi-chrome/driver/direct"
	"pi-chrome/driver/op"
	"pi-chrome/extension"
)

// workerURL is where the extension's worker runs.
const workerURL = "chrome-extension://" + extension.ID

// workerTimeout is how long a browser may take to start the extension.
const workerTimeout = 15 * time.Second

// withheldMs is the deadline of a command that must not get anywhere.
const withheldMs = 1500

// install starts an owner, and the browser with the extension in a new profile.
func (r *run) install(ctx context.Context) error {
	r.doing("starting an owner and the browser %s", r.opts.Browser)
	box, err := sandbox.Start(ctx, sandbox.Options{
		Executable: r.opts.Executable, Browser: r.opts.Browser, Headful: r.opts.Headful, Unpaired: true, ExtensionPort: r.line.port,
	})
	if err != nil {
		return err
	}
	r.box, r.report.Product = box, box.Browser.Version().Product
	r.line.connect(box.Port)
	if r.client, err = box.Dial(ctx); err != nil {
		return err
	}
	r.doing("waiting for the extension's worker")
	wctx, cancel := context.WithTimeout(ctx, workerTimeout)
	defer cancel()
	if err := r.until(wctx, "the extension's worker did not start: a browser that does not load unpacked extensions from the command line, as branded Chrome since 137, cannot be tried so", func() (bool, error) {
		_, err := box.Browser.Worker(ctx, workerURL)
		if errors.Is(err, direct.ErrNoWorker) {
			return false, nil
		}
		return err == nil, err
	}); err != nil {
		return err
	}
	r.proved("%s runs the extension %s (%s) in a throw-away profile", r.report.Product, extension.Version(), extension.ID)
	r.proved("an owner of its own listens on port %d", box.Port)
	return nil
}

// strangers is refused whoever was not paired.
func (r *run) strangers(ctx context.Context) error {
	r.doing("asking for a page before any profile is paired")
	_, err := r.command(ctx, "page.navigate", map[string]any{"url": r.base + "/counter/click.html"}, 0)
	if e := op.AsError(err); err == nil || e.Code != op.ConnectorNotBound {
		return unexpected("a command without a paired profile", err, op.ConnectorNotBound)
	}
	r.proved("a command is refused while nothing is paired: %s", op.ConnectorNotBound)
	err = r.withPopup(ctx, func(p *popup.Popup) error {
		_, err := p.Wait(ctx, regexp.MustCompile("Not paired"))
		return err
	})
	if err != nil {
		return err
	}
	r.proved("the popup says that the profile is not paired")
	for _, who := range []struct {
		name string
		caller
		want verdict
	}{
		{"a web page", caller{origin: "https://example.org"}, verdict{status: http.StatusForbidden}},
		{"another extension", caller{origin: "chrome-extension://abcdefghijklmnopabcdefghijklmnop"}, verdict{status: http.StatusForbidden}},
		{"a profile that was never paired", caller{origin: workerURL, connectorID: newID()}, verdict{code: wire.RefuseUnknown}},
	} {
		if err := r.refused(ctx, who.name, who.caller, who.want); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) refused(ctx context.Context, name string, c caller, want verdict) error {
	r.doing("connecting as %s", name)
	got, err := c.call(ctx, r.box.Port)
	if err != nil {
		return err
	}
	if got.status != want.status || got.code != want.code {
		return fmt.Errorf("%s got %s, not %s", name, got, want)
	}
	r.proved("%s is refused: %s", name, got)
	return nil
}

// otherOwner: an owner that knows the token and has another contract gets no
// proof.
func (r *run) otherOwner(ctx context.Context) error {
	r.doing("putting an owner of another release in the owner's place")
	token := wire.NewToken()
	before := r.line.counts()
	r.line.set(rules{stranger: elsewhere(token)})
	err := r.withPopup(ctx, func(p *popup.Popup) error {
		if err := p.Pair(ctx, token); err != nil {
			return err
		}
		_, err := p.Wait(ctx, regexp.MustCompile("The releases do not match"))
		return err
	})
	if err != nil {
		return err
	}
	now := r.line.counts()
	r.line.set(rules{})
	switch {
	case now.challenges == before.challenges:
		return errors.New("the extension did not reach the other owner")
	case now.proofs != before.proofs:
		return errors.New("the extension proved itself to an owner of another release")
	}
	r.proved("the extension read the other fingerprint, proved nothing to it and says so in its popup")
	// As a person does who has installed the right release.
	return r.newWorker(ctx)
}

// pairByPopup types the token of `onboard --token` into the popup.
func (r *run) pairByPopup(ctx context.Context) error {
	r.doing("starting a pairing")
	pairing, err := owner.StartPairing(ctx, r.client, bridge.PairingOptions{})
	if err != nil {
		return err
	}
	r.doing("typing the token into the popup")
	err = r.withPopup(ctx, func(p *popup.Popup) error {
		if err := p.Pair(ctx, pairing.Token); err != nil {
			return err
		}
		_, err := p.Wait(ctx, regexp.MustCompile("Connected"))
		return err
	})
	if err != nil {
		return err
	}
	p, err := r.live(ctx)
	if err != nil {
		return err
	}
	r.connector, r.label = p.ID, p.Label
	r.proved("%q (%s) is paired and connected: %s %s", p.Label, p.ID, p.Browser.Family, p.Browser.Version)
	return nil
}

// forged is refused whoever knows everything but the secret.
func (r *run) forged(ctx context.Context) error {
	generation := r.generation
	for _, who := range []struct {
		name  string
		proof string
	}{
		{"the paired profile's id with another secret", wire.NewSecret()},
		{"the paired profile's own proof, sent again", r.line.counts().lastProof},
	} {
		if err := r.refused(ctx, who.name, caller{origin: workerURL, connectorID: r.connector, proof: who.proof}, verdict{code: wire.RefuseProof}); err != nil {
			return err
		}
	}
	r.doing("looking whether the paired profile is still connected")
	p, err := r.live(ctx)
	if err != nil {
		return err
	}
	if p.Generation != generation {
		return fmt.Errorf("the paired profile had to connect again: generation %d after %d", p.Generation, generation)
	}
	r.proved("the paired profile stayed connected all the while")
	return nil
}

// restartWorker stops the extension's worker, as Chrome does.
func (r *run) restartWorker(ctx context.Context) error {
	before, err := r.box.Browser.Worker(ctx, workerURL)
	if err != nil {
		return err
	}
	r.doing("stopping the extension's worker")
	if err := r.box.Browser.StopWorker(ctx, workerURL); err != nil {
		return err
	}
	generation := r.generation
	r.doing("sending a command to the new worker")
	out, err := r.command(ctx, "page.evaluate", map[string]any{"expression": "6*7"}, 0)
	if err != nil {
		return err
	}
	after, err := r.box.Browser.Worker(ctx, workerURL)
	if err != nil {
		return err
	}
	p, err := r.live(ctx)
	switch {
	case err != nil:
		return err
	case after.TargetID == before.TargetID:
		return errors.New("the worker was not stopped")
	case p.ID != r.connector || p.Generation == generation:
		return fmt.Errorf("it came back as %s, generation %d; it was %s, generation %d", p.ID, p.Generation, r.connector, generation)
	}
	r.proved("a new worker took over as the same profile: connection %d after %d, and the page answered %s", p.Generation, generation, one(out.Result.Text))
	return nil
}

// badServerProof: a listener that cannot prove the secret gets no proof.
func (r *run) badServerProof(ctx context.Context) error {
	r.doing("spoiling the owner's proof")
	before := r.line.counts()
	r.line.set(rules{badProof: true})
	err := r.withPopup(ctx, func(p *popup.Popup) error {
		if _, err := p.Wait(ctx, regexp.MustCompile("Something else holds the port")); err != nil {
			return err
		}
		now := r.line.counts()
		r.line.set(rules{})
		switch {
		case now.challenges == before.challenges:
			return errors.New("the extension did not reach the owner")
		case now.proofs != before.proofs:
			return errors.New("the extension proved itself to an owner that had not")
		}
		r.proved("the extension gave its own proof to nobody and says in its popup that something else holds the port")
		r.doing("pressing Try again in the popup")
		if err := p.Press(ctx, "retry"); err != nil {
			return err
		}
		_, err := p.Wait(ctx, regexp.MustCompile("Connected"))
		return err
	})
	if err != nil {
		return err
	}
	if _, err := r.live(ctx); err != nil {
		return err
	}
	r.proved("with the right owner back, Try again connects")
	return nil
}

// otherExtension: an extension of another release gets no command.
func (r *run) otherExtension(ctx context.Context) error {
	r.doing("having the extension say that it is of another release")
	r.line.set(rules{fingerprint: wire.NewSecret()})
	defer r.line.set(rules{})
	if err := r.until(ctx, "the owner did not refuse the other release", func() (bool, error) {
		st, err := owner.Status(ctx, r.client, r.session)
		return err == nil && slices.ContainsFunc(st.Profiles, func(p bridge.ProfileStatus) bool { return p.ID == r.connector && !p.Live && !p.Compatible }), err
	}); err != nil {
		return err
	}
	calls := r.line.counts().calls
	hits := r.site.Counter.Count("withheld")
	r.doing("sending a click to the other release")
	_, err := r.command(ctx, "page.navigate", map[string]any{"url": r.base + "/count/withheld/visit"}, withheldMs)
	if e := op.AsError(err); err == nil || e.Kind == op.OutcomeUnknown {
		return unexpected("a command to an extension of another release", err, op.ConnectorOffline)
	}
	if now := r.line.counts(); now.calls != calls || r.site.Counter.Count("withheld") != hits {
		return fmt.Errorf("the command was not withheld: %d calls crossed, the page was asked %d times", now.calls-calls, r.site.Counter.Count("withheld")-hits)
	}
	r.proved("the owner refused it (%s) and the command was withheld: %s, no call crossed, the page was not asked", wire.RefuseFingerprint, op.AsError(err).Code)
	r.line.set(rules{})
	r.doing("reloading the right release")
	if err := r.newWorker(ctx); err != nil {
		return err
	}
	if _, err := r.live(ctx); err != nil {
		return err
	}
	if r.site.Counter.Count("withheld") != hits {
		return errors.New("the withheld command was sent after all")
	}
	r.proved("back on the right release it is connected, and the withheld command was not sent later")
	return nil
}

// newWorker stops the worker; the popup wakes up another.
func (r *run) newWorker(ctx context.Context) error {
	if err := r.box.Browser.StopWorker(ctx, workerURL); err != nil {
		return err
	}
	return r.withPopup(ctx, func(p *popup.Popup) error {
		_, err := p.Wait(ctx, regexp.MustCompile("Connected|Not paired"))
		return err
	})
}

// unpair closes the tabs of the profile and clears the pairing on both sides.
func (r *run) unpair(ctx context.Context) error {
	r.doing("opening one more tab")
	id, err := r.newTab(ctx, "/counter/form.html")
	if err != nil {
		return err
	}
	r.doing("unpairing")
	if _, err := owner.Unpair(ctx, r.client, r.connector, false); err != nil {
		return err
	}
	st, err := owner.Status(ctx, r.client, r.session)
	if err != nil {
		return err
	}
	if len(st.Profiles) != 0 {
		return fmt.Errorf("%d profiles are still paired", len(st.Profiles))
	}
	if open, err := r.pages(ctx); err != nil || slices.Contains(open, r.base+"/counter/form.html") {
		return errors.Join(err, fmt.Errorf("its tab %d is still open", id))
	}
	r.proved("its tab was closed, then the pairing was cleared")
	if err := r.refused(ctx, "the profile's id after that", caller{origin: workerURL, connectorID: r.connector, proof: wire.NewSecret()}, verdict{code: wire.RefuseUnknown}); err != nil {
		return err
	}
	if err := r.withPopup(ctx, func(p *popup.Popup) error {
		_, err := p.Wait(ctx, regexp.MustCompile("does not know this profile"))
		return err
	}); err != nil {
		return err
	}
	r.proved("the popup says that pi-chrome does not know the profile any more")
	return nil
}

// pairByFolder pairs as `onboard` does: the token lies in the extension's
// folder.
func (r *run) pairByFolder(ctx context.Context) error {
	r.doing("authorizing the session again, which the unpairing has locked")
	if _, err := owner.Authorize(ctx, r.client, r.session, 0); err != nil {
		return err
	}
	r.doing("putting a token into the extension's folder")
	pairing, err := owner.StartPairing(ctx, r.client, bridge.PairingOptions{Folder: true})
	if err != nil {
		return err
	}
	folder := r.box.Extension()
	if err := folder.SetToken(r.line.port, pairing.Token); err != nil {
		return err
	}
	began := time.Now()
	done, err := owner.WaitPairing(ctx, r.client)
	if err = errors.Join(err, folder.ClearToken()); err != nil {
		return err
	}
	if done.State != bridge.PairingDone {
		return fmt.Errorf("the pairing is %s, not %s", done.State, bridge.PairingDone)
	}
	p, err := r.live(ctx)
	if err != nil {
		return err
	}
	if p.ID != r.connector {
		return fmt.Errorf("the profile %s was paired, not %s", p.ID, r.connector)
	}
	r.proved("%q found the token in its folder and was paired %.1f s later; the token is out of the folder", p.Label, time.Since(began).Seconds())
	info, err := folder.Info()
	if err != nil || info.PairingToken {
		return errors.Join(err, errors.New("the token is still in the folder"))
	}
	return nil
}

// live waits until the one paired profile is connected.
func (r *run) live(ctx context.Context) (bridge.ProfileStatus, error) {
	var p bridge.ProfileStatus
	err := r.until(ctx, "the paired profile did not connect", func() (bool, error) {
		st, err := owner.Status(ctx, r.client, r.session)
		if err != nil || len(st.Profiles) != 1 || !st.Profiles[0].Live {
			return false, err
		}
		p = st.Profiles[0]
		r.generation = p.Generation
		return true, nil
	})
	return p, err
}

// withPopup opens the popup for as long as the function runs.
func (r *run) withPopup(ctx context.Context, fn func(*popup.Popup) error) error {
	p, err := popup.Open(ctx, r.box.Browser)
	if err != nil {
		return err
	}
	if err := fn(p); err != nil {
		return err // it stays open for the picture
	}
	return p.Close(ctx)
}
