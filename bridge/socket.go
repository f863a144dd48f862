package bridge

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/coder/websocket"
)

// socket is one accepted WebSocket. Read is called from one goroutine, Write
// from one other. A ctx that ends closes the socket, so it is always the
// connection's own and never an operation's.
type socket interface {
	Read(ctx context.Context) ([]byte, error)
	Write(ctx context.Context, frame []byte) error
	SetReadLimit(bytes int64)
	// Close tells the peer why and ends the socket; it waits a moment for the
	// peer's own close.
	Close(code websocket.StatusCode, reason string)
	// CloseNow ends the socket at once. It may be called at any time.
	CloseNow()
}

// closePatience is how long a peer may take to answer a close.
const closePatience = 500 * time.Millisecond

// wsSocket is a socket over the network. It keeps the TCP connection too:
// websocket.Conn.Close waits five seconds for a silent peer, and
// websocket.Conn.CloseNow waits for that.
type wsSocket struct {
	c  *websocket.Conn
	nc net.Conn
}

// capture remembers the connection that the upgrade takes over.
type capture struct {
	http.ResponseWriter
	nc net.Conn
}

func (w *capture) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	nc, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	w.nc = nc
	return nc, rw, err
}

func (s wsSocket) Read(ctx context.Context) ([]byte, error) {
	kind, b, err := s.c.Read(ctx)
	if err != nil {
		return nil, err
	}
	if kind != websocket.MessageText {
		return nil, errors.New("a binary frame")
	}
	return b, nil
}

func (s wsSocket) Write(ctx context.Context, frame []byte) error {
	return s.c.Write(ctx, websocket.MessageText, frame)
}

func (s wsSocket) SetReadLimit(n int64) { s.c.SetReadLimit(n) }

func (s wsSocket) Close(code websocket.StatusCode, reason string) {
	if len(reason) > 120 { // RFC 6455 allows 123 bytes
		reason = reason[:120]
	}
	timer := time.AfterFunc(closePatience, func() { _ = s.nc.Close() })
	defer timer.Stop()
	_ = s.c.Close(code, reason)
}

func (s wsSocket) CloseNow() {
	_ = s.nc.Close()
	_ = s.c.CloseNow()
}

// accept upgrades a request whose host and origin were checked before.
func accept(w http.ResponseWriter, req *http.Request, limit int64) (socket, error) {
	cw := &capture{ResponseWriter: w}
	c, err := websocket.Accept(cw, req, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // checkLocal and checkOrigin are stricter
		CompressionMode:    websocket.CompressionDisabled,
	})
	if err != nil {
		return nil, err
	}
	c.SetReadLimit(limit)
	return wsSocket{c, cw.nc}, nil
}

// checkHost refuses a request that was not addressed to this machine by a
// loopback name, as a page does that rebinds its own name to 127.0.0.1.
func checkHost(req *http.Request) error {
	host, port, err := net.SplitHostPort(req.Host)
	if err != nil {
		return fmt.Errorf("the host %q has no port", clip(req.Host))
	}
	if host != "127.0.0.1" && host != "localhost" {
		return fmt.Errorf("the host %q is not 127.0.0.1 or localhost", clip(req.Host))
	}
	if addr, ok := req.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok && fmt.Sprint(addr.Port) != port {
		return fmt.Errorf("the host %q names another port", clip(req.Host))
	}
	return nil
}

// checkOrigin lets through the pinned extension, and programs, which send no
// origin. A browser always sends one with a WebSocket, and Sec-Fetch-Site only
// comes from a browser.
func checkOrigin(req *http.Request, extensionID string) error {
	origins := req.Header.Values("Origin")
	if len(origins) == 0 {
		if req.Header.Values("Sec-Fetch-Site") != nil {
			return errors.New("a browser without an origin is not the extension")
		}
		return nil
	}
	if len(origins) == 1 && origins[0] == "chrome-extension://"+extensionID {
		return nil
	}
	return fmt.Errorf("the origin %q is not the extension's", clip(origins[0]))
}

// clip shortens what a stranger sent before it stands in a message.
func clip(s string) string {
	if len(s) <= 80 {
		return s
	}
	return s[:80] + "…"
}
