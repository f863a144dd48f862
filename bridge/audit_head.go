package bridge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// AuditHead is where the log was at some moment.
type AuditHead struct {
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"`
}

// AuditLoss says, in an entry with the event "cut", what an owner that started
// did not find in the log any more.
type AuditLoss struct {
	From int64 `json:"from,omitempty"` // the first that is missing; 0 where that cannot be told
	AuditHead
}

// maxAuditSeq bounds a head that somebody wrote.
const maxAuditSeq = 1 << 53

// readHead returns the end that was noted last, the zero one where none was.
func readHead(dir string) (head AuditHead, damaged bool, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, auditHead))
	if errors.Is(err, fs.ErrNotExist) {
		return AuditHead{}, false, nil
	}
	if err != nil {
		return AuditHead{}, false, err
	}
	if json.Unmarshal(raw, &head) != nil || head.Seq < 0 || head.Seq > maxAuditSeq || head.Seq > 0 && head.Hash == "" {
		return AuditHead{}, true, nil
	}
	return head, false, nil
}

// headLocked notes how far the log is, so that an end that is cut off shows.
// The log comes to the disk before its head: a machine without power must not
// look like somebody who cut it.
func (l *auditLog) headLocked() error {
	raw, err := json.Marshal(AuditHead{Seq: l.seq, Hash: l.last})
	if err != nil {
		return err
	}
	if err := l.file.Sync(); err != nil {
		return err
	}
	return writeAtomic(filepath.Join(l.dir, auditHead), append(raw, '\n'))
}

// passes reports whether the chain with this entry has passed the head, or
// has told already that it is lost.
func (e *AuditEntry) passes(head AuditHead) bool {
	return e.Seq == head.Seq && e.Hash == head.Hash || // a crash: the head is noted now and then only
		e.Seq == head.Seq+1 && e.Prev == head.Hash || // its entry ends the file before
		e.Lost != nil && e.Lost.AuditHead == head
}

// resumeLocked opens the log and goes on with its chain. Behind an end that was
// noted and is not there any more it goes on, too, and says so in an entry.
func (l *auditLog) resumeLocked() error {
	l.seq, l.last = 0, auditStart
	files, err := auditFiles(l.dir)
	if err != nil {
		return err
	}
	head, damaged, err := readHead(l.dir)
	if err != nil {
		return err
	}
	torn, passed, told := 0, head.Seq == 0, false
	for i := len(files) - 1; i >= 0 && l.seq == 0; i-- { // the newest that has an entry
		raw, err := os.ReadFile(filepath.Join(l.dir, files[i]))
		if err != nil {
			return err
		}
		for line := range bytes.Lines(raw) {
			var e AuditEntry
			if json.Unmarshal(line, &e) != nil || e.Hash == "" || !bytes.HasSuffix(line, []byte("\n")) {
				torn = len(line)
				continue
			}
			l.seq, l.last, torn = e.Seq, e.Hash, 0
			passed = passed || e.passes(head)
			told = e.Lost != nil && e.Lost.Seq == 0
		}
	}
	l.file, err = os.OpenFile(filepath.Join(l.dir, auditName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	l.size = info.Size()
	note := ""
	if torn > 0 {
		note = fmt.Sprintf("the line before was cut short after %d bytes", torn)
		if _, err := l.file.WriteString("\n"); err != nil {
			return err
		}
		l.size++
	}
	switch {
	case damaged && !told: // told: the head could not be mended
		return l.lostLocked(AuditLoss{}, note)
	case !passed && head.Seq > l.seq:
		from := l.seq + 1
		l.seq = head.Seq
		return l.lostLocked(AuditLoss{From: from, AuditHead: head}, note)
	case !passed:
		return l.lostLocked(AuditLoss{AuditHead: head}, note)
	case torn > 0:
		return l.addLocked(AuditEntry{Event: auditTorn, Note: note})
	}
	return nil
}

// lostLocked writes the entry about what is lost, and notes it as the end.
func (l *auditLog) lostLocked(lost AuditLoss, note string) error {
	if note != "" {
		note = "; " + note
	}
	if err := l.addLocked(AuditEntry{Event: auditCut, Lost: &lost, Note: lost.String() + note}); err != nil {
		return err
	}
	return l.headLocked()
}

// skips reports whether the entry says why numbers are missing before it.
func (e *AuditEntry) skips(last *AuditEntry) bool { return e.Event == auditCut && e.Seq > last.Seq }

func (l AuditLoss) String() string {
	switch {
	case l.Seq == 0:
		return auditHead + " was damaged: whether entries before this one are missing cannot be told"
	case l.From == 0:
		return fmt.Sprintf("entry %d, which was the end once, is not there: the log was replaced", l.Seq)
	case l.From == l.Seq:
		return fmt.Sprintf("entry %d is missing: the log was cut off", l.Seq)
	}
	return fmt.Sprintf("entries %d to %d are missing: the log was cut off", l.From, l.Seq)
}

// told is the loss as the report of the whole log tells it.
func (e *AuditEntry) told() string {
	if e.Lost == nil {
		return fmt.Sprintf("entry %d says that entries are missing", e.Seq)
	}
	return fmt.Sprintf("%s (found on %s UTC, entry %d)", e.Lost, e.At.UTC().Format(time.DateTime), e.Seq)
}
