package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/runtime"
	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

// What a walk finds in a long page comes in parts, also for several who look at
// it at once; what it is joined from tells of every row what it should.
func TestLongWalksTogether(t *testing.T) {
	t.Parallel()
	const rows = 1000
	d := New(nil)
	t.Cleanup(d.Close)
	p := drivertest.Page(t)
	drivertest.Goto(t, p, drivertest.Server(t).URL(fmt.Sprint("_/huge?n=", 6*rows)))
	var wg sync.WaitGroup
	errs, scenes := make([]error, 4), make([]*scene, 4)
	tab, err := d.tab(p)
	assert.NilError(t, err)
	assert.NilError(t, tab.ready(t.Context(), "page.snapshot"))
	for i := range errs {
		wg.Go(func() { scenes[i], errs[i] = tab.gather(t.Context()) })
	}
	wg.Wait()
	for i, sc := range scenes {
		assert.NilError(t, errs[i])
		v := sc.main()
		assert.Assert(t, len(v.meta.Parts) == 4 && v.meta.Parts[0] > 0 && v.meta.Parts[1] > 1 && v.meta.Parts[2] > 1, "%v", v.meta.Parts)
		assert.DeepEqual(t, v.meta.Kept, []int{0, 0, 0, 0}) // all of it was told
		n := 0
		for at := range v.rows {
			if v.rows[at].tag != "li" {
				continue
			}
			n++
			assert.Equal(t, v.text(at), fmt.Sprintf("Order %d Line %d of a long list of orders. Details of order %d Pay order %d Note on order %d", n, n, n, n, n))
		}
		assert.Equal(t, n, rows)
	}
	f := scenes[0].main().frame
	world, err := tab.world(t.Context(), f)
	assert.NilError(t, err)
	res, err := call(t.Context(), p, runtime.Evaluate, runtime.EvaluateParams{Expression: "globalThis.__piChrome.kept.size", ContextID: world})
	assert.NilError(t, err)
	assert.Equal(t, string(res.Result.Value), "0", "what was fetched is not kept in the page")
}

// What a long walk finds is the same whether its parts are told while it goes
// on, kept and fetched, or some of each; and so in the document after, whose
// world is another one.
func TestLongWalkToldOrFetched(t *testing.T) {
	t.Parallel()
	d := New(nil)
	t.Cleanup(d.Close)
	rec := drivertest.Record(t, drivertest.Page(t))
	tab, err := d.tab(rec)
	assert.NilError(t, err)
	for _, page := range []string{"_/huge?n=6000", "_/huge?n=6001"} {
		drivertest.Goto(t, rec.Conn, drivertest.Server(t).URL(page))
		assert.NilError(t, tab.ready(t.Context(), "page.snapshot"))
		f, err := tab.mainFrame()
		assert.NilError(t, err)
		var all [][]string
		for _, most := range []int{0, 100_000, maxTold} {
			told, done := tab.hearWalk(t.Context(), f)
			texts, _, err := tab.runNodes(t.Context(), f, "walk", map[string]any{"rows": maxRows, "ms": mainWalkMs, "text": maxText, "chars": maxTexts, "hosts": maxHosts, "tell": told.id, "told": most})
			assert.NilError(t, err)
			var meta walkMeta
			assert.NilError(t, json.Unmarshal([]byte(texts[0]), &meta))
			kept, heard := 0, 0
			for k := range meta.Kept {
				kept += meta.Kept[k]
				heard += len(told.lists[k])
			}
			assert.Equal(t, heard > 0, most > 0)
			assert.Equal(t, kept > 0, most < maxTold)
			lists, err := tab.walkParts(t.Context(), f, &meta, told)
			assert.NilError(t, err)
			done()
			all = append(all, lists)
		}
		assert.Assert(t, len(all[0][1]) > 50_000)
		assert.DeepEqual(t, all[0], all[1])
		assert.DeepEqual(t, all[0], all[2])
	}
	assert.Equal(t, len(tab.told), 0)

	// Where the page cannot be told how, it keeps all.
	drivertest.Goto(t, rec.Conn, drivertest.Server(t).URL("_/huge?n=6002"))
	rec.FailNth("Runtime.addBinding", 1, op.ErrNotDelivered)
	sc, err := tab.gather(t.Context())
	assert.NilError(t, err)
	assert.DeepEqual(t, sc.main().meta.Kept, sc.main().meta.Parts)
}

// A text that an element holds alone may be several nodes, with comments
// between, and need not be one at all.
func TestTheOnlyText(t *testing.T) {
	t.Parallel()
	d := New(nil)
	t.Cleanup(d.Close)
	p := drivertest.Page(t)
	drivertest.Goto(t, p, drivertest.Server(t).URL("snapshot/empty.html"))
	drivertest.Eval(t, p, `document.body.innerHTML = "<a href='#a'></a><pre> two  \n lines </pre><button>  \n </button><b>one</b><button hidden>none</button><p style='white-space: pre-line'>first\nsecond</p>";
		const a = document.querySelector("a");
		a.append("Pay ", document.createComment("not this"), " 12", " euros"); 1`)
	res, err := d.Run(context.Background(), "page.read", &Call{ID: "c", Session: op.Session{Key: "s"}, Conn: p}, json.RawMessage(`{}`))
	assert.NilError(t, err)
	assert.Assert(t, res.Text != "")
	for _, want := range []string{"Pay 12 euros", " two  \n", "one", "first second"} {
		assert.Assert(t, strings.Contains(res.Text, want), "%q is not in\n%s", want, res.Text)
	}
	assert.Assert(t, !strings.Contains(res.Text, "not this") && !strings.Contains(res.Text, "none"), "%s", res.Text)
}
