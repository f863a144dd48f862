package bridge

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// The bounds of the journal: how many commands it remembers, and up to which
// size a result is kept whole.
const (
	journalEntries = 1000
	journalResult  = 64 << 10
)

// journalState says how far a command that may mutate has come.
type journalState string

const (
	journalExecuting journalState = "executing"
	journalDone      journalState = "done"
)

// journalEntry is the durable trace of one command that may mutate. It is
// written as executing before the handler runs and as done before the result
// is told.
type journalEntry struct {
	ID          string          `json:"id"`
	Session     string          `json:"session"`
	ConnectorID string          `json:"connectorId,omitempty"`
	Operation   string          `json:"operation"`
	Digest      string          `json:"digest"` // of session, operation and input: an id is one command for ever
	TabID       int             `json:"tabId"`  // -1 for none
	State       journalState    `json:"state"`
	StartedAt   time.Time       `json:"startedAt"`
	FinishedAt  time.Time       `json:"finishedAt,omitzero"`
	ElapsedMs   int64           `json:"elapsedMs,omitempty"`
	OK          bool            `json:"ok,omitempty"`
	Value       json.RawMessage `json:"value,omitempty"`
	Text        string          `json:"text,omitempty"`
	Error       *wire.Failure   `json:"error,omitempty"`
	Steps       []stepName      `json:"steps,omitempty"` // of a list of calls; each has an entry of its own once it began
	// A result over 64 KB is not kept, only its digest and size.
	ResultSHA256 string `json:"resultSha256,omitempty"`
	ResultBytes  int    `json:"resultBytes,omitempty"`
}

// commandDigest binds a command id to what it asked for.
func commandDigest(c wire.Command) string {
	h := sha256.New()
	for _, part := range []string{c.Session.Key, c.Operation, string(c.Input)} {
		fmt.Fprintf(h, "%d:", len(part))
		h.Write([]byte(part))
	}
	return hex.EncodeToString(h.Sum(nil))
}

var errKnownCommand = errors.New("the command is in the journal already")

// journal makes one measured write of the journal.
func (s *store) journal(fn func(tx *bolt.Tx) error) error {
	start := time.Now()
	err := s.update(fn)
	switch {
	case err == nil:
		s.meter.journal.observe("", time.Since(start))
	case !errors.Is(err, errKnownCommand):
		s.meter.journalErrors.Add(1)
	}
	return err
}

// begin makes a command durable as executing. A known id is errKnownCommand.
func (s *store) begin(e journalEntry) error {
	return s.journal(func(tx *bolt.Tx) error {
		journal, order := tx.Bucket(bucketJournal), tx.Bucket(bucketOrder)
		if journal.Get([]byte(e.ID)) != nil {
			return fmt.Errorf("%w: %s", errKnownCommand, e.ID)
		}
		n, err := order.NextSequence()
		if err != nil {
			return err
		}
		if err := order.Put(binary.BigEndian.AppendUint64(nil, n), []byte(e.ID)); err != nil {
			return err
		}
		if err := putJSON(tx, bucketJournal, e.ID, e); err != nil {
			return err
		}
		return evict(tx, n)
	})
}

// evict drops what is older than the newest journalEntries commands. One that
// still executes is kept: it cannot be older than its deadline.
func evict(tx *bolt.Tx, newest uint64) error {
	if newest <= journalEntries {
		return nil
	}
	journal, order := tx.Bucket(bucketJournal), tx.Bucket(bucketOrder)
	var keys [][]byte
	c := order.Cursor()
	for k, id := c.First(); k != nil && binary.BigEndian.Uint64(k) <= newest-journalEntries; k, id = c.Next() {
		var e journalEntry
		if raw := journal.Get(id); raw != nil {
			if err := json.Unmarshal(raw, &e); err != nil {
				return err
			}
			if e.State == journalExecuting {
				continue
			}
		}
		keys = append(keys, append([]byte(nil), k...))
	}
	for _, k := range keys {
		id := append([]byte(nil), order.Get(k)...)
		if err := journal.Delete(id); err != nil {
			return err
		}
		if err := order.Delete(k); err != nil {
			return err
		}
	}
	return nil
}

// finish makes the outcome of a command durable.
func (s *store) finish(id string, r wire.Result) error {
	return s.journal(func(tx *bolt.Tx) error {
		var e journalEntry
		if err := json.Unmarshal(tx.Bucket(bucketJournal).Get([]byte(id)), &e); err != nil {
			return fmt.Errorf("command %s: %w", id, err)
		}
		e.State, e.FinishedAt = journalDone, time.Now()
		e.OK, e.Value, e.Text, e.Error, e.ElapsedMs = r.OK, r.Value, r.Text, r.Error, r.ElapsedMs
		if n := len(e.Value) + len(e.Text); n > journalResult {
			h := sha256.New()
			h.Write(e.Value)
			h.Write([]byte(e.Text))
			e.ResultSHA256, e.ResultBytes = hex.EncodeToString(h.Sum(nil)), n
			e.Value, e.Text = nil, ""
		}
		return putJSON(tx, bucketJournal, id, e)
	})
}

// entry returns what the journal knows of a command.
func (s *store) entry(id string) (journalEntry, bool, error) {
	var e journalEntry
	found := false
	err := s.view(func(tx *bolt.Tx) error {
		raw := tx.Bucket(bucketJournal).Get([]byte(id))
		if raw == nil {
			return nil
		}
		found = true
		return json.Unmarshal(raw, &e)
	})
	return e, found, err
}

// interruptExecuting gives every command that a dead owner left executing its
// final outcome: unknown.
func interruptExecuting(tx *bolt.Tx) error {
	var entries []journalEntry
	err := readAll(tx, bucketJournal, &entries)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.State != journalExecuting {
			continue
		}
		where := ""
		if e.TabID >= 0 {
			where = fmt.Sprintf(" on tab %d", e.TabID)
		}
		e.State = journalDone
		if len(e.Steps) > 0 {
			if e.Error, err = interruptedSteps(tx, e); err != nil {
				return err
			}
			if err := putJSON(tx, bucketJournal, e.ID, e); err != nil {
				return err
			}
			continue
		}
		e.Error = failureOf(op.Unknown(op.BridgeStopped,
			"%s%s was executing when the owner ended: it may have had its effect. It was not sent again", e.Operation, where).
			WithHint("Look at the page (chrome_snapshot) before you decide to repeat it."))
		if err := putJSON(tx, bucketJournal, e.ID, e); err != nil {
			return err
		}
	}
	return nil
}

// answer is the result of a command that has ended, as it is told again.
func (e journalEntry) answer() wire.Result {
	if e.State == journalExecuting {
		// Nothing of that id is under way, but the disk did not take its
		// outcome.
		e.OK, e.Error = false, failureOf(op.Unknown(op.StateUnreadable, "the outcome of command %s (%s) could not be stored: it may have had its effect", e.ID, e.Operation).
			WithHint("Look at the page (chrome_snapshot) before you decide to repeat it."))
	}
	r := wire.Result{Type: wire.TypeResult, ID: e.ID, OK: e.OK, Value: e.Value, Text: e.Text, ElapsedMs: e.ElapsedMs, Error: e.Error}
	if e.ResultBytes > 0 {
		r.OK = false
		r.Error = failureOf(op.Unknown(op.ResultTooLarge,
			"command %s (%s) was done, but its result of %d bytes was told once and not kept", e.ID, e.Operation, e.ResultBytes).
			WithDetail("sha256", e.ResultSHA256).WithDetail("bytes", e.ResultBytes).
			WithHint("Do not repeat it for its result: look at the page instead."))
	}
	return r
}

// already is the outcome of a command that ran to its end over another
// connection while this one entered.
func (s *Server) already(c *command) (op.Result, *op.Error) {
	e, found, err := s.store.entry(c.id)
	switch {
	case err != nil || !found:
		return op.Result{}, writeFailed(errors.Join(err, errKnownCommand))
	case e.Digest != c.digest:
		return op.Result{}, reusedID(c.id)
	}
	r := e.answer()
	if !r.OK {
		return op.Result{}, errorOf(r.Error)
	}
	return op.Result{Value: r.Value, Text: r.Text}, nil
}

// failureOf is an error as it crosses the owner socket.
func failureOf(e *op.Error) *wire.Failure {
	return &wire.Failure{Kind: string(e.Kind), Code: string(e.Code), Message: e.Message, Hint: e.Hint, Details: e.Details}
}

// errorOf is what failureOf was made of, but for its cause.
func errorOf(f *wire.Failure) *op.Error {
	return &op.Error{Kind: op.Kind(f.Kind), Code: op.Code(f.Code), Message: f.Message, Hint: f.Hint, Details: f.Details}
}
