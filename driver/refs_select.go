package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"pi-chrome/driver/op"
)

// maxCandidates is how many elements an ambiguity names.
const maxCandidates = 10

// hop is one document of a selector: CSS selectors of which each is looked for
// in the shadow roots within what the one before found.
type hop []string

// parseSelector splits a selector into hops at ">>" (into a frame) and each
// hop into steps at ">>>" (into shadow roots). Both are left alone within
// quotes, brackets and parentheses.
func parseSelector(s string) ([]hop, error) {
	var hops []hop
	var cur hop
	start, depth := 0, 0
	quote := byte(0)
	step := func(end int) error {
		css := strings.TrimSpace(s[start:end])
		if css == "" {
			return fmt.Errorf("a part of it is empty")
		}
		cur = append(cur, css)
		return nil
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '[' || c == '(':
			depth++
		case c == ']' || c == ')':
			depth--
		case depth == 0 && strings.HasPrefix(s[i:], ">>>"):
			if err := step(i); err != nil {
				return nil, err
			}
			i += 2
			start = i + 1
		case depth == 0 && strings.HasPrefix(s[i:], ">>"):
			if err := step(i); err != nil {
				return nil, err
			}
			hops, cur = append(hops, cur), nil
			i++
			start = i + 1
		}
	}
	if err := step(len(s)); err != nil {
		return nil, err
	}
	return append(hops, cur), nil
}

type selected struct {
	Error   string `json:"error"`
	Token   string `json:"token"`
	Total   int    `json:"total"`
	Visible int    `json:"visible"`
	Enabled int    `json:"enabled"`
	Items   []struct {
		Num     int     `json:"num"`
		Tag     string  `json:"tag"`
		Role    string  `json:"role"`
		Label   string  `json:"label"`
		ID      string  `json:"id"`
		Visible bool    `json:"visible"`
		X       float64 `json:"x"`
		Y       float64 `json:"y"`
		W       float64 `json:"width"`
		H       float64 `json:"height"`
	} `json:"items"`
}

// bySelector returns the one element that a selector finds. Of several
// matches the only visible one is taken. It fails with action-target-not-found
// when the selector is no CSS, and with invalid-action-target when nothing
// matches or the choice is ambiguous; it never touches the page.
func (t *Tab) bySelector(ctx context.Context, selector string) (node, error) {
	m, err := t.match(ctx, selector)
	if err != nil {
		return node{}, err
	}
	if m.found.Total == 0 {
		return node{}, t.invalidTarget(selector, "no-match", m.frame.url, "nothing on tab %d matches %q", t.conn.Key().TabID, selector).
			WithHint("take a snapshot and use a ref, or wait for the element")
	}
	n, err := t.onlyMatch(selector, m)
	if err != nil {
		return node{}, err
	}
	it := m.found.Items[0]
	out := node{frame: m.frame, backend: n.Backend, role: it.Role, name: it.Label, tag: it.Tag,
		box: rect{X: it.X, Y: it.Y, W: it.W, H: it.H}, boxKnown: m.top && it.Visible}
	t.mu.Lock()
	if k := t.observed.byKey[nodeKey{m.frame.id, m.found.Token, it.Num}]; k != nil && it.Num != 0 {
		out.ref, out.role, out.name = k.ref, k.role, k.name
	}
	t.mu.Unlock()
	return out, nil
}

// matched is what a selector finds in the document of its last part.
type matched struct {
	frame frameRef
	top   bool // in the main frame, whose viewport boxes are relative to
	found selected
	nodes []*deepNode // of found.Items
}

// match follows a selector: CSS, with ">>>" through shadow roots, closed ones
// too, and "iframe >> …" into a frame. Nothing found is no error; a frame that
// is not one or not clear is.
func (t *Tab) match(ctx context.Context, selector string) (matched, error) {
	hops, err := parseSelector(selector)
	if err != nil {
		return matched{}, t.badSelector(selector, err.Error())
	}
	f, err := t.mainFrame()
	if err != nil {
		return matched{}, err
	}
	for h, steps := range hops {
		if len(steps) > 1 {
			// A walk finds the closed shadow roots.
			if err := t.meetClosed(ctx, f); err != nil {
				return matched{}, err
			}
		}
		texts, nodes, err := t.runNodes(ctx, f, "select", steps, maxCandidates)
		if err != nil {
			return matched{}, fmt.Errorf("looking for %q: %w", selector, err)
		}
		m := matched{frame: f, top: h == 0, nodes: nodes}
		if len(texts) == 0 {
			return matched{}, fmt.Errorf("looking for %q: no answer", selector)
		}
		if err := json.Unmarshal([]byte(texts[0]), &m.found); err != nil {
			return matched{}, fmt.Errorf("looking for %q: %w", selector, err)
		}
		if m.found.Error != "" {
			return matched{}, t.badSelector(selector, m.found.Error)
		}
		if m.found.Total == 0 || h == len(hops)-1 {
			return m, nil
		}
		n, err := t.onlyMatch(selector, m)
		if err != nil {
			return matched{}, err
		}
		next, ok := t.frameByID(n.FrameID)
		if n.FrameID == "" || !ok {
			return matched{}, t.invalidTarget(selector, "no-frame", f.url, "the part of %q before >> is a <%s> on tab %d, which is no frame with a document", selector, m.found.Items[0].Tag, t.conn.Key().TabID).
				WithHint("name the iframe before >>")
		}
		f = next
	}
	return matched{}, fmt.Errorf("looking for %q: no hop", selector)
}

// onlyMatch is the only match, or the only visible one.
func (t *Tab) onlyMatch(selector string, m matched) (*deepNode, error) {
	if m.found.Visible > 1 || m.found.Visible == 0 && m.found.Total > 1 {
		return nil, t.ambiguous(selector, m.frame.url, m.found)
	}
	if len(m.nodes) == 0 || m.nodes[0] == nil {
		return nil, fmt.Errorf("looking for %q: no element", selector)
	}
	return m.nodes[0], nil
}

// meetClosed has the frame's isolated world learn its closed shadow roots.
func (t *Tab) meetClosed(ctx context.Context, f frameRef) error {
	done, err := t.lookTurn(ctx)
	if err != nil {
		return err
	}
	defer done()
	var wg sync.WaitGroup
	defer wg.Wait()
	_, err = t.look1(ctx, f, mainWalkMs, false, t.hear(ctx, &wg, f))
	return err
}

func (t *Tab) badSelector(selector, why string) *op.Error {
	return op.Reject(op.ActionTargetNotFound, "%q is no selector: %s; nothing was done on tab %d", cut(selector, 200), why, t.conn.Key().TabID).
		WithHint("give CSS, with >>> through shadow roots and \"iframe >> …\" into frames, or use a ref").WithDetail("selector", cut(selector, 500))
}

func (t *Tab) invalidTarget(selector, reason, url, format string, args ...any) *op.Error {
	e := op.Reject(op.InvalidActionTarget, format+"; nothing was done", args...)
	return e.WithDetail("selector", cut(selector, 500)).WithDetail("reason", reason).WithDetail("url", url)
}

func (t *Tab) ambiguous(selector, url string, res selected) *op.Error {
	var list []map[string]any
	var words []string
	for _, it := range res.Items {
		if res.Visible > 0 && !it.Visible {
			continue
		}
		one := map[string]any{"tag": it.Tag, "label": it.Label}
		word := "<" + it.Tag
		if it.ID != "" {
			one["id"] = it.ID
			word += "#" + it.ID
		}
		word += "> " + quoteName(it.Label, 40)
		t.mu.Lock()
		for key, k := range t.observed.byKey {
			if key.token == res.Token && key.num == it.Num && it.Num != 0 {
				one["ref"] = k.ref
				word = k.ref + " " + word
			}
		}
		t.mu.Unlock()
		list = append(list, one)
		if len(words) < 4 {
			words = append(words, word)
		}
	}
	n, what := res.Visible, "visible elements"
	if n == 0 {
		n, what = res.Total, "elements, none of them visible"
	}
	return t.invalidTarget(selector, "ambiguous", url, "%q matches %d %s on tab %d: %s", selector, n, what, t.conn.Key().TabID, strings.Join(words, ", ")).
		WithHint("make the selector match one element, or use a ref").WithDetail("matches", n).WithDetail("candidates", list)
}
