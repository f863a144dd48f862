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
	err = f.server.Run(ctx, &sdk.IOTransport{Reader: io.NopCloser(in), Writer: writer{out}})
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil // the client has gone, or somebody ended us: both are the end
	}
	return err
}

// writer is out, which stays open.
type writer struct{ io.Writer }

func (writer) Close() error { return nil }
