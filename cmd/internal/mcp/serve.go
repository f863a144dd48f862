package mcp

import (
	"context"
	"errors"
	"io"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// ServeStdio serves one connection until in ends or ctx does. It closes
// neither in nor out.
func ServeStdio(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	l := newLink(o.Connect)
	defer l.close()
	f, err := newFace(o, l)
	if err != nil {
		return err
	}
	defer f.close()
	session, err := f.server.Connect(ctx, &sdk.IOTransport{Reader: io.NopCloser(in), Writer: writer{out}}, nil)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		f.stop()
		_ = session.Close() // Wait tells how it ended
	})
	err = session.Wait()
	if !stop() {
		<-ended
		return nil // somebody ended us
	}
	if errors.Is(err, io.EOF) {
		return nil // the client has gone
	}
	return err
}

// writer is out, which stays open.
type writer struct{ io.Writer }

func (writer) Close() error { return nil }
