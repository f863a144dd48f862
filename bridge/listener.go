package bridge

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
)

// lobby bounds the connections of the port. Where there are too many, the
// oldest that has not proved itself makes room: who holds connections open and
// says nothing keeps nobody out. Only when all have proved themselves is a new
// one closed, at once: a waiting one would look like an owner that hangs.
type lobby struct {
	net.Listener

	mu        sync.Mutex
	open      int
	strangers []*lobbyConn // not proved yet, oldest first
}

func (g *lobby) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		conn := &lobbyConn{TCPConn: c.(*net.TCPConn), lobby: g}
		if g.enter(conn) {
			return conn, nil
		}
		_ = c.Close() // refused; there is nobody to tell
	}
}

// enter counts a connection in, in the place of the oldest stranger where there
// is no other.
func (g *lobby) enter(c *lobbyConn) bool {
	g.mu.Lock()
	var oldest *lobbyConn
	if g.open >= maxConnections {
		if len(g.strangers) == 0 {
			g.mu.Unlock()
			return false
		}
		oldest = g.strangers[0]
	}
	g.open++
	g.strangers = append(g.strangers, c)
	g.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close()
	}
	return true
}

// lobbyConn stays a TCP connection with all its methods: net/http closes one
// half first so that a refusal arrives.
type lobbyConn struct {
	*net.TCPConn
	lobby *lobby
	once  sync.Once
}

// proven says that the other side holds a secret: it is no stranger any more.
func (c *lobbyConn) proven() {
	c.lobby.mu.Lock()
	defer c.lobby.mu.Unlock()
	c.lobby.strangers = slices.DeleteFunc(c.lobby.strangers, func(o *lobbyConn) bool { return o == c })
}

// Close frees the connection's place.
func (c *lobbyConn) Close() error {
	c.once.Do(func() {
		c.proven()
		c.lobby.mu.Lock()
		defer c.lobby.mu.Unlock()
		c.lobby.open--
	})
	return c.TCPConn.Close()
}

// connKey is the context key of a request's connection.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// proven says that who sent the request of this context has proved itself. A
// server without a lobby, as in tests, has nothing to note.
func proven(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*lobbyConn); ok {
		c.proven()
	}
}

// errCrowdedOut ends the wait of a handshake that made room for a newer one.
var errCrowdedOut = errors.New("too many connections wait to prove themselves")

// guest is a socket of the extension that has not proved itself yet.
type guest struct {
	socket
	out chan struct{} // closed when it has to make room
}

// arrive counts a handshake that begins; the oldest makes room where there are
// too many. The returned function says that it is over.
func (r *Relay) arrive(sock socket) (*guest, func()) {
	g := &guest{sock, make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.guests) >= maxHandshakes {
		close(r.guests[0].out)
		r.guests = r.guests[1:]
	}
	r.guests = append(r.guests, g)
	return g, sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.guests = slices.DeleteFunc(r.guests, func(o *guest) bool { return o == g })
	})
}
