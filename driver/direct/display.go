package direct

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Display is an X display of its own with a window manager, for a headful
// browser where there is no screen.
type Display struct {
	// Name is the DISPLAY value, such as ":99".
	Name string

	server, manager *process
	dir             string
}

// Env is the environment of a program that shows its windows there.
func (d *Display) Env() []string { return []string{"DISPLAY=" + d.Name, "WAYLAND_DISPLAY="} }

// StartDisplay starts Xvfb on a free display number and openbox on it, and
// waits until the window manager runs. The caller must Close it.
func StartDisplay(ctx context.Context) (*Display, error) {
	for _, name := range []string{"Xvfb", "openbox"} {
		if _, err := exec.LookPath(name); err != nil {
			return nil, fmt.Errorf("starting a display: %w; install it (Debian: apt-get install xvfb openbox)", err)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 20*time.Second, errors.New("the display did not come up within 20s"))
	defer cancel()
	dir, err := os.MkdirTemp("", "pi-chrome-display-")
	if err != nil {
		return nil, fmt.Errorf("starting a display: %w", err)
	}
	d := &Display{dir: dir}
	if err := d.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting a display: %w", err), d.Close())
	}
	return d, nil
}

func (d *Display) start(ctx context.Context) error {
	// The server picks a free number and writes it to its descriptor 4.
	p, in, out, err := start("Xvfb", []string{"-displayfd", "4", "-screen", "0", "1600x1000x24", "-nolisten", "tcp", "-noreset"}, nil)
	if err != nil {
		return err
	}
	d.server = p
	defer func() { _ = in.Close(); _ = out.Close() }()
	number := make(chan string, 1)
	go func() {
		// Ends with the server at the latest: out is closed by then.
		line, _ := bufio.NewReader(out).ReadString('\n')
		number <- strings.TrimSpace(line)
	}()
	select {
	case n := <-number:
		if n == "" {
			return fmt.Errorf("the server ended%s", p.said())
		}
		d.Name = ":" + n
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	ready := filepath.Join(d.dir, "ready")
	p, in2, out2, err := start("openbox", []string{"--sm-disable", "--startup", "touch " + ready},
		append(d.Env(), "XDG_CONFIG_HOME="+d.dir, "XDG_CACHE_HOME="+d.dir, "XDG_DATA_HOME="+d.dir))
	if err != nil {
		return err
	}
	d.manager = p
	defer func() { _ = in2.Close(); _ = out2.Close() }()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(ready); err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.done:
			return fmt.Errorf("the window manager ended%s", p.said())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Close ends both processes and waits for them.
func (d *Display) Close() error {
	var errs []error
	for _, p := range []*process{d.manager, d.server} {
		if p != nil {
			p.terminate() // a killed server leaves its lock file behind
			errs = append(errs, p.end())
		}
	}
	return errors.Join(append(errs, os.RemoveAll(d.dir))...)
}
