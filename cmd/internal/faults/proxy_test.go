package faults

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// proxy stands between the owner and one who speaks to it. It hands bytes on
// as they come and can hold them back or end connections in the middle of a
// frame.
type proxy struct {
	port, owner int
	listener    net.Listener
	wg          sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
	chunks int                        // since the fault was set
	fault  func(c chunk) (cut bool)   // nil for none
	stall  time.Time                  // bytes wait until then
	tape   func(owner bool, b []byte) // hears all that is handed on; nil for none
}

// chunk is what one read brought.
type chunk struct {
	n     int  // rises from 1 since the fault was set
	owner bool // the owner sent it
}

func newProxy(t testing.TB, owner int) *proxy {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	assert.NilError(t, err)
	p := &proxy{port: l.Addr().(*net.TCPAddr).Port, owner: owner, listener: l, conns: map[net.Conn]bool{}}
	p.wg.Go(func() {
		for {
			down, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(down) })
		}
	})
	t.Cleanup(p.close)
	return p
}

func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.stall = time.Time{}
	p.mu.Unlock()
	_ = p.listener.Close()
	p.cut()
	p.wg.Wait()
}

// cut ends every connection now.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// hold keeps every byte back for a while; the connections stay.
func (p *proxy) hold(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stall = time.Now().Add(d)
}

// on asks the function about every chunk from now on, until it says cut: then
// half of that chunk is delivered and every connection ends.
func (p *proxy) on(fault func(chunk) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.chunks, p.fault = 0, fault
}

// record hands all that goes through to the function from now on; nil ends
// that.
func (p *proxy) record(tape func(owner bool, b []byte)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tape = tape
}

func (p *proxy) track(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.conns[c] = true
	return true
}

func (p *proxy) drop(c net.Conn) {
	_ = c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

func (p *proxy) serve(down net.Conn) {
	if !p.track(down) {
		_ = down.Close()
		return
	}
	defer p.drop(down)
	reader := bufio.NewReader(down)
	req, err := http.ReadRequest(reader)
	if err != nil {
		return
	}
	up, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", p.owner))
	if err != nil {
		return
	}
	if !p.track(up) {
		_ = up.Close()
		return
	}
	defer p.drop(up)
	req.Host = fmt.Sprintf("127.0.0.1:%d", p.owner) // the owner checks it
	var head bytes.Buffer
	if req.Write(&head) != nil {
		return
	}
	p.mu.Lock()
	if p.tape != nil {
		p.tape(false, head.Bytes())
	}
	p.mu.Unlock()
	if _, err := up.Write(head.Bytes()); err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.copy(up, down, down, true) })
	both.Go(func() { p.copy(reader, up, down, false) })
	both.Wait()
}

// copy hands bytes on until one side ends; then both end.
func (p *proxy) copy(from interface{ Read([]byte) (int, error) }, to, down net.Conn, owner bool) {
	defer func() {
		_ = to.Close()
		_ = down.Close()
		if c, ok := from.(net.Conn); ok {
			_ = c.Close()
		}
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			p.mu.Lock()
			wait := time.Until(p.stall)
			fault := p.fault
			p.chunks++
			c := chunk{p.chunks, owner}
			if p.tape != nil {
				p.tape(owner, buf[:n])
			}
			p.mu.Unlock()
			if wait > 0 {
				time.Sleep(wait)
			}
			if fault != nil && fault(c) {
				p.on(nil)
				_, _ = to.Write(buf[:n/2])
				p.cut()
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
