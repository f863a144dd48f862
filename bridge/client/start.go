package client

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"pi-chrome/bridge"
	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

const (
	pollFirst  = 10 * time.Millisecond
	pollLast   = 150 * time.Millisecond
	leaveLimit = 45 * time.Second // for an older owner to drain
)

// reach connects to an owner of the right version, starting one when none is
// there.
func (c *Client) reach(ctx context.Context) (*conn, error) {
	cn, err := c.find(ctx)
	if err != nil {
		return nil, err
	}
	if c.agrees(cn) {
		return cn, nil
	}
	if older(c.opts.Version, c.opts.Build, cn.ready) {
		ready := cn.ready
		cn.close()
		return nil, op.NotAvailable(op.VersionMismatch, "the owner of port %d is pi-chrome %s, newer than this pi-chrome %s; nothing was sent", c.opts.Port, ready.Version, c.opts.Version).
			WithHint("Update this program to %s, or end that owner (process %d).", ready.Version, ready.PID).
			WithDetail("owner", ready.Version).WithDetail("program", c.opts.Version)
	}
	if c.opts.Start == nil {
		ready := cn.ready
		cn.close()
		return nil, op.NotAvailable(op.VersionMismatch, "the owner of port %d is pi-chrome %s with other operations than this pi-chrome %s; nothing was sent", c.opts.Port, ready.Version, c.opts.Version).
			WithHint("End that owner (process %d) and start a new one.", ready.PID)
	}
	return c.replace(ctx, cn)
}

// agrees reports whether owner and program have the same operations and the
// same contract.
func (c *Client) agrees(cn *conn) bool {
	return c.opts.Operations == "" || cn.ready.Operations == c.opts.Operations && cn.fingerprint == wire.Fingerprint()
}

// replace has an older owner leave and starts a new one.
func (c *Client) replace(ctx context.Context, old *conn) (*conn, error) {
	c.log.Info("an older owner leaves", "owner", old.ready.Version, "pid", old.ready.PID)
	lctx, cancel := context.WithTimeout(ctx, leaveLimit)
	defer cancel()
	err := c.request(lctx, old, "shutdown", bridge.ShutdownParams{Reason: "pi-chrome " + c.opts.Version + " takes over"}, nil)
	if err == nil || errors.Is(err, errLost) {
		select {
		case <-old.done:
		case <-lctx.Done():
			err = fmt.Errorf("it did not end in %s", leaveLimit)
		}
	}
	old.close()
	if err != nil && !errors.Is(err, errLost) {
		return nil, op.NotAvailable(op.VersionMismatch, "the older owner (pi-chrome %s, process %d) did not leave port %d: %s; nothing was sent", old.ready.Version, old.ready.PID, c.opts.Port, err).
			WithHint("End process %d and try again.", old.ready.PID).WithCause(err)
	}
	cn, err := c.find(ctx)
	if err != nil {
		return nil, err
	}
	if !c.agrees(cn) {
		ready := cn.ready
		cn.close()
		return nil, op.NotAvailable(op.VersionMismatch, "pi-chrome %s took port %d instead of this pi-chrome %s; nothing was sent", ready.Version, c.opts.Port, c.opts.Version).
			WithHint("Two versions are in use at once: end the programs of one of them.")
	}
	return cn, nil
}

// find connects, starting an owner when none answers. The election between
// several that start one is the bind of the port.
func (c *Client) find(ctx context.Context) (*conn, error) {
	cn, err := open(ctx, c.opts)
	if slow, ok := errors.AsType[*slowError](err); ok {
		return nil, slow.err
	}
	if !isAbsent(err) {
		return cn, err
	}
	if c.opts.Start == nil {
		return nil, op.NotAvailable(op.BridgeUnavailable, "no owner answers on port %d of 127.0.0.1; nothing was sent", c.opts.Port).
			WithHint("Start one with pi-chrome serve.").WithCause(err).WithDetail("port", c.opts.Port)
	}
	wctx, cancel := context.WithTimeout(ctx, c.opts.ReadyTimeout)
	defer cancel()
	started := time.Now()
	if err := c.opts.Start(wctx); err != nil {
		return nil, op.NotAvailable(op.BridgeUnavailable, "no owner answers on port %d and none could be started: %s; nothing was sent", c.opts.Port, err).
			WithHint("Start one in a terminal to see why: pi-chrome serve.").WithCause(err)
	}
	absent := err // what was said last, other than that the time is over
	for pause := pollFirst; ; pause = min(2*pause, pollLast) {
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-wctx.Done():
			t.Stop()
			return nil, c.notReady(ctx, absent)
		}
		cn, err = open(wctx, c.opts)
		switch {
		case wctx.Err() != nil && err != nil:
			return nil, c.notReady(ctx, absent)
		case isAbsent(err), isSlow(err): // it binds the port before it has opened its state
			absent = err
		default:
			return cn, err
		}
		if failed := bridge.StartFailure(c.opts.StateDir, started); failed != nil {
			return nil, failed
		}
	}
}

func (c *Client) notReady(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return op.NotAvailable(op.Canceled, "waiting for the owner was canceled; nothing was sent").WithCause(ctx.Err())
	}
	absent, _ := errors.AsType[*absentError](err)
	switch {
	case absent == nil:
	case absent.hungUp:
		return foreign(c.opts, "it ends every connection without an answer").
			WithHint("If the port is forwarded from another machine, start the owner there: pi-chrome serve. Otherwise end the program that has it, or choose another port with --port or PI_CHROME_PORT.").WithCause(err)
	case absent.refuses:
		return foreign(c.opts, fmt.Sprintf("it still answers %q after %s, as an owner does only while it ends", "503 Service Unavailable", c.opts.ReadyTimeout)).WithCause(err)
	}
	return op.NotAvailable(op.BridgeUnavailable, "an owner was started for port %d and was not ready after %s; nothing was sent", c.opts.Port, c.opts.ReadyTimeout).
		WithHint("Its log says why: %s", bridge.LogPath(c.opts.StateDir)).WithCause(err)
}

func isAbsent(err error) bool {
	_, ok := errors.AsType[*absentError](err)
	return ok
}

func isSlow(err error) bool {
	_, ok := errors.AsType[*slowError](err)
	return ok
}

// older reports whether this program is older than the owner: by display
// version, then by build time. Of two that cannot be told apart the program
// wins: it is the one that somebody just started.
func older(version string, build time.Time, owner wire.OwnerReady) bool {
	if c := compareVersions(version, owner.Version); c != 0 {
		return c < 0
	}
	return !build.IsZero() && !owner.Build.IsZero() && build.Before(owner.Build)
}

// compareVersions orders display versions such as 1.10.0 and 1.10.0-beta.2;
// a version with a suffix comes before the one without.
func compareVersions(a, b string) int {
	aNum, aPre, _ := strings.Cut(strings.TrimPrefix(a, "v"), "-")
	bNum, bPre, _ := strings.Cut(strings.TrimPrefix(b, "v"), "-")
	if c := compareDotted(aNum, bNum); c != 0 {
		return c
	}
	switch {
	case aPre == bPre:
		return 0
	case aPre == "":
		return 1
	case bPre == "":
		return -1
	}
	return compareDotted(aPre, bPre)
}

func compareDotted(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(as), len(bs)) {
		x, y := "0", "0"
		if i < len(as) {
			x = as[i]
		}
		if i < len(bs) {
			y = bs[i]
		}
		n, err1 := strconv.Atoi(x)
		m, err2 := strconv.Atoi(y)
		c := strings.Compare(x, y)
		if err1 == nil && err2 == nil {
			c = n - m
		}
		if c != 0 {
			return max(-1, min(1, c))
		}
	}
	return 0
}
