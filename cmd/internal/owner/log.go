package owner

import (
	"os"
	"sync"

	"pi-chrome/bridge"
)

// rotateAt is how much a running owner adds to its log before it looks whether
// the log is to be set aside.
const rotateAt = 1 << 20

// Log is the log file of an owner in the background. It and the one older
// file beside it are bounded.
type Log struct {
	dir string

	mu      sync.Mutex
	file    *os.File
	written int
}

// OpenLog opens owner.log of the state folder.
func OpenLog(stateDir string) (*Log, error) {
	f, err := bridge.OpenLog(stateDir)
	if err != nil {
		return nil, err
	}
	return &Log{dir: stateDir, file: f}, nil
}

// Write adds one record.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.written += len(b); l.written >= rotateAt {
		l.written = 0
		// Without a new file the old one goes on being used.
		if f, err := bridge.OpenLog(l.dir); err == nil {
			_ = l.file.Close()
			l.file = f
		}
	}
	return l.file.Write(b)
}

// Close closes the file.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}
