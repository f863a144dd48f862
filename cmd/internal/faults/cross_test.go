package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge/client"
	"pi-chrome/bridge/wire"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/op"
)

// TestTwoProfiles holds what two profiles with two sessions each may do to each
// other, which is nothing, and what strangers may do to them.
func TestTwoProfiles(t *testing.T) {
	r := newRig(t, 2)
	t.Run("no command reaches another's tab", func(t *testing.T) { neverAcross(t, r) })
	t.Run("load", func(t *testing.T) { load(t, r) })
	t.Run("attackers get nothing and stop nobody", func(t *testing.T) { attackers(t, r) })
	t.Run("no secret is told", func(t *testing.T) { secretsKept(t, r) })
}

// peer is one of the sessions that know each other's tabs and try to use them.
type peer struct {
	key     string
	profile *browserProfile
	client  *client.Client
	rng     *rand.Rand
	ctx     context.Context
	n       int
	sent    []string
	told    map[string]int
	own     []int // tabs that it had at its last look
}

// neverAcross has four sessions send commands at once that name tabs in every
// way there is, also the others' tabs. Invariants 2 and 3 of the design: a
// command goes to the tab of its own session in its own profile, and the
// selector is resolved once. Each page says who it is when it was made to act.
func neverAcross(t *testing.T, r *rig) {
	const steps = 40
	peers := make([]*peer, 4)
	var mu sync.Mutex
	ids := []int{} // tabs of all sessions, in both browsers
	for i := range peers {
		p := &peer{key: fmt.Sprintf("peer-%d-%d", *seedFlag, i), profile: r.profiles[i%2], client: r.dial(t, r.port),
			rng: rand.New(rand.NewPCG(*seedFlag, uint64(i))), told: map[string]int{}, ctx: t.Context()}
		peers[i] = p
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			_, err := owner.Cleanup(ctx, p.client, p.key)
			assert.Check(t, err)
			assert.Check(t, p.client.Close())
		})
		assert.NilError(t, p.run("page.navigate", map[string]any{"url": r.site.act(p.next(), p.key, 0)}, p.profile.id))
	}
	var working sync.WaitGroup
	for _, p := range peers {
		working.Go(func() {
			for i := range steps {
				if i%10 == 0 {
					p.look()
				}
				mu.Lock()
				ids = append(ids, p.own...)
				known := slices.Clone(ids)
				mu.Unlock()
				p.step(r, peers, known)
			}
		})
	}
	working.Wait()
	for i, p := range peers {
		assert.Assert(t, p.told["done"] > steps/5, "%s: %s", p.key, words(p.told))
		assert.Assert(t, p.told["rejected"] > 0, "%s: %s", p.key, words(p.told))
		for _, id := range p.sent {
			for _, h := range r.site.of(id) {
				assert.Equal(t, h, hit{p.key, p.profile.name}, id)
			}
			assert.Assert(t, len(r.site.of(id)) <= 1, id)
		}
		// Its tabs show its own pages, and none is gone.
		tabs, err := p.list()
		assert.NilError(t, err)
		assert.Assert(t, slices.ContainsFunc(tabs, func(tab op.Tab) bool { return tab.Owned }), "session %d has lost its tab", i)
		for _, tab := range tabs {
			if u, err := url.Parse(tab.URL); tab.Owned && tab.URL != "about:blank" {
				assert.NilError(t, err)
				assert.Equal(t, u.Query().Get("page"), p.key, "tab %d of session %d shows %s", tab.ID, i, tab.URL)
			}
		}
		t.Logf("%s in %s: %s", p.key, p.profile.name, words(p.told))
	}
}

func (p *peer) next() string { return fmt.Sprintf("%s-%d", p.key, p.n) }

// step sends one command whose target and browser are any of those that there
// are, right or wrong.
func (p *peer) step(r *rig, peers []*peer, ids []int) {
	input := map[string]any{}
	other := peers[p.rng.IntN(len(peers))]
	switch p.rng.IntN(8) {
	case 0: // its own only tab, or an error that lists them
	case 1, 2, 6, 7:
		input["target"] = map[string]any{"by": "id", "value": p.own[p.rng.IntN(len(p.own))]}
	case 3:
		input["target"] = map[string]any{"by": "id", "value": ids[p.rng.IntN(len(ids))]}
	case 4:
		input["target"] = map[string]any{"by": "url", "value": "page=" + other.key}
	case 5:
		input["target"] = map[string]any{"by": "title", "value": "Acts"}
	}
	browser := []string{"", p.profile.id, p.profile.id, p.profile.id, other.profile.id}[p.rng.IntN(5)]
	operation := "page.evaluate"
	switch p.rng.IntN(8) {
	case 0, 1:
		input["expression"] = fmt.Sprintf("tell(%q)", p.next())
	case 2:
		operation, input["selector"] = "input.click", fmt.Sprintf("#b-%d", p.n)
	case 3:
		operation, input["selector"], input["text"] = "input.fill", "#field", p.next()
	case 4, 5:
		operation, input["url"] = "page.navigate", r.site.act(p.next(), p.key, p.n)
	case 6:
		operation = "tab.close"
		if input["target"] == nil {
			operation, input["url"] = "tab.new", r.site.act(p.next(), p.key, 0)
		}
	case 7:
		operation = "tab.ungroup"
	}
	_ = p.run(operation, input, browser) // counted
}

// run sends one command and counts what it was told.
func (p *peer) run(operation string, input map[string]any, browser string) error {
	raw, err := json.Marshal(input)
	if err != nil {
		return err
	}
	c := wire.Command{ID: p.next(), Operation: operation, Session: wire.Session{Key: p.key}, Browser: browser, Input: raw}
	p.sent = append(p.sent, c.ID)
	p.n++
	_, err = p.client.Command(p.ctx, c, nil)
	kind, _ := told(err)
	p.told[string(kind)]++
	if operation == "tab.close" && err == nil {
		// Never without a tab: the last look says whether somebody took it.
		p.n++
		return p.run("page.navigate", map[string]any{"url": "about:blank"}, "")
	}
	return err
}

// list is what the session sees of its browser.
func (p *peer) list() ([]op.Tab, error) {
	out, err := p.client.Command(p.ctx, wire.Command{Operation: "tab.list", Session: wire.Session{Key: p.key}, Browser: p.profile.id, Input: json.RawMessage(`{}`)}, nil)
	if err != nil {
		return nil, err
	}
	var tabs []op.Tab
	return tabs, json.Unmarshal(out.Result.Value, &tabs)
}

// look notes which tabs are the session's own.
func (p *peer) look() {
	tabs, err := p.list()
	if err != nil {
		p.told["look: "+err.Error()]++
		return
	}
	p.own = p.own[:0]
	for _, tab := range tabs {
		if tab.Owned {
			p.own = append(p.own, tab.ID)
		}
	}
}
