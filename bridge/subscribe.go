package bridge

import (
	"context"
	"slices"
	"sync"

	"github.com/chromedp/cdproto/cdp/jsonv2"

	"pi-chrome/driver/op"
)

// maxSubscribed bounds the events that wait for the reader of a subscription;
// beyond them the subscription ends.
const maxSubscribed = 10_000

type subKey struct{ session, method string }

// subscription buffers the events of one method for one reader.
type subscription struct {
	out  chan jsonv2.Value
	wake chan struct{}
	stop chan struct{} // closed by the reader: drop what waits
	once sync.Once

	mu       sync.Mutex
	queue    []jsonv2.Value
	finished bool // deliver what waits, then close out
}

// Subscribe returns the tab's own events of one method. The channel is closed
// by cancel, when the debugger session ends, and when its reader falls 10,000
// events behind. Order across methods is only kept by [Tab.Listen].
func (t *Tab) Subscribe(method string) (events <-chan jsonv2.Value, cancel func()) {
	return t.subscribe(subKey{"", method})
}

func (t *Tab) subscribe(key subKey) (<-chan jsonv2.Value, func()) {
	s := &subscription{out: make(chan jsonv2.Value), wake: make(chan struct{}, 1), stop: make(chan struct{})}
	t.mu.Lock()
	if t.ended || t.gone != "" {
		t.mu.Unlock()
		close(s.out)
		return s.out, func() {}
	}
	t.subs[key] = append(t.subs[key], s)
	t.conn.relay.wg.Go(func() { s.pump(t.conn.relay.ctx) })
	t.mu.Unlock()
	return s.out, func() {
		t.mu.Lock()
		t.subs[key] = slices.DeleteFunc(t.subs[key], func(x *subscription) bool { return x == s })
		if len(t.subs[key]) == 0 {
			delete(t.subs, key)
		}
		t.mu.Unlock()
		s.once.Do(func() { close(s.stop) })
	}
}

// publish hands an event to the subscriptions of its method.
func (t *Tab) publish(ev op.Event) {
	t.mu.Lock()
	subs := slices.Clone(t.subs[subKey{ev.SessionID, ev.Method}])
	t.mu.Unlock()
	for _, s := range subs {
		s.add(jsonv2.Value(ev.Params))
	}
}

// endSubscriptions lets subscriptions deliver what waits and then end.
func (t *Tab) endSubscriptions(match func(subKey) bool) {
	t.mu.Lock()
	var ended []*subscription
	for key, subs := range t.subs {
		if match(key) {
			ended = append(ended, subs...)
			delete(t.subs, key)
		}
	}
	t.mu.Unlock()
	for _, s := range ended {
		s.finish()
	}
}

func (s *subscription) add(v jsonv2.Value) {
	s.mu.Lock()
	if !s.finished {
		s.queue = append(s.queue, v)
		s.finished = len(s.queue) > maxSubscribed
	}
	s.mu.Unlock()
	s.wakePump()
}

func (s *subscription) finish() {
	s.mu.Lock()
	s.finished = true
	s.mu.Unlock()
	s.wakePump()
}

func (s *subscription) wakePump() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *subscription) pump(ctx context.Context) {
	defer close(s.out)
	for {
		s.mu.Lock()
		batch, finished := s.queue, s.finished
		s.queue = nil
		s.mu.Unlock()
		for _, v := range batch {
			select {
			case s.out <- v:
			case <-s.stop:
				return
			case <-ctx.Done():
				return
			}
		}
		if len(batch) > 0 {
			continue
		}
		if finished {
			return
		}
		select {
		case <-s.wake:
		case <-s.stop:
			return
		case <-ctx.Done():
			return
		}
	}
}
