// Package demo shows the whole path once: in a sandbox it buys a lamp in the
// bundled shop, through the extension, in a tab that stays hidden. Every
// element is one that a snapshot showed; no selector and no script is used.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"pi-chrome/driver/op"
	"pi-chrome/fixtures"
)

// Caller runs one operation and returns its result and how long it took. A
// picture comes back published: its value names files.
type Caller func(ctx context.Context, tool string, input any) (op.Result, time.Duration, error)

// Report is what the demo came to.
type Report struct {
	Order    string        `json:"order"` // the number of the verified order
	Steps    []Step        `json:"steps"`
	Pictures []string      `json:"pictures"`
	Trace    string        `json:"trace"`
	Elapsed  time.Duration `json:"-"`
}

// Step is one step as it is shown.
type Step struct {
	Name      string   `json:"name"`
	ElapsedMs int64    `json:"elapsedMs"`      // of the calls, as the caller measured them
	Page      string   `json:"page,omitempty"` // title and address of what it saw at its end
	New       []string `json:"-"`              // lines of the snapshot that the one before did not have
	Snapshot  string   `json:"snapshot,omitempty"`
	Result    string   `json:"result,omitempty"`
}

// PictureStep is the name of the step that takes the first picture.
const PictureStep = "take a picture of the hidden tab"

// The customer of the demo. The card is a number that only tests use.
const (
	query   = "lamp"
	product = "Borea Floor Lamp"
	name    = "Robin Vale"
	email   = "robin@example.org"
	address = "12 Mill Lane\nOld Harbour"
	country = "Finland"
	date    = "2030-05-17"
	card    = "4242 4242 4242 4242"
)

// Run runs the demo and shows each step as it ends. The order is verified on
// the page and in the shop; anything else is an error.
func Run(ctx context.Context, call Caller, show func(Step)) (Report, error) {
	started := time.Now()
	site := fixtures.New()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return Report{}, fmt.Errorf("serving the shop: %w", err)
	}
	server := &http.Server{Handler: site, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	d := &run{call: call, show: show, base: "http://" + listener.Addr().String()}
	err = d.buy(ctx)
	if err == nil {
		err = d.verify(ctx, site.Shop)
	}
	if err == nil {
		err = d.pictures(ctx)
	}
	err = errors.Join(err, server.Close())
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	d.report.Elapsed = time.Since(started)
	return d.report, err
}

type run struct {
	call   Caller
	show   func(Step)
	base   string
	page   snapshot        // the latest
	seen   map[string]bool // lines of the snapshot before, without their refs
	step   Step
	spent  time.Duration
	report Report
}

// snapshot is the part of a snapshot's value that the demo reads.
type snapshot struct {
	Title   string   `json:"title"`
	URL     string   `json:"url"`
	Actions []action `json:"actions"`
	text    string
}

type action struct {
	ID    string         `json:"id"`
	Role  string         `json:"role"`
	Name  string         `json:"name"`
	State map[string]any `json:"state"`
	Verbs []string       `json:"verbs"`
}

func (d *run) begin(format string, args ...any) {
	d.step, d.spent = Step{Name: fmt.Sprintf(format, args...)}, 0
}

func (d *run) end() {
	d.step.ElapsedMs = d.spent.Milliseconds()
	d.report.Steps = append(d.report.Steps, d.step)
	d.show(d.step)
}

// do runs one operation of the current step.
func (d *run) do(ctx context.Context, tool string, input map[string]any) (op.Result, error) {
	res, elapsed, err := d.call(ctx, tool, input)
	d.spent += elapsed
	if err != nil {
		return res, fmt.Errorf("step %q: %w", d.step.Name, err)
	}
	return res, nil
}

// look takes a snapshot of the tab.
func (d *run) look(ctx context.Context) error {
	res, err := d.do(ctx, "chrome_snapshot", map[string]any{"mode": "interactive"})
	if err != nil {
		return err
	}
	d.page = snapshot{}
	if err := json.Unmarshal(res.Value, &d.page); err != nil {
		return fmt.Errorf("step %q: reading the snapshot: %w", d.step.Name, err)
	}
	d.page.text, d.step.Snapshot = res.Text, res.Text
	d.step.Page = d.page.Title + " " + d.page.URL
	d.compare(res.Text)
	return nil
}

var refInLine = regexp.MustCompile(`^- @\S+ `)

// compare finds the actions that the page before did not have.
func (d *run) compare(text string) {
	before := d.seen
	d.seen, d.step.New = map[string]bool{}, nil
	for line := range strings.Lines(text) {
		if !refInLine.MatchString(line) || !strings.HasSuffix(strings.TrimSpace(line), "]") {
			continue // no action, but a context with a count
		}
		bare := refInLine.ReplaceAllString(line, "")
		if !before[bare] && !d.seen[bare] {
			d.step.New = append(d.step.New, strings.TrimRight(line, "\n"))
		}
		d.seen[bare] = true
	}
}

// arrive waits until the tab is at the path and its page has loaded, and looks.
func (d *run) arrive(ctx context.Context, path string) error {
	res, err := d.do(ctx, "chrome_wait", map[string]any{"condition": map[string]any{"by": "urlIncludes", "value": path}})
	if err != nil {
		return err
	}
	var waited struct {
		Satisfied bool `json:"satisfied"`
	}
	if err := json.Unmarshal(res.Value, &waited); err != nil || !waited.Satisfied {
		return fmt.Errorf("step %q: the page %s did not come: %s", d.step.Name, path, res.Text)
	}
	return d.look(ctx)
}

// find returns the ref of the one action that matches in the latest snapshot.
func (d *run) find(verb, role, name string) (string, error) {
	var exact, part []action
	for _, a := range d.page.Actions {
		if !slices.Contains(a.Verbs, verb) || role != "" && a.Role != role {
			continue
		}
		switch {
		case a.Name == name:
			exact = append(exact, a)
		case strings.Contains(a.Name, name):
			part = append(part, a)
		}
	}
	for _, hits := range [][]action{exact, part} {
		if len(hits) > 0 {
			return hits[0].ID, nil
		}
	}
	return "", fmt.Errorf("step %q: the snapshot of %s shows nothing to %s that is called %q:\n%s", d.step.Name, d.page.URL, verb, name, d.page.text)
}

func (d *run) click(ctx context.Context, role, name string) error {
	ref, err := d.find("click", role, name)
	if err != nil {
		return err
	}
	_, err = d.do(ctx, "chrome_click", map[string]any{"ref": ref})
	return err
}

func (d *run) fill(ctx context.Context, name, text string, submit bool) error {
	ref, err := d.find("fill", "", name)
	if err != nil {
		return err
	}
	input := map[string]any{"ref": ref, "text": text}
	if submit {
		input["submit"] = true
	}
	_, err = d.do(ctx, "chrome_fill", input)
	return err
}

func (d *run) buy(ctx context.Context) error {
	d.begin("open the shop")
	if _, err := d.do(ctx, "chrome_navigate", map[string]any{"url": d.base + "/shop/", "waitUntilLoad": true}); err != nil {
		return err
	}
	if err := d.look(ctx); err != nil {
		return err
	}
	d.end()

	d.begin("search for %q", query)
	if err := d.fill(ctx, "Search the shop", query, true); err != nil {
		return err
	}
	if err := d.arrive(ctx, "/shop/search?q="+query); err != nil {
		return err
	}
	d.end()

	d.begin("open %s", product)
	if err := d.click(ctx, "link", product); err != nil {
		return err
	}
	if err := d.arrive(ctx, "/shop/product/"); err != nil {
		return err
	}
	d.end()

	d.begin("choose a size and put it into the cart")
	if err := d.size(ctx); err != nil {
		return err
	}
	if err := d.click(ctx, "button", "Add to cart"); err != nil {
		return err
	}
	// The cart's link says how much is in it, and the page shows no new one.
	if _, err := d.do(ctx, "chrome_wait", map[string]any{"condition": map[string]any{"by": "textContains", "value": "Cart 1"}}); err != nil {
		return err
	}
	if err := d.look(ctx); err != nil {
		return err
	}
	d.end()

	d.begin("go to the checkout")
	if err := d.click(ctx, "link", "Cart, 1 items"); err != nil {
		return err
	}
	if err := d.arrive(ctx, "/shop/cart"); err != nil {
		return err
	}
	if err := d.click(ctx, "link", "Check out"); err != nil {
		return err
	}
	if err := d.arrive(ctx, "/shop/checkout"); err != nil {
		return err
	}
	d.end()

	return d.checkout(ctx)
}

// size takes the first size that the product has.
func (d *run) size(ctx context.Context) error {
	for _, p := range fixtures.NewShop().Products() {
		if p.Name == product {
			return d.fill(ctx, "Size", p.Sizes[0], false)
		}
	}
	return fmt.Errorf("step %q: the shop has no %s", d.step.Name, product)
}

func (d *run) checkout(ctx context.Context) error {
	d.begin("fill the checkout form")
	for _, field := range [][2]string{
		{"Full name", name}, {"Email", email}, {"Address", address}, {"Country", country},
		{"Delivery date", date}, {"Card number", card},
	} {
		if err := d.fill(ctx, field[0], field[1], false); err != nil {
			return err
		}
	}
	if err := d.click(ctx, "radio", "Express"); err != nil {
		return err
	}
	if err := d.click(ctx, "checkbox", "I accept the terms"); err != nil {
		return err
	}
	if err := d.look(ctx); err != nil {
		return err
	}
	d.end()

	d.begin("place the order")
	if err := d.click(ctx, "button", "Place order"); err != nil {
		return err
	}
	if err := d.arrive(ctx, "/shop/order/"); err != nil {
		return err
	}
	d.end()
	return nil
}

// verify compares what the page says with what the shop has.
func (d *run) verify(ctx context.Context, shop *fixtures.Shop) error {
	d.begin("verify the order")
	res, err := d.do(ctx, "chrome_read", map[string]any{})
	if err != nil {
		return err
	}
	orders := shop.Orders()
	if len(orders) != 1 {
		return fmt.Errorf("step %q: the shop has %d orders, not 1", d.step.Name, len(orders))
	}
	o := orders[0]
	for what, pair := range map[string][2]string{
		"name": {o.Name, name}, "email": {o.Email, email}, "address": {o.Address, address}, "country": {o.Country, country},
		"delivery": {o.Shipping, "express"}, "date": {o.Date, date}, "card": {o.Card, card[len(card)-4:]},
	} {
		if pair[0] != pair[1] {
			return fmt.Errorf("step %q: the shop has the %s %q, not %q", d.step.Name, what, pair[0], pair[1])
		}
	}
	if len(o.Items) != 1 || o.Items[0].Name != product || o.Items[0].Quantity != 1 {
		return fmt.Errorf("step %q: the shop has %+v in the order, not one %s", d.step.Name, o.Items, product)
	}
	for _, want := range []string{"Thank you, " + name, o.Number} {
		if !strings.Contains(res.Text, want) {
			return fmt.Errorf("step %q: the page does not say %q:\n%s", d.step.Name, want, res.Text)
		}
	}
	d.report.Order = o.Number
	d.step.Snapshot, d.step.Page = res.Text, "chrome_read says:"
	for line := range strings.Lines(res.Text) {
		for _, fact := range []string{"Thank you", o.Number + ".", product, "€"} {
			if strings.Contains(line, fact) {
				d.step.New = append(d.step.New, strings.TrimSpace(line))
				break
			}
		}
	}
	d.step.Result = fmt.Sprintf("order %s: the page and the shop agree", o.Number)
	d.end()
	return nil
}

// pictures takes the confirmation, then the whole home page, in the tab that
// nobody has looked at.
func (d *run) pictures(ctx context.Context) error {
	d.begin(PictureStep)
	if err := d.picture(ctx, map[string]any{"kind": "viewport", "path": "viewport.png"}); err != nil {
		return err
	}
	d.end()

	d.begin("take the whole home page as tiles, hidden too")
	if _, err := d.do(ctx, "chrome_navigate", map[string]any{"url": d.base + "/shop/", "waitUntilLoad": true}); err != nil {
		return err
	}
	if err := d.picture(ctx, map[string]any{"kind": "full-page-tiles", "directory": "full-page"}); err != nil {
		return err
	}
	d.end()
	return nil
}

func (d *run) picture(ctx context.Context, capture map[string]any) error {
	res, err := d.do(ctx, "chrome_screenshot", map[string]any{"format": "png", "capture": capture})
	if err != nil {
		return err
	}
	var v struct {
		Path         string `json:"path"`
		ManifestPath string `json:"manifestPath"`
		Tiles        []any  `json:"tiles"`
	}
	if err := json.Unmarshal(res.Value, &v); err != nil {
		return fmt.Errorf("step %q: reading the result: %w", d.step.Name, err)
	}
	path := v.Path
	if path == "" {
		path = v.ManifestPath
	}
	if path == "" {
		return fmt.Errorf("step %q: no picture was saved: %s", d.step.Name, res.Text)
	}
	d.report.Pictures = append(d.report.Pictures, path)
	d.step.Result = res.Text
	return nil
}
