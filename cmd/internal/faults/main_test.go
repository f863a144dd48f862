package faults

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"pi-chrome/bridge"
	"pi-chrome/cmd/internal/cli"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/op"
)

// controlEnv names the socket on which an owner of these tests takes orders.
const controlEnv = "PI_CHROME_FAULTS_CONTROL"

// The binary of the tests is the owner too: with a control socket one that
// fails when it is told to, without one pi-chrome itself.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"pi-chrome": func() {
		if path := os.Getenv(controlEnv); path != "" {
			if err := serve(path); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
		os.Exit(cli.Main())
	}})
}

// point is a moment in the life of a command that may mutate.
type point string

const (
	beforeEffect point = "before" // it is in the journal, nothing was sent to the browser
	afterEffect  point = "after"  // it was done, the journal does not know
)

// doomed runs commands with the real handler and kills the process at a point
// that it was told.
type doomed struct {
	bridge.Handler
	armed atomic.Pointer[point]
}

func (d *doomed) Run(ctx context.Context, call *bridge.Call) (op.Result, error) {
	mutates := d.EffectOf(call.Operation, call.Input) != op.ReadOnly
	if mutates {
		d.reach(beforeEffect)
	}
	res, err := d.Handler.Run(ctx, call)
	if mutates && err == nil {
		d.reach(afterEffect)
	}
	return res, err
}

func (d *doomed) reach(at point) {
	if armed := d.armed.Load(); armed != nil && *armed == at {
		kill(os.Getpid())
		select {} // nothing more happens
	}
}

// figures are what an owner holds.
type figures struct {
	HeapBytes  uint64 `json:"heapBytes"` // live, after a collection
	Goroutines int    `json:"goroutines"`
}

// serve is the owner's process: `serve --port N --state-dir DIR`, as the
// sandbox starts it.
func serve(control string) error {
	surviveFailedWrites()
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	port := flags.Int("port", 0, "")
	dir := flags.String("state-dir", "", "")
	if err := flags.Parse(os.Args[2:]); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	var d *doomed
	mux := http.NewServeMux()
	mux.HandleFunc("POST /arm", func(_ http.ResponseWriter, r *http.Request) {
		at := point(r.URL.Query().Get("point"))
		d.armed.Store(&at)
	})
	mux.HandleFunc("GET /figures", func(w http.ResponseWriter, _ *http.Request) {
		debug.FreeOSMemory() // collects twice, so that pools are empty
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		_ = json.NewEncoder(w).Encode(figures{m.HeapAlloc, runtime.NumGoroutine()})
	})
	mux.HandleFunc("GET /goroutines", func(w http.ResponseWriter, _ *http.Request) {
		buf := make([]byte, 4<<20)
		_, _ = w.Write(buf[:runtime.Stack(buf, true)])
	})
	ready := func(int) {
		_ = os.Remove(control)
		l, err := net.Listen("unix", control)
		if err != nil {
			fmt.Fprintln(os.Stderr, "control:", err)
			cancel()
			return
		}
		go func() { _ = http.Serve(l, mux) }()
	}
	return owner.Run(ctx, owner.Options{
		Port: *port, StateDir: *dir, IdleTimeout: -1, Ready: ready,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo})),
		Wrap: func(h bridge.Handler) bridge.Handler {
			d = &doomed{Handler: h}
			return d
		},
	})
}

// order asks an owner over its control socket.
func order(method, socket, path string) ([]byte, error) {
	c := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	req, err := http.NewRequest(method, "http://control"+path, strings.NewReader(""))
	if err != nil {
		return nil, err
	}
	res, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return io.ReadAll(res.Body)
}
