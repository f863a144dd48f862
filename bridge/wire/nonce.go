package wire

import (
	"container/list"
	"errors"
	"sync"
	"time"
)

// Errors of [Nonces.Consume].
var (
	ErrNonceExpired = errors.New("the nonce has expired")
	ErrNonceUsed    = errors.New("the nonce is unknown or was used before")
)

// Elapsed is the time from one moment to another by the clock that says more:
// the wall clock goes on while a machine sleeps, and the monotonic one is never
// set back.
func Elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// Nonces are the request nonces of one scope that were given out and not used
// yet: at most [MaxPendingNonces], each good once and for [NonceTTL]. The zero
// value is ready; it may be used from many goroutines.
type Nonces struct {
	mu      sync.Mutex
	pending map[string]*list.Element
	order   list.List // of issued, oldest first
}

type issued struct {
	nonce string
	at    time.Time
}

// Issue returns a new nonce. The oldest pending one is evicted when there are
// too many.
func (n *Nonces) Issue(now time.Time) string {
	nonce := NewSecret()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pending == nil {
		n.pending = map[string]*list.Element{}
	}
	n.dropOldLocked(now)
	for n.order.Len() >= MaxPendingNonces {
		n.removeLocked(n.order.Front())
	}
	n.pending[nonce] = n.order.PushBack(issued{nonce, now})
	return nonce
}

// Consume takes the nonce, so that it is good for one proof only. It must be
// called before the proof is checked: a wrong proof uses the nonce up too.
func (n *Nonces) Consume(nonce string, now time.Time) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	e, ok := n.pending[nonce]
	if !ok {
		return ErrNonceUsed
	}
	n.removeLocked(e)
	if Elapsed(e.Value.(issued).at, now) > NonceTTL {
		return ErrNonceExpired
	}
	return nil
}

// Len is the number of pending nonces.
func (n *Nonces) Len() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.order.Len()
}

// dropOldLocked forgets nonces long after they expired. Those that expired a
// moment ago stay, so that their owner is told "expired" rather than "used".
func (n *Nonces) dropOldLocked(now time.Time) {
	for e := n.order.Front(); e != nil && Elapsed(e.Value.(issued).at, now) > 4*NonceTTL; e = n.order.Front() {
		n.removeLocked(e)
	}
}

func (n *Nonces) removeLocked(e *list.Element) {
	delete(n.pending, e.Value.(issued).nonce)
	n.order.Remove(e)
}
