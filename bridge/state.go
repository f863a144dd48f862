package bridge

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"time"

	"pi-chrome/driver/op"
)

// DefaultPort is the port of an owner when nobody chose another.
const DefaultPort = 17318

// The files of a state folder.
const (
	credentialFile = "owner-credential.json"
	databaseFile   = "state.db"
	ownerFile      = "owner.json"
	failureFile    = "start-error.json"
	logFile        = "owner.log"
)

// maxLog is the size at which the log is set aside when an owner starts. One
// older log is kept.
const maxLog = 4 << 20

var hex256 = regexp.MustCompile(`^[0-9a-f]{64}$`)

// DefaultStateDir returns the folder of this user's state:
// $XDG_STATE_HOME/pi-chrome or ~/.local/state/pi-chrome, on macOS
// ~/Library/Application Support/pi-chrome, on Windows %LocalAppData%\pi-chrome.
func DefaultStateDir() (string, error) {
	switch runtime.GOOS {
	case "windows":
		if d := os.Getenv("LocalAppData"); d != "" {
			return filepath.Join(d, "pi-chrome"), nil
		}
		return "", errors.New("finding the state folder: %LocalAppData% is not set; give --state-dir")
	case "darwin":
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("finding the state folder: %w", err)
		}
		return filepath.Join(home, "Library", "Application Support", "pi-chrome"), nil
	}
	// The base directory specification says that a relative path is ignored.
	if d := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "pi-chrome"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("finding the state folder: %w", err)
	}
	return filepath.Join(home, ".local", "state", "pi-chrome"), nil
}

// PrepareStateDir makes the state folder, only for this user (0700), and
// returns its absolute path.
func PrepareStateDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("resolving the state folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", op.NotAvailable(op.StateUnreadable, "the state folder %s cannot be made: %s", dir, err).
			WithHint("Make it writable for you, or choose another with --state-dir or PI_CHROME_STATE_DIR.")
	}
	info, err := os.Stat(dir)
	if err != nil {
		return "", op.NotAvailable(op.StateUnreadable, "the state folder %s cannot be read: %s", dir, err).
			WithHint("Choose another with --state-dir or PI_CHROME_STATE_DIR.")
	}
	if !info.IsDir() {
		return "", op.NotAvailable(op.StateUnreadable, "the state folder %s is a file", dir).
			WithHint("Move it away, or choose another folder with --state-dir or PI_CHROME_STATE_DIR.")
	}
	return dir, nil
}

// ErrNoCredential is in the chain of LoadCredential's error when no owner has
// run with the folder.
var ErrNoCredential = fs.ErrNotExist

type credentialJSON struct {
	Version    int    `json:"version"`
	Credential string `json:"credential"`
}

// LoadCredential reads the owner credential, 64 hex digits. It fails with
// ErrNoCredential in the chain when no owner has run here, and with
// op.CredentialUnreadable when the file is unreadable, malformed, of another
// user, or open to others. The message never holds the credential.
func LoadCredential(dir string) (string, error) {
	path := filepath.Join(dir, credentialFile)
	f, err := os.Open(path)
	if err != nil {
		return "", credentialError(path, "it cannot be read", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", credentialError(path, "it cannot be read", err)
	}
	if err := checkPrivate(info); err != nil {
		return "", credentialError(path, err.Error(), nil)
	}
	b, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return "", credentialError(path, "it cannot be read", err)
	}
	var c credentialJSON
	if json.Unmarshal(b, &c) != nil || c.Version != 1 || !hex256.MatchString(c.Credential) {
		return "", credentialError(path, "it is not a credential of version 1", nil)
	}
	return c.Credential, nil
}

func credentialError(path, why string, cause error) error {
	e := op.NotAvailable(op.CredentialUnreadable, "the owner credential %s: %s", path, why).WithDetail("path", path)
	if cause != nil {
		e.Message += ": " + rootText(cause)
		e = e.WithCause(cause)
	}
	if errors.Is(cause, fs.ErrNotExist) {
		return e.WithHint("No owner has run with this state folder yet. Start one with pi-chrome serve, or check --state-dir.")
	}
	return e.WithHint("Make it yours and private (chown, chmod 600). If it is damaged, end the owner, delete the file, and the next owner writes a new one; pairings stay.")
}

// rootText is the reason of a file error without the path, which the caller
// has said already.
func rootText(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}

// ensureCredential returns the credential of the folder, writing a new one
// when there is none. Of two that write at once, one wins and both read it.
func ensureCredential(dir string) (string, error) {
	c, err := LoadCredential(dir)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	b, err := json.Marshal(credentialJSON{Version: 1, Credential: randomHex(32)})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, credentialFile)
	tmp, err := os.CreateTemp(dir, ".credential-*") // made with 0600
	if err != nil {
		return "", credentialError(path, "it cannot be written", err)
	}
	defer os.Remove(tmp.Name())
	_, werr := tmp.Write(append(b, '\n'))
	if err := errors.Join(werr, tmp.Sync(), tmp.Close()); err != nil {
		return "", credentialError(path, "it cannot be written", err)
	}
	// A link fails where a rename would replace the other's.
	if err := os.Link(tmp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", credentialError(path, "it cannot be written", err)
	}
	return LoadCredential(dir)
}

// OwnerFile is owner.json: who holds the port, for messages only. Nothing
// trusts it.
type OwnerFile struct {
	PID       int       `json:"pid"`
	Port      int       `json:"port"`
	Version   string    `json:"version"`
	StartedAt time.Time `json:"startedAt"`
}

// ReadOwnerFile returns what the last owner of a state folder wrote of itself.
func ReadOwnerFile(dir string) (OwnerFile, error) {
	var o OwnerFile
	b, err := os.ReadFile(filepath.Join(dir, ownerFile))
	if err != nil {
		return o, err
	}
	if err := json.Unmarshal(b, &o); err != nil {
		return o, fmt.Errorf("decoding %s: %w", ownerFile, err)
	}
	return o, nil
}

func writeOwnerFile(dir string, o OwnerFile) error {
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return writeAtomic(filepath.Join(dir, ownerFile), append(b, '\n'))
}

// removeOwnerFile removes owner.json when it is still of this process.
func removeOwnerFile(dir string, pid int) {
	if o, err := ReadOwnerFile(dir); err == nil && o.PID == pid {
		// It is only for messages; a leftover misleads nobody for long.
		_ = os.Remove(filepath.Join(dir, ownerFile))
	}
}

// writeAtomic replaces the file by one with these bytes, whole and on the disk
// or not at all.
func writeAtomic(path string, b []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, werr := tmp.Write(b)
	if err := errors.Join(werr, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// noteStartFailure writes why an owner could not start, so that the program
// that started it in the background can say so.
func noteStartFailure(dir string, cause error) {
	e := op.AsError(cause)
	b, err := json.Marshal(e)
	if err == nil {
		// Where this fails too, the program says that no owner became ready.
		_ = writeAtomic(filepath.Join(dir, failureFile), append(b, '\n'))
	}
}

func removeStartFailure(dir string) {
	// A leftover is older than whatever is started next and misleads nobody.
	_ = os.Remove(filepath.Join(dir, failureFile))
}

// StartFailure returns why an owner that was started after the given time
// could not start, or nil.
func StartFailure(dir string, since time.Time) *op.Error {
	path := filepath.Join(dir, failureFile)
	info, err := os.Stat(path)
	// File times may be coarse: a failure of the last second counts.
	if err != nil || info.ModTime().Before(since.Add(-time.Second)) {
		return nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var e op.Error
	if json.Unmarshal(b, &e) != nil || e.Message == "" {
		return nil
	}
	return &e
}

// OpenLog opens owner.log of a state folder for appending (0600). A log of
// more than 4 MB is set aside as owner.log.1 first.
func OpenLog(dir string) (*os.File, error) {
	path := filepath.Join(dir, logFile)
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, fmt.Errorf("setting the old log aside: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	return f, nil
}

// LogPath is where an owner with this state folder logs.
func LogPath(dir string) string { return filepath.Join(dir, logFile) }

func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails: it ends the program when the system has no randomness
	return hex.EncodeToString(b)
}
