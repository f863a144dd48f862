package bridge

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Bounds of the audit log: a file that is full is set aside, and the oldest go.
const (
	auditBytes  = 8 << 20
	auditOlder  = 7
	auditPrefix = "audit-"
	auditName   = "audit.log"
	auditHead   = "audit.head"
	maxAuditRow = 64 << 10    // of a reader's buffer
	auditRetry  = time.Second // between two attempts to open a log that cannot be written
)

// AuditEntry is one line of the audit log: who did what, where, and what came
// of it. It holds no text that was typed and no result.
type AuditEntry struct {
	Seq       int64          `json:"seq"` // from 1, without a gap
	At        time.Time      `json:"at"`
	Event     string         `json:"event"` // command, request, paired, unused, authorize, stopped, taken, handed-back, owner-started, torn, cut, resumed
	ID        string         `json:"id,omitempty"`
	Client    []string       `json:"client,omitempty"` // names of the programs that waited
	Session   string         `json:"session,omitempty"`
	Connector string         `json:"connector,omitempty"`
	TabID     int            `json:"tabId,omitempty"`
	Origin    string         `json:"origin,omitempty"`    // scheme://host[:port] of the page that it was for, where the owner knew it
	Operation string         `json:"operation,omitempty"` // of a command its name, of a request its method
	Input     map[string]any `json:"input,omitempty"`     // addresses without query; of other texts the length
	Outcome   string         `json:"outcome,omitempty"`
	ElapsedMs int64          `json:"elapsedMs,omitempty"`
	Note      string         `json:"note,omitempty"`
	Lost      *AuditLoss     `json:"lost,omitempty"` // of cut
	Prev      string         `json:"prev"`           // hash of the entry before, 64 zeros for the first
	Hash      string         `json:"hash"`           // SHA-256 of this entry with an empty hash
}

// Events of a log that goes on where its end was not whole.
const (
	auditTorn = "torn"
	auditCut  = "cut" // the numbers go on behind what is lost
)

var auditStart = strings.Repeat("0", 64)

func (e AuditEntry) sum() (string, error) {
	e.Hash = ""
	raw, err := json.Marshal(e)
	if err != nil {
		return "", err
	}
	h := sha256.Sum256(raw)
	return hex.EncodeToString(h[:]), nil
}

// auditLog appends to the log of a state folder. Its methods may be called from
// many goroutines.
type auditLog struct {
	dir string
	now func() time.Time

	mu     sync.Mutex
	file   *os.File // nil while it is not open
	size   int64
	seq    int64
	last   string // hash of the last entry
	closed bool

	tried  time.Time // when it could not be opened last
	failed error     // and why
}

// newAudit is the log of a folder. It is opened by its first entry, and again
// by a later one after it could not be written.
func newAudit(dir string) *auditLog { return &auditLog{dir: dir, now: time.Now} }

// openLocked opens the log and goes on with its chain. A line that a crash cut
// short stays, and the next entry says so.
func (l *auditLog) openLocked() error {
	if l.failed != nil && l.now().Sub(l.tried) < auditRetry {
		return l.failed
	}
	err := l.resumeLocked()
	l.tried, l.failed = l.now(), err
	if err != nil && l.file != nil {
		_ = l.file.Close() // the error says enough
		l.file = nil
	}
	return err
}

// auditFiles are the files of the log, oldest first.
func auditFiles(dir string) ([]string, error) {
	all, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	current := false
	for _, e := range all {
		if strings.HasPrefix(e.Name(), auditPrefix) && strings.HasSuffix(e.Name(), ".log") {
			names = append(names, e.Name())
		}
		current = current || e.Name() == auditName
	}
	slices.Sort(names)
	if current {
		names = append(names, auditName)
	}
	return names, nil
}

// add appends one entry.
func (l *auditLog) add(e AuditEntry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return fs.ErrClosed
	}
	if l.file == nil {
		if err := l.openLocked(); err != nil {
			return err
		}
	}
	if l.size >= auditBytes {
		if err := l.rotateLocked(); err != nil {
			return err
		}
	}
	return l.addLocked(e)
}

func (l *auditLog) addLocked(e AuditEntry) error {
	e.Seq, e.At, e.Prev = l.seq+1, l.now().UTC().Round(time.Millisecond), l.last
	hash, err := e.sum()
	if err != nil {
		return err
	}
	e.Hash = hash
	raw, err := json.Marshal(e)
	if err != nil {
		return err
	}
	n, err := l.file.Write(append(raw, '\n'))
	if err != nil {
		if n > 0 && l.file.Truncate(l.size) != nil {
			// Half an entry stays: it is told when the log is opened anew.
			_ = l.file.Close()
			l.file = nil
		}
		return err
	}
	l.size += int64(n)
	l.seq, l.last = e.Seq, e.Hash
	if l.seq%32 == 0 {
		return l.headLocked()
	}
	return nil
}

func (l *auditLog) rotateLocked() error {
	name := fmt.Sprintf("%s%012d.log", auditPrefix, l.seq)
	if err := l.headLocked(); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(l.dir, auditName), filepath.Join(l.dir, name)); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(l.dir, auditName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		err = errors.Join(err, l.file.Close())
		l.file = nil
		return err
	}
	err = l.file.Close()
	l.file, l.size = f, 0
	files, ferr := auditFiles(l.dir)
	for len(files) > auditOlder+1 {
		ferr = errors.Join(ferr, os.Remove(filepath.Join(l.dir, files[0])))
		files = files[1:]
	}
	return errors.Join(err, ferr)
}

func (l *auditLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.file == nil {
		return nil // it could not be written, which every entry has said
	}
	err := errors.Join(l.headLocked(), l.file.Close())
	l.file = nil
	return err
}

// AuditReport is what a look at the whole chain found.
type AuditReport struct {
	Entries int       `json:"entries"`
	First   int64     `json:"first"` // older ones were dropped, as the log is bounded
	Head    AuditHead `json:"head"`
	// Problem is "" for a chain that is whole, else what is wrong with which
	// entry.
	Problem string `json:"problem,omitempty"`
}

// VerifyAudit checks the log of a state folder: every entry's hash, that each
// names the one before it, and that the end that was noted last is there. What
// an owner has missed once stays a problem as long as its entry is kept.
func VerifyAudit(dir string) (AuditReport, error) {
	var r AuditReport
	var last *AuditEntry
	torn := false
	problem := func(format string, args ...any) {
		if r.Problem == "" {
			r.Problem = fmt.Sprintf(format, args...)
		}
	}
	head, damaged, err := readHead(dir)
	if err != nil {
		return r, err
	}
	if damaged {
		problem("%s is damaged", auditHead)
	}
	noted, cut, cuts := false, "", 0
	err = ReadAudit(dir, func(e AuditEntry, line []byte) bool {
		if line != nil {
			torn = true
			return true
		}
		sum, err := e.sum()
		switch {
		case err != nil || sum != e.Hash:
			problem("entry %d was changed: its hash does not fit", e.Seq)
		case last != nil && (e.Seq != last.Seq+1 && !e.skips(last) || e.Prev != last.Hash):
			problem("between entry %d and entry %d something was removed, added or moved", last.Seq, e.Seq)
		case last == nil && e.Seq == 1 && e.Prev != auditStart:
			problem("entry 1 is not the first")
		case torn && e.Event != auditTorn && e.Event != auditCut:
			problem("before entry %d stands a line that is no entry", e.Seq)
		}
		torn = false
		if last == nil {
			r.First = e.Seq
		}
		noted = noted || e.Seq == head.Seq && e.Hash == head.Hash || e.Lost != nil && e.Lost.AuditHead == head
		if e.Event == auditCut {
			if cuts++; cuts == 1 {
				cut = e.told()
			}
		}
		last = &e
		r.Entries++
		return true
	})
	if err != nil {
		return r, err
	}
	if last != nil {
		r.Head = AuditHead{last.Seq, last.Hash}
	}
	if head.Seq > 0 && !noted {
		problem("entry %d, which was the end once, is not there: the log was cut off or replaced", head.Seq)
	}
	// What an owner found stays told, beside what was done to the log since.
	if cuts > 1 {
		cut += fmt.Sprintf(" (and %s after it)", plural(cuts-1, "cut"))
	}
	if cut != "" && r.Problem != "" {
		cut = r.Problem + "; " + cut
	}
	if cut != "" {
		r.Problem = cut
	}
	return r, nil
}

// ReadAudit calls fn for every entry, oldest first, until it returns false. A
// line that is no entry is given as it is.
func ReadAudit(dir string, fn func(e AuditEntry, line []byte) bool) error {
	return ReadAuditAfter(dir, 0, fn)
}

// ReadAuditAfter is ReadAudit without the files that were set aside with an
// entry up to after as their last. It may give entries up to after, too.
func ReadAuditAfter(dir string, after int64, fn func(e AuditEntry, line []byte) bool) error {
	files, err := auditFiles(dir)
	if err != nil {
		return err
	}
	for _, name := range files {
		number := strings.TrimSuffix(strings.TrimPrefix(name, auditPrefix), ".log")
		if last, err := strconv.ParseInt(number, 10, 64); err == nil && last <= after {
			continue
		}
		more, err := readAuditFile(filepath.Join(dir, name), fn)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// AuditStamp tells one state of the log's newest file from another.
type AuditStamp struct {
	size int64
	at   time.Time
}

// StampAudit returns the log's stamp now; the zero one where there is no log.
// As long as it stays the same there is nothing new to read.
func StampAudit(dir string) AuditStamp {
	info, err := os.Stat(filepath.Join(dir, auditName))
	if err != nil {
		return AuditStamp{} // reading it says why
	}
	return AuditStamp{info.Size(), info.ModTime()}
}

func readAuditFile(path string, fn func(e AuditEntry, line []byte) bool) (more bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil // set aside in this moment
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, maxAuditRow)
	for {
		line, err := in.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			var e AuditEntry
			if json.Unmarshal(line, &e) != nil || e.Hash == "" {
				e = AuditEntry{}
			} else {
				line = nil
			}
			if !fn(e, line) {
				return false, nil
			}
		}
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
}
