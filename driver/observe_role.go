package driver

import (
	"strconv"
	"strings"
)

// ariaRoles are the roles that an author may give and that Chrome takes, with
// the name under which Chrome tells them where that differs.
var ariaRoles = func() map[string]string {
	m := map[string]string{}
	for r := range strings.FieldsSeq(`alert alertdialog application article banner blockquote button caption cell checkbox code columnheader
		combobox comment complementary contentinfo definition deletion dialog document emphasis feed figure form generic grid gridcell
		group heading insertion link list listbox listitem log main mark marquee math menu menubar menuitem menuitemcheckbox menuitemradio
		meter navigation none note option paragraph presentation progressbar radio radiogroup region row rowgroup rowheader
		scrollbar search searchbox separator slider spinbutton status strong subscript suggestion superscript switch tab table tablist
		tabpanel term textbox time timer toolbar tooltip tree treegrid treeitem
		graphics-document graphics-object graphics-symbol
		doc-abstract doc-acknowledgments doc-afterword doc-appendix doc-backlink doc-biblioentry doc-bibliography doc-biblioref doc-chapter
		doc-colophon doc-conclusion doc-cover doc-credit doc-credits doc-dedication doc-endnote doc-endnotes doc-epigraph doc-epilogue
		doc-errata doc-example doc-footnote doc-foreword doc-glossary doc-glossref doc-index doc-introduction doc-noteref doc-notice
		doc-pagebreak doc-pagefooter doc-pageheader doc-pagelist doc-part doc-preface doc-prologue doc-pullquote doc-qna doc-subtitle
		doc-tip doc-toc`) {
		m[r] = r
	}
	m["img"], m["image"] = "image", "image"
	m["directory"] = "list"
	m["presentation"] = "none"
	return m
}()

var tagRoles = map[string]string{
	"article": "article", "aside": "complementary", "nav": "navigation", "main": "main", "search": "search", "address": "group",
	"button": "button", "summary": "DisclosureTriangle", "details": "group", "dialog": "dialog", "fieldset": "group", "legend": "Legend",
	"h1": "heading", "h2": "heading", "h3": "heading", "h4": "heading", "h5": "heading", "h6": "heading", "hgroup": "group",
	"ul": "list", "ol": "list", "menu": "list", "li": "listitem", "dl": "DescriptionList", "dt": "term", "dd": "definition",
	"table": "table", "caption": "caption", "thead": "rowgroup", "tbody": "rowgroup", "tfoot": "rowgroup", "tr": "row", "td": "cell", "th": "columnheader",
	"textarea": "textbox", "option": "option", "optgroup": "group", "output": "status", "meter": "meter", "progress": "progressbar",
	"figure": "figure", "figcaption": "Figcaption", "blockquote": "blockquote", "p": "paragraph", "pre": "Pre", "hr": "separator", "br": "LineBreak",
	"code": "code", "em": "emphasis", "strong": "strong", "del": "deletion", "ins": "insertion", "mark": "mark", "sub": "subscript", "sup": "superscript",
	"time": "time", "dfn": "term", "label": "LabelText", "canvas": "Canvas", "audio": "Audio", "video": "Video", "iframe": "Iframe", "frame": "Iframe",
	"embed": "EmbeddedObject", "object": "PluginObject", "math": "math", "form": "form", "s": "deletion",
	"abbr": "Abbr", "ruby": "Ruby", "rt": "RubyAnnotation", "svg:svg": "image", "svg:image": "image", "math:math": "math",
}

// globalAria are attributes whose presence keeps an element's own role in
// spite of role=none.
var globalAria = []string{"aria-atomic", "aria-busy", "aria-controls", "aria-current", "aria-describedby", "aria-details", "aria-live", "aria-label",
	"aria-labelledby", "aria-owns", "aria-relevant", "aria-roledescription", "aria-brailleroledescription", "aria-keyshortcuts", "aria-description"}

// role is the role of a row under the names that Chrome uses, "" for a text.
func (v *view) role(i int) string {
	if v.roles == nil {
		v.roles = make([]string, len(v.rows))
	}
	if v.roles[i] == "" && v.rows[i].tag != "" {
		v.roles[i] = v.findRole(i)
	}
	return v.roles[i]
}

func (v *view) findRole(i int) string {
	r := &v.rows[i]
	native := ""
	for token := range strings.FieldsSeq(strings.ToLower(r.get("role"))) {
		role, ok := ariaRoles[token]
		if !ok {
			continue
		}
		switch role {
		case "none":
			if r.has(rowFocusable) || v.focusableNatively(r) || hasAny(r, globalAria) {
				return v.nativeRole(i)
			}
			return "none"
		case "form", "region":
			if !v.hasGivenName(i) {
				if native == "" {
					native = v.nativeRole(i)
				}
				continue
			}
		}
		if role == "generic" && v.focusableNatively(r) {
			return v.nativeRole(i)
		}
		// A combobox, a list box and the like stay what they are; an option
		// needs no box of its own here.
		return role
	}
	return v.nativeRole(i)
}

func hasAny(r *row, keys []string) bool {
	if r.attrs == "" {
		return false
	}
	for _, k := range keys {
		if r.hasAttr(k) {
			return true
		}
	}
	return false
}

// focusableNatively reports whether a person can focus the row by its kind.
func (v *view) focusableNatively(r *row) bool {
	switch r.tag {
	case "button", "input", "select", "textarea", "summary", "iframe":
		return !r.has(rowDisabled)
	case "a", "area", "svg:a":
		return r.hasAttr("href") || r.hasAttr("xlink:href")
	}
	return r.hasAttr("tabindex") || r.hasAttr("contenteditable") && r.has(rowEditable)
}

// hasGivenName reports whether an author named the row, other than by its
// content.
func (v *view) hasGivenName(i int) bool {
	r := &v.rows[i]
	return strings.TrimSpace(r.get("aria-label")) != "" || len(v.rel.labelledBy[i]) > 0 || strings.TrimSpace(r.get("title")) != ""
}

func (v *view) nativeRole(i int) string {
	r := &v.rows[i]
	switch r.tag {
	case "a", "area", "svg:a":
		if r.hasAttr("href") || r.hasAttr("xlink:href") {
			return "link"
		}
		return "generic"
	case "input":
		return inputRole(r)
	case "select":
		if r.get("~lb") == "1" {
			return "listbox"
		}
		return "combobox"
	case "img":
		if alt, ok := r.attr("alt"); ok && alt == "" && !v.hasGivenName(i) && !r.has(rowFocusable) {
			return "none"
		}
		return "image"
	case "section":
		if v.hasGivenName(i) {
			return "region"
		}
		return "generic"
	case "form":
		if v.hasGivenName(i) {
			return "form"
		}
		return "form"
	case "header", "footer":
		for p := r.parent(); p >= 0; p = v.rows[p].parent() {
			switch v.rows[p].tag {
			case "article", "aside", "main", "nav", "section":
				if r.tag == "header" {
					return "sectionheader"
				}
				return "sectionfooter"
			}
		}
		if r.tag == "header" {
			return "banner"
		}
		return "contentinfo"
	case "aside":
		return "complementary"
	case "th":
		if r.get("scope") == "row" || r.get("scope") == "rowgroup" {
			return "rowheader"
		}
		return "columnheader"
	case "td", "tr", "tbody", "thead", "tfoot":
		return tagRoles[r.tag]
	case "li":
		for p := r.parent(); p >= 0; p = v.rows[p].parent() {
			switch v.rows[p].tag {
			case "ul", "ol", "menu":
				return "listitem"
			case "slot":
				continue
			}
			break
		}
		return "listitem"
	case "summary":
		if p := r.parent(); p >= 0 && v.rows[p].tag == "details" {
			if v.rows[p].get("name") != "" {
				return "DisclosureTriangleGrouped" // opening one closes the others
			}
			return "DisclosureTriangle"
		}
		return "generic"
	}
	if role := tagRoles[r.tag]; role != "" {
		return role
	}
	if v.editableRoot(i) {
		// Chrome calls it generic, which tells a reader nothing.
		return "textbox"
	}
	if strings.HasPrefix(r.tag, "svg:") {
		return "generic"
	}
	return "generic"
}

func inputRole(r *row) string {
	switch r.get("~t") {
	case "checkbox":
		if r.hasAttr("switch") {
			return "switch"
		}
		return "checkbox"
	case "radio":
		return "radio"
	case "button", "submit", "reset", "image", "file":
		return "button"
	case "range":
		return "slider"
	case "number":
		return "spinbutton"
	case "color":
		return "ColorWell"
	case "date":
		return "Date"
	case "datetime-local", "month", "week":
		return "DateTime"
	case "time":
		return "InputTime"
	case "search":
		if r.hasAttr("list") {
			return "combobox"
		}
		return "searchbox"
	}
	if r.hasAttr("list") {
		return "combobox"
	}
	return "textbox"
}

// level is a heading's level, or 0.
func (v *view) level(i int) int {
	r := &v.rows[i]
	if v.role(i) != "heading" {
		return 0
	}
	if n, err := strconv.Atoi(strings.TrimSpace(r.get("aria-level"))); err == nil && n > 0 && n < 100 {
		return n
	}
	if len(r.tag) == 2 && r.tag[0] == 'h' && r.tag[1] >= '1' && r.tag[1] <= '6' {
		return int(r.tag[1] - '0')
	}
	return 2
}
