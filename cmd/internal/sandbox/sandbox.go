// Package sandbox makes a place where pi-chrome can be tried without touching
// anybody's browser: an owner on a free port with a private state folder, and
// a throw-away Chromium whose extension is paired with it.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"pi-chrome/bridge"
	"pi-chrome/bridge/client"
	"pi-chrome/cmd/internal/install"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/direct"
	"pi-chrome/driver/op"
)

// Bounds of the start and the end.
const (
	readyTimeout   = 15 * time.Second // the owner answers
	pairingTimeout = 45 * time.Second // the extension is paired and live
	endTimeout     = 8 * time.Second  // the owner ends by itself
)

// Options say what to start. Executable is required.
type Options struct {
	Executable string // of pi-chrome
	Headful    bool   // show a window, on a display of its own where there is none
	OwnDisplay bool   // of a headful browser, also where there is a display
	URL        string // of the first tab
	Keep       bool   // keep the folder with state, log and profile
	Browser    string // path of the browser; "" looks for one
	Unpaired   bool   // do not pair the extension
	// ExtensionPort is where the extension looks for its owner; 0 is where
	// the owner is.
	ExtensionPort int
	Note          func(format string, args ...any)
	Args          []string // further flags of the browser
	// OtherExtensions are folders of extensions that the browser has beside
	// ours.
	OtherExtensions []string
}

// Sandbox is a running sandbox. Close ends everything that it started.
type Sandbox struct {
	Dir      string // of everything below; removed by Close unless kept
	StateDir string
	Port     int
	Browser  *direct.Browser
	// Display is the X display made for a headful browser, or nil.
	Display *direct.Display

	opts  Options
	bin   string // a folder with pi-chrome in it
	owner *process
}

// Start starts a sandbox and waits until a command would be taken. What was
// started is ended again when it fails.
func Start(ctx context.Context, o Options) (*Sandbox, error) {
	if o.Note == nil {
		o.Note = func(string, ...any) {}
	}
	dir, err := os.MkdirTemp("", "pi-chrome-sandbox-")
	if err != nil {
		return nil, fmt.Errorf("making the sandbox's folder: %w", err)
	}
	s := &Sandbox{Dir: dir, StateDir: filepath.Join(dir, "state"), opts: o}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Sandbox) start(ctx context.Context) error {
	// Looked for first: without a browser nothing else is worth starting.
	var err error
	if s.opts.Browser == "" {
		s.opts.Browser, err = direct.Find()
	} else {
		s.opts.Browser, err = exec.LookPath(s.opts.Browser)
	}
	if err != nil {
		return op.NotAvailable(op.BrowserNotFound, "%s", err).WithHint("install Chromium, or set PI_CHROME_BROWSER to the path of one")
	}
	if s.bin, err = s.binFolder(); err != nil {
		return err
	}
	if s.Port, err = owner.FreePort(); err != nil {
		return err
	}
	s.opts.Note("starting an owner on port %d", s.Port)
	if err := s.StartOwner(); err != nil {
		return err
	}
	c, err := s.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	folder := s.Extension()
	port := s.opts.ExtensionPort
	if port == 0 {
		port = s.Port
	}
	if _, err := folder.Write(port); err != nil {
		return err
	}
	if s.opts.Unpaired {
		return s.launch(ctx, folder.Dir)
	}
	// Not as a folder's token: the browser is ours, so the first profile that
	// has the token is the right one, without 3 s to see whether others come.
	pairing, err := owner.StartPairing(ctx, c, bridge.PairingOptions{})
	if err != nil {
		return err
	}
	if err := folder.SetToken(port, pairing.Token); err != nil {
		return err
	}
	// The token lies in the folder no longer than it must.
	defer func() { _ = folder.ClearToken() }()
	if err := s.launch(ctx, folder.Dir); err != nil {
		return err
	}
	s.opts.Note("waiting for the extension")
	return s.pair(ctx, c)
}

// Extension is the folder from which the browser has loaded the extension.
func (s *Sandbox) Extension() install.Folder { return install.Default(s.StateDir) }

// pair waits until the extension is paired and connected.
func (s *Sandbox) pair(ctx context.Context, c *client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, pairingTimeout)
	defer cancel()
	stop := context.AfterFunc(doneContext(s.Browser.Done()), cancel)
	defer stop()
	explain := func(err error) error {
		select {
		case <-s.Browser.Done():
			return op.NotAvailable(op.ConnectorOffline, "the browser ended before its extension was paired")
		default:
		}
		return op.NotAvailable(op.ConnectorOffline, "the extension of the sandbox's browser did not come up: %s", err).
			WithHint("branded Chrome does not load extensions from the command line: set PI_CHROME_BROWSER to a Chromium or Chrome for Testing")
	}
	st, err := owner.WaitPairing(ctx, c)
	if err != nil {
		return explain(err)
	}
	if st.State != bridge.PairingDone {
		return explain(fmt.Errorf("the pairing is %s", st.State))
	}
	for {
		status, err := owner.Status(ctx, c, "")
		if err != nil {
			return explain(err)
		}
		for _, b := range status.Profiles {
			if b.Live {
				return nil
			}
		}
		timer := time.NewTimer(20 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return explain(errors.New("it was paired but is not connected"))
		}
	}
}

// doneContext is a context that ends with the channel.
func doneContext(done <-chan struct{}) context.Context {
	return channelContext{context.Background(), done}
}

type channelContext struct {
	context.Context
	done <-chan struct{}
}

func (c channelContext) Done() <-chan struct{} { return c.done }
func (c channelContext) Err() error {
	select {
	case <-c.done:
		return context.Canceled
	default:
		return nil
	}
}

func (s *Sandbox) launch(ctx context.Context, extension string) error {
	o := direct.Options{Binary: s.opts.Browser, Headful: s.opts.Headful, ExtensionDir: extension, URL: s.opts.URL, Args: s.opts.Args, OtherExtensions: s.opts.OtherExtensions}
	if s.opts.Keep {
		o.UserDataDir = filepath.Join(s.Dir, "profile")
	}
	none := os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == ""
	if s.opts.Headful && (none || s.opts.OwnDisplay) && runtime.GOOS == "linux" {
		s.opts.Note("starting a display")
		d, err := direct.StartDisplay(ctx)
		if err != nil {
			return err
		}
		s.Display, o.Env = d, d.Env()
	}
	s.opts.Note("starting a browser")
	b, err := direct.Launch(ctx, &o)
	if err != nil {
		return op.NotAvailable(op.BrowserNotFound, "the sandbox's browser did not start: %s", err).WithHint("PI_CHROME_BROWSER chooses another browser")
	}
	s.Browser = b
	return nil
}

// StartOwner starts the sandbox's owner, or a new one after it was killed. It
// ends with this process, however that ends: it reads a pipe of ours.
func (s *Sandbox) StartOwner() error {
	cmd := exec.Command(s.opts.Executable)
	cmd.Args = append([]string{"pi-chrome"}, owner.ServeArgs(s.Port, s.StateDir)...)
	cmd.Args = append(cmd.Args, "--background", "--until-stdin-ends", "--idle", "-1s")
	if _, err := bridge.PrepareStateDir(s.StateDir); err != nil {
		return err
	}
	log, err := bridge.OpenLog(s.StateDir)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, s.StateDir
	p, err := startProcess(cmd)
	if err != nil {
		return fmt.Errorf("starting the sandbox's owner: %w", err)
	}
	s.owner = p
	return nil
}

// OwnerPID is the id of the owner that the sandbox started.
func (s *Sandbox) OwnerPID() int { return s.owner.cmd.Process.Pid }

// KillOwner kills the owner at once and waits for its end.
func (s *Sandbox) KillOwner() error {
	if err := s.owner.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("killing the owner: %w", err)
	}
	<-s.owner.done
	return nil
}

// Dial connects to the sandbox's owner.
func (s *Sandbox) Dial(ctx context.Context) (*client.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return client.Dial(ctx, client.Options{
		Port: s.Port, StateDir: s.StateDir, Name: owner.Name + " sandbox", Version: owner.Version, Build: owner.Build(), EffectOf: owner.EffectOf,
		// The owner is starting already: the client only waits for it.
		Start:        func(context.Context) error { return nil },
		ReadyTimeout: readyTimeout,
	})
}

// Env is the environment of a program that works in the sandbox: `pi-chrome …`
// in it speaks to the sandbox's owner.
func (s *Sandbox) Env() []string {
	env := []string{
		fmt.Sprintf("PI_CHROME_PORT=%d", s.Port),
		"PI_CHROME_STATE_DIR=" + s.StateDir,
		"PATH=" + s.bin + string(os.PathListSeparator) + os.Getenv("PATH"),
	}
	if s.Display != nil {
		env = append(env, s.Display.Env()...)
	}
	return env
}

// binFolder returns a folder in which this program is called pi-chrome.
func (s *Sandbox) binFolder() (string, error) {
	name := filepath.Base(s.opts.Executable)
	if strings.TrimSuffix(name, ".exe") == "pi-chrome" {
		return filepath.Dir(s.opts.Executable), nil
	}
	bin := filepath.Join(s.Dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		return "", fmt.Errorf("making the sandbox's folder: %w", err)
	}
	link := filepath.Join(bin, "pi-chrome"+filepath.Ext(name))
	if runtime.GOOS != "windows" {
		link = filepath.Join(bin, "pi-chrome")
	}
	if err := os.Symlink(s.opts.Executable, link); err != nil {
		return "", fmt.Errorf("naming this program in the sandbox: %w", err)
	}
	return bin, nil
}

// Close ends the browser, the display and the owner, waits for them and
// removes the folder. It may be called after a failed start.
func (s *Sandbox) Close() error {
	var errs []error
	if s.Browser != nil {
		errs = append(errs, s.Browser.Close())
	}
	if s.Display != nil {
		errs = append(errs, s.Display.Close())
	}
	errs = append(errs, s.endOwner())
	if !s.opts.Keep {
		errs = append(errs, os.RemoveAll(s.Dir))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("ending the sandbox: %w", err)
	}
	return nil
}

// endOwner ends the owner of the port: ours, or the one that a command in the
// sandbox started after ours had gone.
func (s *Sandbox) endOwner() error {
	if s.owner == nil {
		return nil
	}
	select {
	case <-s.owner.done:
		ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
		defer cancel()
		c, err := client.Dial(ctx, client.Options{Port: s.Port, StateDir: s.StateDir, Name: owner.Name + " sandbox"})
		if err != nil {
			return nil // nobody is there: that is what is wanted
		}
		return errors.Join(owner.Shutdown(ctx, c, "the sandbox ends"), c.Close())
	default:
		return s.owner.end(endTimeout)
	}
}

// process is a child that ends when its stdin does.
type process struct {
	cmd  *exec.Cmd
	in   io.Closer
	done chan struct{} // closed when it has ended
}

func startProcess(cmd *exec.Cmd) (*process, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	p := &process{cmd: cmd, in: in, done: make(chan struct{})}
	go func() {
		// How an ended owner ended tells nothing here; its log does.
		_ = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// end closes the child's stdin, waits, and kills it when it does not end.
func (p *process) end(wait time.Duration) error {
	_ = p.in.Close() // closed already when the child has ended
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	}
	err := p.cmd.Process.Kill()
	<-p.done
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return fmt.Errorf("the owner did not end within %s and was killed", wait)
}
