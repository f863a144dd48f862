package cli

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"pi-chrome/bridge"
	"pi-chrome/bridge/client"
	"pi-chrome/bridge/pi"
	"pi-chrome/cmd/internal/artifact"
	"pi-chrome/cmd/internal/install"
	"pi-chrome/cmd/internal/near"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/cmd/internal/pihost"
	"pi-chrome/driver/op"
)

func piCommand() *command {
	return &command{
		name: "pi", group: groupSetup, args: "install|path [DIR]", summary: "Put the Pi package where Pi finds it.",
		doc: "install writes the package into extensions/pi-chrome of Pi's folder (PI_CODING_AGENT_DIR, else ~/.pi/agent), with the path of this program; in Pi, /reload finds it. " +
			"path prints the folder. The folder is a Pi package by itself too: pi install DIR.",
		prepare: func(a *app, _ *pflag.FlagSet) runFunc {
			return func(_ context.Context, args []string) (output, error) {
				actions := []string{"install", "path"}
				if len(args) == 0 || len(args) > 2 {
					return output{}, usageError("pi", "say what to do: %s", strings.Join(actions, " or "))
				}
				dir, err := a.piFolder()
				if err != nil {
					return output{}, err
				}
				if len(args) == 2 {
					dir = absolute(a.env.Dir, args[1])
				}
				switch args[0] {
				case "install":
					return a.installPi(dir)
				case "path":
					return output{value: map[string]any{"dir": dir}, text: dir}, nil
				}
				e := usageError("pi", "%q is not something to do with Pi; allowed: %s", args[0], strings.Join(actions, ", "))
				if meant := near.Of(args[0], actions); meant != "" {
					e.Hint = "did you mean " + meant + "? " + e.Hint
				}
				return output{}, e
			}
		},
	}
}

// piFolder is where Pi looks for an extension of every project.
func (a *app) piFolder() (string, error) {
	agent := a.env.Getenv("PI_CODING_AGENT_DIR")
	if agent == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", op.Reject(op.Internal, "finding the home folder: %s", err).WithHint("name the folder: pi-chrome pi install DIR")
		}
		agent = filepath.Join(home, ".pi", "agent")
	}
	return filepath.Join(absolute(a.env.Dir, agent), "extensions", "pi-chrome"), nil
}

// installPi writes the package. What differs is replaced file by file, each
// whole or not at all; scripts of an older release are removed.
func (a *app) installPi(dir string) (output, error) {
	failed := func(err error) error {
		return op.Reject(op.Internal, "writing the Pi package into %s: %s", dir, err).
			WithHint("mend the folder, or name another one: pi-chrome pi install DIR; what is there is a mixture until it succeeds")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return output{}, failed(err)
	}
	ours := map[string][]byte{}
	if err := fs.WalkDir(pi.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		ours[name], err = fs.ReadFile(pi.FS(), name)
		return err
	}); err != nil {
		return output{}, failed(err)
	}
	var note bytes.Buffer
	if err := writeJSON(&note, map[string]string{"path": a.env.Executable}); err != nil {
		return output{}, failed(err)
	}
	ours[pi.ProgramFile] = note.Bytes()
	written := 0
	for i, name := range slices.Sorted(maps.Keys(ours)) {
		content := ours[name]
		changed, err := install.Replace(filepath.Join(dir, name), content, 0o644)
		if err != nil {
			return output{}, failed(err)
		}
		if changed {
			written++
		}
		a.progress(i+1, len(ours), name)
	}
	old, err := filepath.Glob(filepath.Join(dir, "*.ts"))
	if err != nil {
		return output{}, failed(err)
	}
	removed := 0
	for _, path := range old {
		if _, ok := ours[filepath.Base(path)]; ok {
			continue
		}
		if err := os.Remove(path); err != nil {
			return output{}, failed(err)
		}
		removed++
	}
	text := fmt.Sprintf("Pi package %s in %s\n", owner.Version, dir)
	if written+removed == 0 {
		text += "nothing to change\n"
	} else {
		text += fmt.Sprintf("%d files written, %d unchanged, %d removed\n", written, len(ours)-written, removed)
	}
	text += "start pi, or /reload in a running one; then /chrome onboard and /chrome authorize\n"
	return output{value: map[string]any{"dir": dir, "written": written, "removed": removed}, text: text}, nil
}

func piHostCommand() *command {
	return &command{
		name: "pi-host", stream: always, group: groupOwner, summary: "Serve the Pi package over stdin and stdout; Pi starts it.",
		prepare: func(a *app, _ *pflag.FlagSet) runFunc {
			return func(ctx context.Context, args []string) (output, error) {
				if err := noArgs("pi-host", args); err != nil {
					return output{}, err
				}
				b := &piBackend{app: a}
				defer b.close()
				err := pihost.Serve(ctx, pihost.Options{In: a.env.Stdin, Out: a.env.Stdout, Version: owner.Version, Backend: b})
				return output{done: true}, err
			}
		},
	}
}

// piBackend runs what Pi asks for as this command line would.
type piBackend struct {
	app *app

	mu     sync.Mutex
	shared *client.Client // reconnects by itself; nil until first needed
}

func (b *piBackend) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shared != nil {
		_ = b.shared.Close()
	}
}

// connect returns the one connection of this host; start allows it to start
// an owner.
func (b *piBackend) connect(ctx context.Context, start bool) (*client.Client, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shared != nil {
		return b.shared, nil
	}
	if !start {
		// Its owner may be gone at the next question: this connection is not
		// kept, since it could not start another.
		return b.app.dialRunning(ctx)
	}
	c, err := b.app.dial(ctx)
	if err != nil {
		return nil, err
	}
	b.shared = c
	return c, nil
}

func (b *piBackend) release(c *client.Client) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c != b.shared {
		_ = c.Close()
	}
}

// as is the command line as the session's.
func (b *piBackend) as(s pihost.Session, dir string) *app {
	sub := &app{env: b.app.env, globals: b.app.globals, title: s.Title}
	sub.globals.session = s.Key
	sub.env.StderrTerminal = false
	if dir != "" {
		sub.env.Dir = dir
	}
	return sub
}

// Tools describes all operations.
func (b *piBackend) Tools() ([]op.Descriptor, error) { return owner.Descriptors() }

// Call runs one tool over the shared connection.
func (b *piBackend) Call(ctx context.Context, c pihost.Call) (pihost.Answer, error) {
	desc, err := owner.Find(c.Tool)
	if err != nil {
		return pihost.Answer{}, err
	}
	sub := b.as(c.Session, c.Dir)
	sub.globals.front = c.Foreground
	sub.tell = c.Progress
	out, err := sub.operateOn(ctx, func(ctx context.Context) (*client.Client, func(), error) {
		shared, err := b.connect(ctx, true)
		return shared, func() {}, err
	}, desc, c.Input)
	if err != nil {
		return pihost.Answer{}, asError(err)
	}
	a := pihost.Answer{Text: out.text, CommandID: out.commandID}
	if raw, ok := out.value.(json.RawMessage); ok {
		a.Value = raw
	}
	if out.elapsedMs != nil {
		a.ElapsedMs = *out.elapsedMs
	}
	if c.Images {
		shown, note := artifact.Bounded(out.pictures, maxShownPictures, maxShownBytes)
		for _, p := range shown {
			a.Images = append(a.Images, pihost.Image{MIMEType: p.MIMEType, Data: base64.StdEncoding.EncodeToString(p.Data)})
		}
		a.Text += note
	}
	return a, nil
}

// What a model is shown of the pictures of a call: a picture costs it tokens
// and the provider limits the request.
const (
	maxShownPictures = 4
	maxShownBytes    = 4 << 20
)

// Command runs a command line for the session.
func (b *piBackend) Command(ctx context.Context, s pihost.Session, dir string, args []string) (string, int) {
	sub := b.as(s, dir)
	var out bytes.Buffer
	sub.env.Stdin, sub.env.Stdout, sub.env.Stderr = strings.NewReader(""), &out, &out
	code := Run(ctx, sub.env, append([]string{
		"--session", s.Key, "--state-dir", sub.globals.stateDir, "--port", sub.globals.port,
	}, args...))
	return strings.TrimRight(out.String(), "\n"), code
}

// Authorization asks how the session stands.
func (b *piBackend) Authorization(ctx context.Context, s pihost.Session, start bool) (bridge.Authorization, error) {
	c, err := b.connect(ctx, start)
	if err != nil {
		return bridge.Authorization{}, err
	}
	defer b.release(c)
	st, err := owner.Status(ctx, c, s.Key)
	if err != nil {
		return bridge.Authorization{}, err
	}
	return bridge.Authorization{Mode: st.Session.Authorization, Until: st.Session.ExpiresAt}, nil
}

// Revoke locks the session.
func (b *piBackend) Revoke(ctx context.Context, s pihost.Session) error {
	c, err := b.connect(ctx, true)
	if err != nil {
		return err
	}
	defer b.release(c)
	_, err = owner.Revoke(ctx, c, s.Key)
	return err
}
