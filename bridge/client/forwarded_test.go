package client

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// TestForwardedPorts: an owner of another machine is reached through a port
// that is forwarded to here. What is missing is named, and nothing passes for
// a stranger or for an owner that is slow.
func TestForwardedPorts(t *testing.T) {
	listen := func(t *testing.T) (*world, net.Listener) {
		w := newWorld(t)
		ln, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", w.port))
		assert.NilError(t, err)
		t.Cleanup(func() { _ = ln.Close() })
		assert.NilError(t, os.WriteFile(filepath.Join(w.dir, "owner-credential.json"),
			fmt.Appendf(nil, `{"version":1,"credential":%q}`, wire.NewSecret()), 0o600))
		return w, ln
	}
	always := func(t *testing.T, status int) *world { // a server that answers everything so
		w, ln := listen(t)
		srv := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(status) })}
		served := make(chan error, 1)
		go func() { served <- srv.Serve(ln) }()
		t.Cleanup(func() {
			_ = srv.Close()
			<-served
		})
		return w
	}
	t.Run("under another number", func(t *testing.T) {
		w := always(t, http.StatusForbidden)
		_, err := Dial(t.Context(), w.options())
		e := wantCode(t, err, op.Unavailable, op.PortTaken)
		assert.Assert(t, strings.Contains(e.Hint, "the same number on both sides"), e.Hint)
		assert.Equal(t, w.starts.Load(), int32(0))
	})
	t.Run("to a server that is always unavailable", func(t *testing.T) {
		w := always(t, http.StatusServiceUnavailable)
		o := w.options()
		o.Start = func(context.Context) error { return nil } // an owner that finds the port taken
		o.ReadyTimeout = 300 * time.Millisecond
		_, err := Dial(t.Context(), o)
		e := wantCode(t, err, op.Unavailable, op.PortTaken)
		assert.Assert(t, strings.Contains(e.Message, "503") && strings.Contains(e.Hint, "end that program"), "%s %s", e.Message, e.Hint)
	})
	t.Run("with nothing behind it", func(t *testing.T) {
		w, ln := listen(t)
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				_ = c.Close()
			}
		}()
		o := w.options()
		o.Start = func(context.Context) error { return nil } // an owner that finds the port taken
		o.ReadyTimeout = 300 * time.Millisecond
		_, err := Dial(t.Context(), o)
		e := wantCode(t, err, op.Unavailable, op.PortTaken)
		assert.Assert(t, strings.Contains(e.Hint, "start the owner there"), e.Hint)
	})
}
