package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// stateVersion is the layout of state.db. A newer one is refused, not guessed.
const stateVersion = "1"

var (
	bucketMeta     = []byte("meta")
	bucketBindings = []byte("bindings")      // connector id -> Binding
	bucketSessions = []byte("sessions")      // session key -> sessionRecord
	bucketTargets  = []byte("ownership")     // nonce -> targetRecord
	bucketJournal  = []byte("journal")       // command id -> journalEntry
	bucketOrder    = []byte("journal-order") // rising number -> command id
	keyVersion     = []byte("version")
	keyStopped     = []byte("stopped") // in meta: when the user stopped everything
)

// sessionRecord is what is durable of a session.
type sessionRecord struct {
	Key         string        `json:"key"`
	Title       string        `json:"title,omitempty"`
	ConnectorID string        `json:"connectorId,omitempty"` // the profile it talks to, "" before its first tab
	Authorized  Authorization `json:"authorized"`
	Policy      *Policy       `json:"policy,omitempty"`
	LastUsed    time.Time     `json:"lastUsed"`
	// Released are the tabs that it left to the user, the latest last.
	Released []ReleasedTab `json:"released,omitempty"`
}

// targetState is the state of an ownership record.
type targetState string

const (
	targetAllocating targetState = "allocating" // a tab with the nonce may exist
	targetOwned      targetState = "owned"
	targetStale      targetState = "stale" // lost: never adopted, never closed
)

// ReleasedTab is a tab that a session left to the user.
type ReleasedTab struct {
	ConnectorID string    `json:"connectorId"`
	TabID       int       `json:"tabId"`
	Title       string    `json:"title,omitempty"`
	URL         string    `json:"url,omitempty"`
	Claimed     bool      `json:"claimed,omitempty"` // it was the user's before
	Why         string    `json:"why"`               // released, cleanup, unused
	At          time.Time `json:"at"`
}

// targetRecord says that a session owns a tab, or is about to make one.
type targetRecord struct {
	Nonce       string      `json:"nonce"` // 32 hex digits, the key
	Session     string      `json:"session"`
	ConnectorID string      `json:"connectorId"`
	State       targetState `json:"state"`
	Epoch       string      `json:"browserEpoch"`
	TabID       int         `json:"tabId"`
	TargetID    string      `json:"targetId,omitempty"`
	Prepared    bool        `json:"prepared,omitempty"` // it has left the bootstrap page
	Claimed     bool        `json:"claimed,omitempty"`  // the user made it: it is never closed for the session
	Grouped     bool        `json:"grouped,omitempty"`  // a claimed one that was put into the session's group
	Keep        bool        `json:"keep,omitempty"`     // left to the user at the end of the session
	TakenAt     time.Time   `json:"takenAt,omitzero"`   // since when the user has taken it over; only take and give change it
	Reason      string      `json:"reason,omitempty"`   // of stale: epoch-changed, tab-missing, tab-outside-regular-profile
	LostAt      time.Time   `json:"lostAt,omitzero"`    // of stale
	CreatedAt   time.Time   `json:"createdAt"`
}

// store is state.db. Its methods may be called from many goroutines.
type store struct {
	db    *bolt.DB
	path  string
	meter *meter
}

var _ BindingStore = (*store)(nil)

// stored is what a starting owner reads into memory.
type stored struct {
	sessions []sessionRecord
	targets  []targetRecord
	routes   map[string]WebRoute
	stopped  time.Time // when the user stopped everything
}

// openStore opens state.db and reads all of it, so that damage shows now and
// not in the middle of a command. Nothing is ever deleted: a damaged file is
// op.StateUnreadable, and so is one that another owner has open for longer
// than wait.
func openStore(dir string, wait time.Duration) (st *store, snap stored, err error) {
	path := filepath.Join(dir, databaseFile)
	// bbolt panics on pages that do not make sense, and a cut file faults in
	// the memory map; both are damage, not a reason to crash.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			st, snap, err = nil, stored{}, stateError(path, fmt.Sprint(r))
		}
	}()
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: wait, FreelistType: bolt.FreelistMapType})
	if errors.Is(err, bolterrors.ErrTimeout) {
		e := op.NotAvailable(op.StateUnreadable, "the state folder %s is in use by another owner%s", dir, describeOwner(dir)).
			WithHint("Use that owner's port, end it, or choose another folder with --state-dir.")
		return nil, stored{}, e
	}
	if err != nil {
		return nil, stored{}, stateError(path, err.Error()).WithCause(err)
	}
	st = &store{db: db, path: path, meter: &meter{}}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, stored{}, errors.Join(stateError(path, rootText(err)), db.Close())
	}
	snap, err = st.load()
	if err != nil {
		return nil, stored{}, errors.Join(err, db.Close())
	}
	return st, snap, nil
}

func describeOwner(dir string) string {
	o, err := ReadOwnerFile(dir)
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (process %d, port %d)", o.PID, o.Port)
}

func stateError(path, why string) *op.Error {
	return op.NotAvailable(op.StateUnreadable, "the state file %s cannot be used: %s. Nothing was changed in it", path, why).
		WithDetail("path", path).
		WithHint("Move the file away to start afresh (profiles must be paired again, owned tabs are forgotten), or restore a copy of it.")
}

func (s *store) load() (stored, error) {
	var snap stored
	err := s.db.Update(func(tx *bolt.Tx) error {
		meta, err := tx.CreateBucketIfNotExists(bucketMeta)
		if err != nil {
			return err
		}
		switch v := string(meta.Get(keyVersion)); v {
		case "":
			if err := meta.Put(keyVersion, []byte(stateVersion)); err != nil {
				return err
			}
		case stateVersion:
		default:
			return fmt.Errorf("it has version %q and this pi-chrome knows %q", v, stateVersion)
		}
		for _, name := range [][]byte{bucketBindings, bucketSessions, bucketTargets, bucketJournal, bucketOrder, bucketLeases} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		var bindings []Binding // only to see that they can be read
		if err := readAll(tx, bucketBindings, &bindings); err != nil {
			return err
		}
		if raw := meta.Get(keyStopped); raw != nil {
			if err := snap.stopped.UnmarshalText(raw); err != nil {
				return fmt.Errorf("when everything was stopped: %w", err)
			}
		}
		if err := readAll(tx, bucketSessions, &snap.sessions); err != nil {
			return err
		}
		if err := readAll(tx, bucketTargets, &snap.targets); err != nil {
			return err
		}
		var leases []LeaseRecord // the relay reads them itself
		if err := readAll(tx, bucketLeases, &leases); err != nil {
			return err
		}
		if snap.routes, err = readRoutes(tx, time.Now()); err != nil {
			return err
		}
		return interruptExecuting(tx)
	})
	if err != nil {
		return stored{}, stateError(s.path, err.Error()).WithCause(err)
	}
	return snap, nil
}

func readAll[T any](tx *bolt.Tx, bucket []byte, out *[]T) error {
	return tx.Bucket(bucket).ForEach(func(k, v []byte) error {
		var t T
		if err := json.Unmarshal(v, &t); err != nil {
			return fmt.Errorf("record %q of %s: %w", k, bucket, err)
		}
		*out = append(*out, t)
		return nil
	})
}

// update commits one transaction. bbolt panics on damage; that is an error
// here, so that one bad page refuses effects and does not end the owner.
func (s *store) update(fn func(tx *bolt.Tx) error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("state.db is damaged: %v", r)
		}
	}()
	return s.db.Update(fn)
}

func (s *store) view(fn func(tx *bolt.Tx) error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("state.db is damaged: %v", r)
		}
	}()
	return s.db.View(fn)
}

func putJSON(tx *bolt.Tx, bucket []byte, key string, v any) error {
	b, err := wire.Encode(v)
	if err != nil {
		return err
	}
	return tx.Bucket(bucket).Put([]byte(key), b)
}

// writeFailed is the refusal of an effect whose record could not be made
// durable.
func writeFailed(err error) *op.Error {
	return op.NotAvailable(op.StateUnreadable, "the state could not be written: %s. Nothing was done", err).
		WithHint("Check that the disk of the state folder has space and can be written.").WithCause(err)
}

// Bindings returns every paired profile. It implements [BindingStore].
func (s *store) Bindings(context.Context) ([]Binding, error) {
	var all []Binding
	err := s.view(func(tx *bolt.Tx) error { return readAll(tx, bucketBindings, &all) })
	return all, err
}

// Binding returns one paired profile, false when there is none.
func (s *store) Binding(_ context.Context, connectorID string) (Binding, bool, error) {
	var b Binding
	found := false
	err := s.view(func(tx *bolt.Tx) error {
		raw := tx.Bucket(bucketBindings).Get([]byte(connectorID))
		if raw == nil {
			return nil
		}
		found = true
		return json.Unmarshal(raw, &b)
	})
	return b, found, err
}

// SaveBinding stores a paired profile.
func (s *store) SaveBinding(_ context.Context, b Binding) error {
	return s.update(func(tx *bolt.Tx) error { return putJSON(tx, bucketBindings, b.ConnectorID, b) })
}

// RemoveBinding forgets a profile, every record of its tabs and debugger
// leases, and the bond of its sessions, in one transaction.
func (s *store) RemoveBinding(_ context.Context, connectorID string) error {
	return s.update(func(tx *bolt.Tx) error {
		if err := tx.Bucket(bucketBindings).Delete([]byte(connectorID)); err != nil {
			return err
		}
		if err := removeLeases(tx, connectorID); err != nil {
			return err
		}
		var targets []targetRecord
		if err := readAll(tx, bucketTargets, &targets); err != nil {
			return err
		}
		for _, r := range targets {
			if r.ConnectorID == connectorID {
				if err := tx.Bucket(bucketTargets).Delete([]byte(r.Nonce)); err != nil {
					return err
				}
			}
		}
		var sessions []sessionRecord
		if err := readAll(tx, bucketSessions, &sessions); err != nil {
			return err
		}
		for _, r := range sessions {
			if r.ConnectorID == connectorID {
				r.ConnectorID = ""
				if err := putJSON(tx, bucketSessions, r.Key, r); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// sessionEdit changes the durable record of one session. Who edits one field
// leaves the others as they are on the disk: a tab that is made at the moment
// of a lock must not write the older authorization back.
type sessionEdit struct {
	key   string
	apply func(*sessionRecord) error // an error writes nothing

	resume bool // that everything is stopped is over
}

func (e *sessionEdit) write(tx *bolt.Tx) error {
	rec := sessionRecord{Key: e.key}
	if raw := tx.Bucket(bucketSessions).Get([]byte(e.key)); raw != nil {
		if err := json.Unmarshal(raw, &rec); err != nil {
			return fmt.Errorf("record %q of %s: %w", e.key, bucketSessions, err)
		}
	}
	if err := e.apply(&rec); err != nil {
		return err
	}
	if e.resume {
		if err := tx.Bucket(bucketMeta).Delete(keyStopped); err != nil {
			return err
		}
	}
	return putJSON(tx, bucketSessions, e.key, rec)
}

// save writes and deletes ownership records, with a change of a session's own
// record when it is given, in one transaction.
func (s *store) save(session *sessionEdit, put []targetRecord, del []string) error {
	return s.update(func(tx *bolt.Tx) error {
		if session != nil {
			if err := session.write(tx); err != nil {
				return err
			}
		}
		for _, r := range put {
			// r may have been read before the user took the tab over.
			if raw := tx.Bucket(bucketTargets).Get([]byte(r.Nonce)); raw != nil {
				var now targetRecord
				if err := json.Unmarshal(raw, &now); err != nil {
					return fmt.Errorf("record %q of %s: %w", r.Nonce, bucketTargets, err)
				}
				r.TakenAt = now.TakenAt
			}
			if err := putJSON(tx, bucketTargets, r.Nonce, r); err != nil {
				return err
			}
		}
		for _, nonce := range del {
			if err := tx.Bucket(bucketTargets).Delete([]byte(nonce)); err != nil {
				return err
			}
		}
		return nil
	})
}

// saveTaken notes since when the user has a tab of a session; zero for not any
// more. A record that is gone stays so.
func (s *store) saveTaken(nonce string, at time.Time) error {
	return s.update(func(tx *bolt.Tx) error {
		raw := tx.Bucket(bucketTargets).Get([]byte(nonce))
		if raw == nil {
			return nil
		}
		var r targetRecord
		if err := json.Unmarshal(raw, &r); err != nil {
			return fmt.Errorf("record %q of %s: %w", nonce, bucketTargets, err)
		}
		r.TakenAt = at
		return putJSON(tx, bucketTargets, nonce, r)
	})
}

// saveStop notes that the user stopped everything, with the locks of the
// sessions, in one transaction.
func (s *store) saveStop(at time.Time, locks []*sessionEdit) error {
	text, err := at.MarshalText()
	if err != nil {
		return err
	}
	return s.update(func(tx *bolt.Tx) error {
		for _, e := range locks {
			if err := e.write(tx); err != nil {
				return err
			}
		}
		return tx.Bucket(bucketMeta).Put(keyStopped, text)
	})
}

func (s *store) Close() error { return s.db.Close() }
