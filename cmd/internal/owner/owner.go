package owner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"pi-chrome/bridge"
	"pi-chrome/cmd/internal/install"
	"pi-chrome/extension"
)

// Options say where an owner listens. StateDir is required.
type Options struct {
	Port     int // of 127.0.0.1; 0 for any free one
	StateDir string
	Logger   *slog.Logger // nil for none
	// IdleTimeout is how long it lives unused: 0 is 30 minutes, negative is
	// for ever.
	IdleTimeout time.Duration
	// WebOrigins are the pages that may offer their profile; nil is
	// bridge.DefaultWebOrigins, empty is none.
	WebOrigins []string
	// Ready is told the port once the owner listens; nil for nobody.
	Ready func(port int)
	// Wrap, for tests, stands between the bridge and the driver; nil for
	// nothing.
	Wrap func(bridge.Handler) bridge.Handler
}

// Run is the owner: it holds the port until ctx ends, a client asks for the
// end, or nobody has used it for the idle time.
func Run(ctx context.Context, o Options) error {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	operations, err := Fingerprint()
	if err != nil {
		return err
	}
	h, err := newHandler(o.Logger)
	if err != nil {
		return err
	}
	defer h.close()
	var handler bridge.Handler = h
	if o.Wrap != nil {
		handler = o.Wrap(h)
	}
	s, err := bridge.Listen(bridge.Options{
		Port: o.Port, StateDir: o.StateDir, ExtensionID: extension.ID, Handler: handler, Logger: o.Logger,
		Version: Version, Build: Build(), OperationsFingerprint: operations, IdleTimeout: o.IdleTimeout, WebOrigins: o.WebOrigins,
		ExtensionDir: install.Default(o.StateDir).Dir,
	})
	if err != nil {
		return err
	}
	if o.Ready != nil {
		o.Ready(s.Port())
	}
	return s.Serve(ctx)
}

// Start starts an owner in the background, in a session of its own, so that it
// outlives this process and its terminal. It logs to owner.log of the state
// folder. It returns without waiting until the owner is ready.
func Start(executable string, port int, stateDir string) error {
	if _, err := bridge.PrepareStateDir(stateDir); err != nil {
		return err
	}
	log, err := bridge.OpenLog(stateDir)
	if err != nil {
		return fmt.Errorf("starting an owner: %w", err)
	}
	cmd := exec.Command(executable)
	cmd.Args = append([]string{"pi-chrome"}, append(ServeArgs(port, stateDir), "--background")...)
	cmd.Stdout, cmd.Stderr = log, log
	// A folder that stays: a later owner must not hold the caller's folder.
	cmd.Dir = stateDir
	detach(cmd)
	err = cmd.Start()
	if err == nil {
		err = cmd.Process.Release()
	}
	if err = errors.Join(err, log.Close()); err != nil {
		return fmt.Errorf("starting an owner: %w", err)
	}
	return nil
}

// ServeArgs is the command line of an owner, without the program's name.
func ServeArgs(port int, stateDir string) []string {
	return []string{"serve", "--port", strconv.Itoa(port), "--state-dir", stateDir}
}

// FreePort returns a port of 127.0.0.1 that nobody has at the moment.
func FreePort() (int, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("finding a free port: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// Executable is the program that Start starts: this one. In a test it is the
// test's binary, which acts as pi-chrome when it is called so.
func Executable() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding this program: %w", err)
	}
	return filepath.Clean(exe), nil
}
