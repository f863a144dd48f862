package smoke

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/coder/websocket"

	"pi-chrome/bridge/wire"
	"pi-chrome/extension"
)

// caller is somebody who tries to be a profile: everything but the secret is
// right.
type caller struct {
	origin      string
	connectorID string
	proof       string // what it proves with; "" stops after the challenge
}

// verdict is what the owner said.
type verdict struct {
	status     int // of HTTP, when there was no socket
	code       wire.RefusalCode
	challenged bool
}

func (v verdict) String() string {
	if v.status != 0 {
		return fmt.Sprintf("HTTP %d", v.status)
	}
	return string(v.code)
}

// call makes the caller's handshake with the owner of the port.
func (c caller) call(ctx context.Context, port int) (verdict, error) {
	var v verdict
	header := http.Header{}
	if c.origin != "" {
		header.Set("Origin", c.origin)
	}
	sock, res, err := websocket.Dial(ctx, fmt.Sprintf("ws://127.0.0.1:%d%s", port, wire.ScopeConnector.Path()), &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		if res == nil {
			return v, fmt.Errorf("reaching the owner: %w", err)
		}
		v.status = res.StatusCode
		return v, nil
	}
	defer func() { _ = sock.CloseNow() }()
	hello := wire.Hello{
		Type: wire.TypeHello, Version: wire.Version, Fingerprint: wire.Fingerprint(), ConnectorID: c.connectorID, ExtensionID: extension.ID,
		DisplayVersion: extension.Version(), Label: "A stranger", Browser: wire.Browser{Family: "chromium", Version: "1"},
		BrowserEpoch: wire.NewSecret(), WorkerID: wire.NewSecret()[:32], Capabilities: wire.Capabilities{FlatSessions: true}, ClientNonce: wire.NewSecret(),
	}
	if err := write(ctx, sock, hello); err != nil {
		return v, err
	}
	for {
		frame, err := read(ctx, sock)
		if err != nil {
			return v, err
		}
		switch f := frame.(type) {
		case *wire.Refused:
			v.code = f.Code
			return v, nil
		case *wire.Challenge:
			v.challenged = true
			if err := write(ctx, sock, wire.Prove{Type: wire.TypeProve, Proof: c.proof}); err != nil {
				return v, err
			}
		case *wire.Ready:
			return v, errors.New("the owner let a stranger in")
		default:
			return v, fmt.Errorf("the owner sent a %T in a handshake", frame)
		}
	}
}

func write(ctx context.Context, sock *websocket.Conn, frame any) error {
	b, err := wire.Encode(frame)
	if err != nil {
		return err
	}
	return sock.Write(ctx, websocket.MessageText, b)
}

func read(ctx context.Context, sock *websocket.Conn) (any, error) {
	_, b, err := sock.Read(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the owner's answer: %w", err)
	}
	return wire.DecodeForExtension(b)
}

// elsewhere is an owner that knows the token, and is of another release.
func elsewhere(token string) func(*wire.Hello) (wire.Challenge, error) {
	return func(h *wire.Hello) (wire.Challenge, error) {
		c := wire.Challenge{Type: wire.TypeChallenge, BridgeEpoch: wire.NewSecret(), RequestNonce: wire.NewSecret(), ServerFingerprint: wire.NewSecret()}
		var err error
		c.Proof, err = wire.ServerProof(wire.ScopePairing, token, h.Identity(), h.ClientNonce, c.BridgeEpoch, c.RequestNonce, c.ServerFingerprint)
		return c, err
	}
}
