package bridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pi-chrome/bridge/wire"
)

// shake is a handshake whose client has proved the secret.
type shake struct {
	hello        *wire.Hello
	requestNonce string
}

func helloOf(s *shake) *wire.Hello {
	if s == nil {
		return nil
	}
	return s.hello
}

// handshake reads hello, sends the challenge and checks the proof. key returns
// the secret of the profile, in hex, or why there is none. The shake is
// returned with a refusal too once the hello was understood.
func (r *Relay) handshake(sock socket, scope wire.Scope, key func(*wire.Hello) (string, *refusal)) (*shake, *refusal) {
	raw, err := r.read(sock, r.time.hello)
	if err != nil {
		return nil, silence(err, "hello", r.time.hello)
	}
	head, err := wire.PeekHello(raw)
	if err != nil {
		return nil, &refusal{wire.RefuseMalformed, sentence(err)}
	}
	if head.Version != wire.Version {
		return nil, &refusal{wire.RefuseVersion, fmt.Sprintf("The extension speaks version %d of the wire and pi-chrome version %d. Run pi-chrome extension install and reload the extension.", head.Version, wire.Version)}
	}
	if !wire.EqualProof(head.Fingerprint, wire.Fingerprint()) {
		return peeked(raw), &refusal{wire.RefuseFingerprint, "The extension and pi-chrome are of different builds. Run pi-chrome extension install and reload the extension."}
	}
	hello, err := wire.DecodeHello(raw)
	if err != nil {
		return nil, &refusal{wire.RefuseMalformed, sentence(err)}
	}
	s := &shake{hello: hello}
	if hello.ExtensionID != r.opts.ExtensionID {
		return s, &refusal{wire.RefuseMalformed, fmt.Sprintf("The extension id %s is not pi-chrome's.", hello.ExtensionID)}
	}
	secret, no := key(hello)
	if no != nil {
		return s, no
	}
	nonces := r.nonces[scope]
	s.requestNonce = nonces.Issue(time.Now())
	proof, err := wire.ServerProof(scope, secret, hello.Identity(), hello.ClientNonce, r.opts.Epoch, s.requestNonce, wire.Fingerprint())
	if err != nil {
		r.log.Error("the stored secret of a connector is damaged", "connector", hello.ConnectorID, "error", err)
		return s, &refusal{wire.RefuseUnknown, "The stored secret of this profile is damaged. Run pi-chrome forget and pair it again."}
	}
	err = r.send(sock, wire.Challenge{Type: wire.TypeChallenge, BridgeEpoch: r.opts.Epoch, RequestNonce: s.requestNonce, ServerFingerprint: wire.Fingerprint(), Proof: proof})
	if err != nil {
		return s, silence(err, "challenge", r.time.hello)
	}
	if raw, err = r.read(sock, r.time.prove); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			_ = nonces.Consume(s.requestNonce, time.Now()) // nobody can use it any more
			return s, &refusal{wire.RefuseNonceOld, "The proof came too late. The extension tries again by itself."}
		}
		return s, silence(err, "prove", r.time.prove)
	}
	prove, err := wire.DecodeProve(raw)
	// The nonce is used up before the proof is looked at, right or wrong.
	spent := nonces.Consume(s.requestNonce, time.Now())
	if err != nil {
		return s, &refusal{wire.RefuseMalformed, sentence(err)}
	}
	switch {
	case errors.Is(spent, wire.ErrNonceExpired):
		return s, &refusal{wire.RefuseNonceOld, "The proof came too late. The extension tries again by itself."}
	case spent != nil:
		return s, &refusal{wire.RefuseNonceUsed, "The nonce was used before, or was dropped because too many are waiting. The extension tries again by itself."}
	}
	want, err := wire.SocketProof(scope, secret, hello.Identity(), r.opts.Epoch, s.requestNonce, hello.Fingerprint)
	if err != nil || !wire.EqualProof(prove.Proof, want) {
		what := "This profile does not hold the secret of its pairing. Run pi-chrome onboard to pair it again."
		if scope == wire.ScopePairing {
			what = "The pairing token is not the one that pi-chrome shows. Type it again."
		}
		return s, &refusal{wire.RefuseProof, what}
	}
	return s, nil
}

// peeked reads what it can of a hello with another fingerprint, to name the
// profile in status.
func peeked(raw []byte) *shake {
	if h, err := wire.DecodeHello(raw); err == nil {
		return &shake{hello: h}
	}
	return nil
}

// read reads one frame of a handshake. The time limit ends the socket, so a
// refusal after it only reaches a peer that reads at that moment.
func (r *Relay) read(sock socket, limit time.Duration) ([]byte, error) {
	type got struct {
		b   []byte
		err error
	}
	// A Read whose ctx ends closes the socket before the refusal is written.
	// So the limit stands beside the read; serveSocket closes the socket, and
	// with it the read, when it returns.
	ch := make(chan got, 1)
	r.wg.Go(func() {
		b, err := sock.Read(r.ctx)
		ch <- got{b, err}
	})
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var out <-chan struct{}
	if g, ok := sock.(*guest); ok {
		out = g.out
	}
	select {
	case g := <-ch:
		return g.b, g.err
	case <-out:
		return nil, errCrowdedOut
	case <-timer.C:
		return nil, context.DeadlineExceeded
	}
}

func (r *Relay) send(sock socket, frame any) error {
	b, err := wire.Encode(frame)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.ctx, r.time.hello)
	defer cancel()
	return sock.Write(ctx, b)
}

// silence is the refusal of a peer that went away or sent nothing.
func silence(err error, step string, limit time.Duration) *refusal {
	if errors.Is(err, context.DeadlineExceeded) {
		return &refusal{wire.RefuseMalformed, fmt.Sprintf("No %s within %s.", step, limit)}
	}
	if errors.Is(err, errCrowdedOut) {
		return &refusal{wire.RefuseCrowded, "Too many connections are waiting to prove themselves, and this was the oldest. It is tried again by itself."}
	}
	return &refusal{message: fmt.Sprintf("the peer left at %s: %s", step, err)}
}

func sentence(err error) string { return "The extension sent something wrong: " + err.Error() + "." }
