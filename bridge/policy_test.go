package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"pgregory.net/rapid"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

func TestPolicyFile(t *testing.T) {
	known := func(tool string) bool { return tool == "chrome_click" }
	p, err := ParsePolicy([]byte(`{"version":1,"readOnly":true,"origins":{"allow":["https://*.example.org","http://localhost:*"],"deny":["https://admin.example.org"]},
		"verbs":[{"origins":["*"],"allow":["read","chrome_click"]}],"actionsPerMinute":30}`), known)
	assert.NilError(t, err)
	assert.Assert(t, p.ReadOnly && p.limitsOrigins())
	for _, c := range []struct{ file, field, says string }{
		{`{"version":2}`, "version", "knows version 1"},
		{`{}`, "version", "it is 0"},
		{`{"version":1,"readonlyy":true}`, "readonlyy", "no such field"},
		{`{"version":1,"readOnly":"yes"}`, "readOnly", "true or false"},
		{`{"version":1,"origins":{"allow":["example.org"]}}`, "origins.allow[0]", "scheme://host"},
		{`{"version":1,"origins":{"deny":["https://a.org/path"]}}`, "origins.deny[0]", "no path"},
		{`{"version":1,"origins":{"deny":["ftp://a.org"]}}`, "origins.deny[0]", "http, https"},
		{`{"version":1,"origins":{"deny":["https://a.*.org"]}}`, "origins.deny[0]", "whole host"},
		{`{"version":1,"origins":{"deny":["https://a.org:x"]}}`, "origins.deny[0]", "port"},
		{`{"version":1,"verbs":[{"allow":["read"]}]}`, "verbs[0].origins", "missing"},
		{`{"version":1,"verbs":[{"origins":["*"]}]}`, "verbs[0]", "one of allow and deny"},
		{`{"version":1,"verbs":[{"origins":["*"],"allow":["reed"]}]}`, "verbs[0]", `"reed"`},
		{`{"version":1,"actionsPerMinute":-1}`, "actionsPerMinute", "1 to 6000"},
		{`{"version":1} {}`, "", "more after"},
		{`[]`, "", "JSON object"},
	} {
		_, err := ParsePolicy([]byte(c.file), known)
		e, ok := errors.AsType[*op.Error](err)
		assert.Assert(t, ok, "%s: %v", c.file, err)
		assert.Equal(t, e.Kind, op.Invalid, c.file)
		assert.Assert(t, strings.Contains(e.Message, c.says), "%s: %s", c.file, e.Message)
		if c.field != "" {
			assert.Equal(t, e.Details["field"], c.field, c.file)
		}
	}
}

func FuzzParsePolicy(f *testing.F) {
	f.Add([]byte(`{"version":1,"origins":{"allow":["https://*.example.org","*","data:"]}}`), "https://a.example.org/x")
	f.Add([]byte(`{"version":1,"verbs":[{"origins":["http://[::1]:*"],"deny":["input"]}]}`), "http://[::1]:80/")
	f.Fuzz(func(t *testing.T, raw []byte, address string) {
		p, err := ParsePolicy(raw, nil)
		if err != nil {
			return
		}
		p.allowsURL(address)
		p.allowsVerb(op.Descriptor{Verb: op.VerbInput}, address)
	})
}

func TestOriginPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, address string
		want             bool
	}{
		{"https://example.org", "https://example.org/a?b#c", true},
		{"https://example.org", "https://EXAMPLE.org:443/", true},
		{"https://example.org", "https://example.org./", true},
		{"https://example.org", "http://example.org/", false},
		{"https://example.org", "https://example.org:8443/", false},
		{"https://example.org:*", "https://example.org:8443/", true},
		{"https://example.org", "https://www.example.org/", false},
		{"https://*.example.org", "https://a.b.example.org/", true},
		{"https://*.example.org", "https://example.org/", true},
		{"https://*.example.org", "https://badexample.org/", false},
		{"https://example.org", "https://example.org@evil.test/", false},
		{"https://example.org", "https://example.org.evil.test/", false},
		{"https://example.org", "blob:https://example.org/1-2", true},
		{"https://example.org", "view-source:https://example.org/", true},
		{"*://localhost:*", "http://localhost:3000/", true},
		{"*://localhost:*", "file:///etc/passwd", false},
		{"http://[::1]:8080", "http://[::1]:8080/", true},
		{"data:", "data:text/html,x", true},
		{"https://*", "https://anything.test/", true},
		{"https://*", "data:text/html,x", false},
		{"*", "data:text/html,x", true},
	} {
		_, hit := match([]string{c.pattern}, originOf(c.address))
		assert.Equal(t, hit, c.want, "%s %s", c.pattern, c.address)
	}
}

// TestPolicyProperties: deny wins over allow, and an allow list never lets an
// address through that no pattern of it matches.
func TestPolicyProperties(t *testing.T) {
	patterns := rapid.SampledFrom([]string{"https://a.test", "https://*.a.test", "http://*", "*", "data:", "*://b.test:*"})
	addresses := rapid.SampledFrom([]string{"https://a.test/", "https://x.a.test/", "http://b.test:81/", "data:,x", "https://c.test/", "javascript:1", "garbage", `https:/\c.test`})
	rapid.Check(t, func(t *rapid.T) {
		p := &Policy{Version: 1, Origins: OriginRules{Allow: rapid.SliceOfN(patterns, 0, 3).Draw(t, "allow"), Deny: rapid.SliceOfN(patterns, 0, 3).Draw(t, "deny")}}
		to := addresses.Draw(t, "address")
		_, ok := p.allowsURL(to)
		_, denied := match(p.Origins.Deny, originOf(to))
		_, allowed := match(p.Origins.Allow, originOf(to))
		unsure := p.limitsOrigins() && originOf(to).scheme == unknownScheme
		if want := !denied && !unsure && (allowed || len(p.Origins.Allow) == 0); ok != want {
			t.Fatalf("%+v lets %s through: %v", p.Origins, to, ok)
		}
	})
}

func (p *program) setPolicy(t *testing.T, policy string) {
	t.Helper()
	assert.NilError(t, p.ask("authorize", AuthorizeParams{Session: "default", Mode: AuthorizedIndefinite, Policy: json.RawMessage(policy)}, nil))
}

func init() {
	fakeOps["page.navigate"] = op.Descriptor{Name: "page.navigate", Tool: "chrome_navigate", Effect: op.MayMutate, Verb: op.VerbOpen, Opens: "url", Tab: op.PageTab, Deadline: op.DefaultDeadline}
	for name, verb := range map[string]op.Verb{"page.click": op.VerbInput, "page.snapshot": op.VerbRead, "tab.close": op.VerbTab, "tab.claim": op.VerbTab, "tab.list": op.VerbRead} {
		d := fakeOps[name]
		d.Verb = verb
		fakeOps[name] = d
	}
}

func TestOriginsOfAPolicy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.handler.run = func(ctx context.Context, call *Call) (op.Result, error) {
			var in struct{ URL string }
			if call.Operation == "page.navigate" && json.Unmarshal(call.Input, &in) == nil {
				_, id := fakeTabs{r.profiles.list}.of(call.Tab)
				r.browser.change(id, func(t *op.Tab) { t.URL = in.URL })
			}
			return runClaims(ctx, call)
		}
		p := r.dial()
		good, bad := r.browser.open("https://good.test/"), r.browser.open("https://bad.test/secret")
		p.setPolicy(t, `{"version":1,"origins":{"allow":["https://good.test"]}}`)
		// On navigation, on a claim, and for a tab that is only named.
		wantOK(t, p.do(cmd("1", "page.navigate", `{"url":"https://good.test/a"}`)))
		f := wantError(t, p.do(cmd("2", "page.navigate", `{"url":"https://bad.test/"}`)), op.Rejected, op.OriginDenied)
		assert.Equal(t, f.Details["origin"], "https://bad.test")
		wantError(t, p.do(cmd("3", "tab.claim", forTab(bad.ID))), op.Rejected, op.OriginDenied)
		wantError(t, p.do(cmd("4", "page.snapshot", forTab(bad.ID))), op.Rejected, op.OriginDenied)
		wantOK(t, p.do(cmd("5", "page.snapshot", forTab(good.ID))))
		// A list does not tell what it keeps away, and no search finds it.
		res := p.do(cmd("6", "tab.list", `{}`))
		wantOK(t, res)
		assert.Assert(t, !strings.Contains(string(res.Value), "bad.test"), string(res.Value))
		f = wantError(t, p.do(cmd("7", "page.snapshot", `{"target":{"by":"url","value":"secret"}}`)), op.Rejected, op.TabNotFound)
		assert.Assert(t, !strings.Contains(f.Message, "bad.test"), f.Message)
		// The tab drifts there by itself.
		own := recordsOf(r.srv)[0].TabID
		r.browser.change(own, func(t *op.Tab) { t.URL = "https://bad.test/drifted" })
		f = wantError(t, p.do(cmd("8", "page.click", `{}`)), op.Rejected, op.OriginDenied)
		assert.Assert(t, strings.Contains(f.Message, "https://bad.test"), f.Message)
		wantOK(t, p.do(cmd("9", "page.navigate", `{"url":"https://good.test/b"}`)) /* the way back */)
		wantOK(t, p.do(cmd("10", "tab.close", `{}`)))
		// It is durable.
		p.close()
		r.crash()
		r.start()
		defer r.close()
		p = r.dial()
		defer p.close()
		wantError(t, p.do(cmd("11", "page.navigate", `{"url":"https://bad.test/"}`)), op.Rejected, op.OriginDenied)
		p.setPolicy(t, `null`)
		wantOK(t, p.do(cmd("12", "page.navigate", `{"url":"https://bad.test/"}`)))
	})
}

// TestWhatADeniedPageShowsIsWithheld: the command itself led there.
func TestWhatADeniedPageShowsIsWithheld(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		wantOK(t, p.do(cmd("1", "page.click", `{}`)))
		own := recordsOf(r.srv)[0].TabID
		p.setPolicy(t, `{"version":1,"origins":{"deny":["https://bad.test"]}}`)
		r.handler.run = func(_ context.Context, call *Call) (op.Result, error) {
			r.browser.change(own, func(t *op.Tab) { t.URL = "https://bad.test/" })
			return op.NewResult("secret")
		}
		f := wantError(t, p.do(cmd("2", "page.click", `{}`)), op.OutcomeUnknown, op.OriginDenied)
		assert.Assert(t, strings.Contains(f.Message, "withheld"), f.Message)
		r.browser.change(own, func(t *op.Tab) { t.URL = "https://good.test/" })
		wantError(t, p.do(cmd("3", "page.snapshot", `{}`)), op.Rejected, op.OriginDenied)
		// A redirect that the guard stopped.
		r.browser.change(own, func(t *op.Tab) { t.URL = "https://good.test/" })
		r.handler.run = func(_ context.Context, call *Call) (op.Result, error) {
			r.browser.mu.Lock()
			r.browser.blocked = map[int]string{own: "https://bad.test/next"}
			r.browser.mu.Unlock()
			if call.Operation == "page.navigate" {
				return op.Result{}, op.Reject(op.NavigationFailed, "aborted")
			}
			return op.Result{Value: json.RawMessage(`1`), Text: "clicked"}, nil
		}
		f = wantError(t, p.do(cmd("4", "page.navigate", `{"url":"https://good.test/r"}`)), op.OutcomeUnknown, op.OriginDenied)
		assert.Assert(t, strings.Contains(f.Message, "was not requested"), f.Message)
		res := p.do(cmd("5", "page.click", `{}`))
		wantOK(t, res)
		assert.Assert(t, strings.Contains(res.Text, "https://bad.test"), res.Text)
	})
}

func TestVerbsAndPaceOfAPolicy(t *testing.T) {
	withOwner(t, func(t *testing.T, r *rig) {
		r.handler.run = runClaims
		p := r.dial()
		defer p.close()
		mine := r.browser.open("https://mine.test/")
		p.setPolicy(t, `{"version":1,"readOnly":true}`)
		wantOK(t, p.do(cmd("1", "page.navigate", `{"url":"https://a.test/"}`)))
		wantOK(t, p.do(cmd("2", "page.snapshot", `{}`)))
		wantError(t, p.do(cmd("3", "page.click", `{}`)), op.Rejected, op.PolicyDenied)
		wantError(t, p.do(cmd("4", "page.navigate", `{"url":"https://a.test/","initScript":"1"}`)), op.Rejected, op.PolicyDenied)
		wantError(t, p.do(cmd("5", "tab.close", forTab(mine.ID))), op.Rejected, op.PolicyDenied)
		own := recordsOf(r.srv)[0].TabID
		r.browser.change(own, func(t *op.Tab) { t.URL = "https://shop.test/" })
		p.setPolicy(t, `{"version":1,"verbs":[{"origins":["https://shop.test"],"deny":["input"]},{"origins":["*"],"allow":["input"]}]}`)
		f := wantError(t, p.do(cmd("6", "page.click", `{}`)), op.Rejected, op.PolicyDenied)
		assert.Equal(t, f.Details["rule"], "verbs[0]")
		r.browser.change(own, func(t *op.Tab) { t.URL = "https://other.test/" })
		wantOK(t, p.do(cmd("7", "page.click", `{}`)))
		f = wantError(t, p.do(cmd("8", "page.snapshot", `{}`)), op.Rejected, op.PolicyDenied)
		assert.Equal(t, f.Details["rule"], "verbs[1]")
		p.setPolicy(t, `{"version":1,"actionsPerMinute":2}`)
		wantOK(t, p.do(cmd("9", "page.click", `{}`)))
		time.Sleep(20 * time.Second)
		wantOK(t, p.do(cmd("10", "page.click", `{}`)))
		f = wantError(t, p.do(cmd("11", "page.click", `{}`)), op.Unavailable, op.RateLimited)
		assert.Equal(t, f.Details["retryAfterMs"], float64(40_000))
		wantOK(t, p.do(cmd("12", "page.snapshot", `{}`))) // reading is free
		time.Sleep(40 * time.Second)
		wantOK(t, p.do(cmd("13", "page.click", `{}`)))
		// The focus, whatever the caller says.
		p.setPolicy(t, `{"version":1,"background":true}`)
		r.handler.run = runTabs
		wantError(t, p.do(inForeground(cmd("14", "tab.activate", `{}`))), op.Rejected, op.BackgroundMode)
		p.setPolicy(t, `null`)
		wantOK(t, p.do(inForeground(cmd("15", "tab.activate", `{}`))))
		var st Status
		assert.NilError(t, p.ask("status", SessionParams{}, &st))
		assert.Assert(t, st.Session.Policy == nil)
		var bad *wire.Result
		err := p.ask("authorize", AuthorizeParams{Session: "default", Mode: AuthorizedIndefinite, Policy: json.RawMessage(`{"version":1,"verbs":[{"origins":["*"],"allow":["nothing"]}]}`)}, &bad)
		assert.Assert(t, errors.Is(err, &op.Error{Code: op.InvalidInput}), "%v", err)
	})
}
