package direct

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
	"sync"
	"time"
)

// Options say how the browser is started. Nil and the zero value mean a
// headless browser with a temporary profile.
type Options struct {
	// Binary is the browser to start. "" looks for one, see [Find].
	Binary string
	// Headful shows a window; it needs a display ([StartDisplay]).
	Headful bool
	// UserDataDir is the profile's folder. "" is a temporary one, removed by
	// Close; a given one is kept.
	UserDataDir string
	// ExtensionDir is the folder of an unpacked extension to load, and
	// OtherExtensions are those of others to load beside it; without it they
	// mean nothing. No further one is loaded.
	ExtensionDir    string
	OtherExtensions []string
	// URL is shown in the first tab; "" is about:blank.
	URL string
	// Width and Height are the window's size in px; zero is 1280 × 800.
	Width, Height int
	// Env is added to this process's environment, as "NAME=value".
	Env []string
	// Args are further flags of the browser.
	Args []string
	// StartTimeout bounds the time until the browser answers; zero is 30 s.
	StartTimeout time.Duration
}

// ErrNoBrowser means that no browser was found to start.
var ErrNoBrowser = errors.New("no Chromium found")

// Find returns the browser that Launch starts: PI_CHROME_BROWSER where it is
// set, else the first of chromium, chromium-browser, chrome-for-testing and
// chrome that is installed. Branded Chrome comes last because it does not load
// unpacked extensions from the command line.
func Find() (string, error) {
	if p := os.Getenv("PI_CHROME_BROWSER"); p != "" {
		full, err := exec.LookPath(p)
		if err != nil {
			return "", fmt.Errorf("%w: PI_CHROME_BROWSER is %q, which cannot be started: %w", ErrNoBrowser, p, err)
		}
		return full, nil
	}
	for _, name := range candidates() {
		if full, err := exec.LookPath(name); err == nil {
			return full, nil
		}
	}
	return "", fmt.Errorf("%w: install Chromium (Debian: apt-get install chromium; macOS: brew install --cask chromium) "+
		"or Chrome for Testing, or set PI_CHROME_BROWSER to a browser's path", ErrNoBrowser)
}

// FindAll returns what [Find] does, and Edge and Brave where they are
// installed: every browser that is worth trying. With PI_CHROME_BROWSER set it
// is that one only.
func FindAll() ([]string, error) {
	first, err := Find()
	if err == nil && os.Getenv("PI_CHROME_BROWSER") != "" {
		return []string{first}, nil
	}
	var all []string
	if err == nil {
		all = append(all, first)
	}
	for _, family := range relatives() {
		for _, name := range family {
			if full, lerr := exec.LookPath(name); lerr == nil {
				all = append(all, full)
				break
			}
		}
	}
	if len(all) == 0 {
		return nil, err
	}
	return all, nil
}

// relatives are the names of other browsers with Chromium's engine, a list for
// each.
func relatives() [][]string {
	edge, brave := []string{"microsoft-edge", "microsoft-edge-stable"}, []string{"brave-browser", "brave"}
	switch runtime.GOOS {
	case "darwin":
		edge = append(edge, "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge")
		brave = append(brave, "/Applications/Brave Browser.app/Contents/MacOS/Brave Browser")
	case "windows":
		for _, root := range []string{os.Getenv("ProgramFiles(x86)"), os.Getenv("ProgramFiles"), os.Getenv("LOCALAPPDATA")} {
			if root != "" {
				edge = append(edge, filepath.Join(root, "Microsoft", "Edge", "Application", "msedge.exe"))
				brave = append(brave, filepath.Join(root, "BraveSoftware", "Brave-Browser", "Application", "brave.exe"))
			}
		}
	}
	return [][]string{edge, brave}
}

func candidates() []string {
	names := []string{"chromium", "chromium-browser", "google-chrome-for-testing", "chrome-for-testing", "chrome", "google-chrome", "google-chrome-stable"}
	switch runtime.GOOS {
	case "darwin":
		names = append(names,
			"/Applications/Chromium.app/Contents/MacOS/Chromium",
			"/Applications/Google Chrome for Testing.app/Contents/MacOS/Google Chrome for Testing",
			"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
	case "windows":
		for _, root := range []string{os.Getenv("LOCALAPPDATA"), os.Getenv("ProgramFiles"), os.Getenv("ProgramFiles(x86)")} {
			if root != "" {
				names = append(names, filepath.Join(root, "Chromium", "Application", "chrome.exe"), filepath.Join(root, "Google", "Chrome", "Application", "chrome.exe"))
			}
		}
	}
	return names
}

// disabledFeatures are features that no page sees, by the names that Chromium has for
// them; one that does not know a name ignores it. The three of the address
// bar load two pages of the browser's own for each window, which is half of
// what the start of a browser costs.
var disabledFeatures = []string{
	"Translate", "MediaRouter", "OptimizationHints",
	"WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup",
}

// arguments are the browser's flags. They keep it off the network that no test
// needs, and change nothing of how a hidden tab behaves.
func (o *Options) arguments(dir string) []string {
	width, height := o.Width, o.Height
	if width == 0 {
		width = 1280
	}
	if height == 0 {
		height = 800
	}
	args := []string{
		"--remote-debugging-pipe",
		"--user-data-dir=" + dir,
		fmt.Sprintf("--window-size=%d,%d", width, height),
		"--no-first-run", "--no-default-browser-check", "--no-service-autorun",
		"--disable-background-networking", "--disable-component-update", "--disable-default-apps",
		"--disable-sync", "--disable-quic", "--disable-breakpad", "--disable-search-engine-choice-screen",
		"--disable-features=" + strings.Join(disabledFeatures, ","),
		"--password-store=basic", "--use-mock-keychain", "--force-color-profile=srgb",
	}
	if !o.Headful {
		args = append(args, "--headless=new", "--disable-gpu")
	}
	if os.Geteuid() == 0 {
		args = append(args, "--no-sandbox")
	}
	if o.ExtensionDir != "" {
		folders := strings.Join(append([]string{o.ExtensionDir}, o.OtherExtensions...), ",")
		args = append(args, "--load-extension="+folders, "--disable-extensions-except="+folders)
	}
	args = append(args, o.Args...)
	if o.URL == "" {
		return append(args, "about:blank")
	}
	return append(args, o.URL)
}

// Launch starts a browser and waits until it answers. The caller must Close
// it. A context that ends later does not end the browser.
func Launch(ctx context.Context, opts *Options) (*Browser, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	binary := o.Binary
	if binary == "" {
		var err error
		if binary, err = Find(); err != nil {
			return nil, err
		}
	}
	dir, temporary := o.UserDataDir, false
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "pi-chrome-profile-"); err != nil {
			return nil, fmt.Errorf("making a profile folder: %w", err)
		}
		temporary = true
	}
	if o.ExtensionDir != "" {
		full := make([]string, 1+len(o.OtherExtensions))
		for i, folder := range append([]string{o.ExtensionDir}, o.OtherExtensions...) {
			var err error
			if full[i], err = filepath.Abs(folder); err != nil {
				return nil, fmt.Errorf("finding the extension's folder: %w", err)
			}
		}
		o.ExtensionDir, o.OtherExtensions = full[0], full[1:]
	}
	p, in, out, err := start(binary, o.arguments(dir), o.Env)
	if err != nil {
		if temporary {
			err = errors.Join(err, os.RemoveAll(dir))
		}
		return nil, fmt.Errorf("starting %s: %w", binary, err)
	}
	p.dir, p.temporary = dir, temporary
	b := newBrowser(p, in, out)
	timeout := o.StartTimeout
	if timeout == 0 {
		timeout = 30 * time.Second
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it did not answer within %s", timeout))
	defer cancel()
	if err := b.hello(ctx); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		closed := b.Close()
		return nil, errors.Join(fmt.Errorf("starting %s: %w%s", binary, err, p.said()), closed)
	}
	return b, nil
}

// process is a started browser with everything it started in turn.
type process struct {
	cmd       *exec.Cmd
	done      chan struct{} // closed when the first process has ended
	stderr    tail
	dir       string
	temporary bool
}

// start starts the binary with a pipe at its descriptors 3 (it reads) and 4
// (it writes), in a process group of its own.
func start(binary string, args, env []string) (*process, io.WriteCloser, io.ReadCloser, error) {
	childIn, in, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, errors.Join(err, childIn.Close(), in.Close())
	}
	said, childErr, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, errors.Join(err, childIn.Close(), in.Close(), out.Close(), childOut.Close())
	}
	p := &process{done: make(chan struct{})}
	p.cmd = exec.Command(binary, args...)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = childErr
	p.cmd.ExtraFiles = []*os.File{childIn, childOut}
	ownGroup(p.cmd)
	err = p.cmd.Start()
	closed := errors.Join(childIn.Close(), childOut.Close(), childErr.Close())
	if err != nil {
		return nil, nil, nil, errors.Join(err, closed, in.Close(), out.Close(), said.Close())
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		// It ends with the pipe, or with its deadline below.
		_, _ = io.Copy(&p.stderr, said)
	}()
	go func() {
		// How a killed browser ended tells nothing.
		_ = p.cmd.Wait()
		// The crash reporter is outside the group and keeps its end of the
		// pipe open: what is there by now is all that matters.
		_ = said.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		<-read
		_ = said.Close()
		close(p.done)
	}()
	return p, in, out, nil
}

// end kills the process group, waits for it and removes a temporary profile.
func (p *process) end() error {
	killGroup(p.cmd.Process.Pid)
	<-p.done
	deadline := time.Now().Add(5 * time.Second)
	for groupAlive(p.cmd.Process.Pid) && time.Now().Before(deadline) {
		killGroup(p.cmd.Process.Pid)
		time.Sleep(10 * time.Millisecond)
	}
	if !p.temporary {
		return nil
	}
	if err := os.RemoveAll(p.dir); err != nil {
		return fmt.Errorf("removing the profile: %w", err)
	}
	return nil
}

// terminate asks the group to end and gives it a second.
func (p *process) terminate() {
	terminateGroup(p.cmd.Process.Pid)
	select {
	case <-p.done:
	case <-time.After(time.Second):
	}
}

// said is the end of what the browser wrote, for an error message.
func (p *process) said() string {
	if s := strings.TrimSpace(p.stderr.String()); s != "" {
		return "; the browser said: " + s
	}
	return ""
}

// tail keeps the last bytes written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailSize = 2048

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if n := len(t.buf) - tailSize; n > 0 {
		t.buf = append(t.buf[:0], t.buf[n:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}
