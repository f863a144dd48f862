package driver

import (
	"fmt"
	"html"
	"math/rand/v2"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// maker writes random pages of frames, shadow roots and controls, each control
// with a name of its own.
type maker struct {
	r     *rand.Rand
	n     int
	names []string
}

// name makes the next name.
func (m *maker) name(kind string) string {
	m.n++
	s := fmt.Sprintf("%s %d", kind, m.n)
	m.names = append(m.names, s)
	return s
}

func (m *maker) control() string {
	switch m.r.IntN(14) {
	case 0:
		return fmt.Sprintf(`<a href="#x">%s</a>`, m.name("Link"))
	case 1:
		return fmt.Sprintf(`<label>%s <input></label>`, m.name("Field"))
	case 2:
		return fmt.Sprintf(`<input type="checkbox" aria-label="%s">`, m.name("Check"))
	case 3:
		return fmt.Sprintf(`<select aria-label="%s"><option>A</option><option>B</option></select>`, m.name("Choice"))
	case 4:
		return fmt.Sprintf(`<div role="button" tabindex="0"><span>%s</span></div>`, m.name("Plain"))
	case 5:
		return fmt.Sprintf(`<textarea placeholder="%s"></textarea>`, m.name("Notes"))
	case 6:
		return fmt.Sprintf(`<button style="display:flex"><span>Flex</span><b>%s</b></button>`, strings.TrimPrefix(m.name("Flex button"), "Flex "))
	case 7:
		return fmt.Sprintf(`<details><summary>%s</summary><button>Closed</button></details>`, m.name("Details"))
	case 8:
		return fmt.Sprintf(`<span onclick="1">%s</span>`, m.name("Handler"))
	case 9:
		return fmt.Sprintf(`<button disabled>Off</button><button>%s</button>`, m.name("Beside"))
	case 10:
		return fmt.Sprintf(`<button><img alt="%s" width="16" height="16" src="data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA="></button>`, m.name("Picture"))
	case 11:
		return fmt.Sprintf(`<div contenteditable="true" aria-label="%s">text</div>`, m.name("Editor"))
	case 12:
		return fmt.Sprintf(`<input type="submit" value="%s">`, m.name("Submit"))
	}
	return fmt.Sprintf(`<button>%s</button>`, m.name("Button"))
}

func (m *maker) part(depth int) string {
	var b strings.Builder
	for range 1 + m.r.IntN(6) {
		if depth == 0 || m.r.IntN(3) > 0 {
			b.WriteString("<div>" + m.control() + "</div>\n")
			continue
		}
		inner := m.part(depth - 1)
		switch m.r.IntN(8) {
		case 0:
			fmt.Fprintf(&b, `<section aria-label="Section %d">%s</section>`, m.r.IntN(100), inner)
		case 1:
			fmt.Fprintf(&b, `<x-open><template shadowrootmode="open">%s</template></x-open>`, inner)
		case 2:
			fmt.Fprintf(&b, `<div><template shadowrootmode="closed">%s</template></div>`, inner)
		case 3:
			fmt.Fprintf(&b, `<x-slotted><template shadowrootmode="open"><slot></slot></template>%s</x-slotted>`, inner)
		case 4:
			fmt.Fprintf(&b, `<iframe title="Frame" width="600" height="900" srcdoc="%s"></iframe>`, html.EscapeString("<!DOCTYPE html><body>"+inner))
		case 5:
			fmt.Fprintf(&b, `<ul><li>%s</li></ul>`, inner)
		case 6:
			fmt.Fprintf(&b, `<div style="height: 80px; overflow: auto">%s</div>`, inner)
		default:
			fmt.Fprintf(&b, `<form aria-label="Form %d">%s</form>`, m.r.IntN(100), inner)
		}
	}
	return b.String()
}

// On any page every control is reached by following frontiers, once, with the
// role and the name that Chrome gives it.
func TestRandomPages(t *testing.T) {
	for seed := range uint64(16) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			m := &maker{r: rand.New(rand.NewPCG(seed, 7))}
			body := m.part(4)
			for len(m.names) < 30 {
				body += m.part(3)
			}
			s := start(t, "snapshot/empty.html")
			s.Eval(fmt.Sprintf(`document.open(); document.write(%s); document.close(); 1`, quote("<!DOCTYPE html><title>Random</title><body>"+body)))
			// The load event of a document that was written does not wait for
			// the frames in it.
			s.Eval(`new Promise((resolve) => {
				const ready = (w) => w.document.readyState === "complete" && w.document.body?.firstElementChild && Array.from({length: w.length}, (_, i) => w[i]).every(ready);
				const look = () => ready(window) ? resolve(1) : setTimeout(look, 5);
				look();
			})`)
			seen := reach(s, map[string]any{"maxElements": 9})
			count := map[string]int{}
			for _, v := range seen {
				_, name, _ := strings.Cut(v, " ")
				count[name]++
			}
			for _, name := range m.names {
				assert.Equal(t, count[name], 1, "%q in %v\n%s", name, count, body)
			}
			_, differ := agree(t, s, fmt.Sprint("seed ", seed))
			assert.Assert(t, len(differ) == 0, "%s\n%s", strings.Join(differ, "\n"), body)
		})
	}
}
