package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// TestAuditOrigin: of what is known of the page, and nothing but its origin.
func TestAuditOrigin(t *testing.T) {
	click, list := fakeOps["page.click"], fakeOps["tab.list"]
	navigate := op.Descriptor{Name: "page.navigate", Tab: op.PageTab, Opens: "url"}
	script := op.Descriptor{Name: "page.evaluate", Tab: op.PageTab, Verb: op.VerbScript}
	request := op.Descriptor{Name: "page.network-get", Tab: op.PageTab}
	failed := func(key, at string) wire.Result {
		return wire.Result{Error: &wire.Failure{Details: map[string]any{key: at}}}
	}
	ok := func(value string) wire.Result { return wire.Result{OK: true, Value: json.RawMessage(value)} }
	for _, tt := range []struct {
		desc  op.Descriptor
		input string
		r     wire.Result
		want  string
	}{
		{navigate, `{"url":"https://user:hunter2@Shop.test:8443/a/b?token=hunter2#c"}`, ok(`{"url":"https://other.test/"}`), "https://shop.test:8443"},
		{navigate, `{"url":"view-source:https://shop.test/x"}`, failed("url", "https://other.test/"), "https://shop.test"},
		{navigate, `{"url":"data:text/html,hunter2"}`, ok(`{}`), "data:"},
		{click, `{"url":"https://no.test/"}`, ok(`{"action":{"urlBefore":"http://a.test:80/x?q=1","urlAfter":"https://b.test/"}}`), "http://a.test"},
		{click, `{}`, ok(`{"action":"back","urlBefore":"http://[::1]:8080/x"}`), "http://[::1]:8080"},
		{click, `{}`, ok(`{"tab":{"url":"https://shot.test/x"}}`), "https://shot.test"},
		{click, `{}`, ok(`{"observation":{"url":"https://wait.test/x"}}`), "https://wait.test"},
		{click, `{}`, ok(`{"url":"blob:https://read.test/1-2"}`), "https://read.test"},
		{click, `{}`, ok(`{"url":"hunter2"}`), ""},
		{click, `{}`, ok(`[1]`), ""},
		{click, `{}`, failed("origin", "https://denied.test"), "https://denied.test"},
		{click, `{}`, failed("url", "https://user:hunter2@fail.test/x?token=hunter2"), "https://fail.test"},
		{click, `{}`, wire.Result{Error: &wire.Failure{}}, ""},
		{script, `{}`, ok(`{"url":"https://forged.test/"}`), ""},
		{request, `{}`, ok(`{"url":"https://cdn.test/"}`), ""},
		{list, `{}`, ok(`{"url":"https://any.test/"}`), ""},
	} {
		c := &command{desc: tt.desc, input: json.RawMessage(tt.input)}
		assert.Equal(t, auditOrigin(c, tt.r, ""), tt.want, "%s %s %s", tt.desc.Name, tt.input, tt.r.Value)
	}
}

// TestAProfileKnowsItsPages without a question to Chrome.
func TestAProfileKnowsItsPages(t *testing.T) {
	conversation(t, Hooks{}, func(t *testing.T, p *fakeProfile) {
		w := p.worker().open()
		c := &command{profile: p.connector(), desc: fakeOps["page.click"], target: resolvedTab{id: 1}}
		at := func(want string) {
			t.Helper()
			synctest.Wait()
			assert.Equal(t, pageOf(c), want)
		}
		w.event("tabs.onUpdated", 1, map[string]any{"url": "x"}, map[string]any{"id": 1, "url": "https://shop.test/cart?token=hunter2"})
		at("https://shop.test")
		assert.Equal(t, auditOrigin(c, wire.Result{Error: &wire.Failure{}}, pageOf(c)), "https://shop.test")
		w.event("tabs.onReplaced", 2, 1)
		at("")
		c.target.id = 2
		at("https://shop.test")
		w.event("tabs.onRemoved", 2, map[string]any{})
		at("")
	})
}

// TestTheOriginIsInTheAuditLog, and an entry without one is as it was before
// there were any.
func TestTheOriginIsInTheAuditLog(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		p := r.dial()
		r.handler.run = func(context.Context, *Call) (op.Result, error) {
			return op.NewResult(map[string]any{"urlBefore": "https://shop.test/cart?token=hunter2", "urlAfter": "https://pay.test/"})
		}
		wantOK(t, p.do(cmd("1", "page.click", `{}`)))
		wantOK(t, p.do(cmd("2", "tab.list", `{}`)))
		p.close()
		r.close()
		all := auditOf(t, r.dir)
		assert.Equal(t, all[1].Origin, "https://shop.test")
		assert.Equal(t, all[2].Origin, "")
		raw, err := os.ReadFile(filepath.Join(r.dir, auditName))
		assert.NilError(t, err)
		assert.Equal(t, bytes.Count(raw, []byte(`"origin"`)), 1)
		assert.Assert(t, !bytes.Contains(raw, []byte("hunter2")))
	})
}
