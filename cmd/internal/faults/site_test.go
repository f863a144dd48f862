package faults

import (
	_ "embed"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

//go:embed testdata/act.html
var actPage []byte

// site is the server of the pages. It counts what each command did, and by
// which page of which browser.
type site struct {
	url string

	mu   sync.Mutex
	hits map[string][]hit // by command id
}

// hit is one effect as the server saw it.
type hit struct {
	page    string // the session whose page it was
	browser string // the mark in the browser's User-Agent
}

func newSite(t testing.TB) *site {
	s := &site{hits: map[string][]hit{}}
	mux := http.NewServeMux()
	// The page itself is the effect of a navigation with an id.
	mux.HandleFunc("GET /act", func(w http.ResponseWriter, r *http.Request) {
		s.count(r)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(actPage) // the browser may have been killed
	})
	mux.HandleFunc("POST /hit", func(w http.ResponseWriter, r *http.Request) {
		s.count(r)
		w.WriteHeader(http.StatusNoContent)
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *site) count(r *http.Request) {
	id := r.URL.Query().Get("id")
	if id == "" {
		return
	}
	_, browser, _ := strings.Cut(r.UserAgent(), "faults-")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hits[id] = append(s.hits[id], hit{r.URL.Query().Get("page"), browser})
}

// of returns what a command did.
func (s *site) of(id string) []hit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]hit(nil), s.hits[id]...)
}

// act is the address of a page of a session with buttons from a number on;
// loading it is the effect of the command with the id.
func (s *site) act(id, page string, from int) string {
	return fmt.Sprintf("%s/act?id=%s&page=%s&from=%d", s.url, id, page, from)
}
