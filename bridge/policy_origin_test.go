package bridge

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// spellings are addresses that a browser opens at the origin, however they are
// written.
var spellings = []struct{ origin, address string }{
	{"https://bank.test", `https:\\bank.test/`},
	{"https://bank.test", `https:/\bank.test/`},
	{"https://bank.test", `https:/bank.test/`},
	{"https://bank.test", `https:bank.test`},
	{"https://bank.test", `https:///bank.test/`},
	{"https://bank.test", `https://bank.test\@good.test/`},
	{"https://bank.test", `https://bank.test%2e/`},
	{"https://bank.test", `https://b%61nk.test/`},
	{"https://bank.test", `https://bank.test./`},
	{"https://bank.test", "https://ba\tnk.test/"},
	{"https://bank.test", "https://ba\nnk.test/"},
	{"https://bank.test", "ht\ttps://bank.test/"},
	{"https://bank.test", "https:/\r/bank.test/"},
	{"https://bank.test", "\thttps://bank.test/"},
	{"https://bank.test", "https://ｂank.test/"},
	{"https://bank.test", "https://bank。test/"},
	{"https://bank.test", `view-source:https:\\bank.test/`},
	{"https://xn--bnk-qla.test", "https://bänk.test/"},
	{"http://127.0.0.1", "http://2130706433/"},
	{"http://127.0.0.1", "http://127.1/"},
	{"http://127.0.0.1", "http://127.0.1"},
	{"http://127.0.0.1", "http://0x7f.0.0.1/"},
	{"http://127.0.0.1", "http://0x7f000001"},
	{"http://127.0.0.1", "http://0177.0.0.1/"},
	{"http://127.0.0.1", "http://127.0.0.01/"},
	{"http://127.0.0.1", "http://127.0.0.1./"},
}

// regular are those that are taken as they are.
var regular = []struct{ address, origin string }{
	{"https://bank.test", "https://bank.test"},
	{" HTTPS://BANK.test:443/a?b#c ", "https://bank.test"},
	{"https://bank.test:00443/", "https://bank.test"},
	{"https://bank.test:/", "https://bank.test"},
	{"https://bank.test:8443/", "https://bank.test:8443"},
	{"https://u:p@x@bank.test/", "https://bank.test"},
	{"https://bank.test/%zz", "https://bank.test"},
	{`https://bank.test/a\b?c\d`, "https://bank.test"},
	{"https://bank.test?\u00e4", "https://bank.test"},
	{"https://xn--bnk-qla.test/", "https://xn--bnk-qla.test"},
	{"http://127.0.0.1:8080/", "http://127.0.0.1:8080"},
	{"http://0x7f.test/", "http://0x7f.test"},
	{"http://[0:0::1]/", "http://[::1]"},
	{"http://[::FFFF:127.0.0.1]/", "http://[::ffff:7f00:1]"},
	{"ws://bank.test:80/", "ws://bank.test"},
	{"blob:https://bank.test/1-2", "https://bank.test"},
	{"blob:null/1-2", "blob:"},
	{"data:text/html,a\nb", "data:"},
	{"about:blank#x", "about:"},
	{"file:///etc/passwd", "file:"},
	{"chrome://settings/", "chrome://settings"},
}

// TestOneOriginHasOneSpelling: what a browser would read as the origin, but is
// written otherwise, is refused before it is opened, whichever rule names it.
func TestOneOriginHasOneSpelling(t *testing.T) {
	for _, c := range spellings {
		o, why := parseOrigin(c.address)
		assert.Check(t, why != "", "%q is taken for %s", c.address, o)
		for _, p := range []*Policy{
			{Origins: OriginRules{Deny: []string{c.origin}}},
			{Origins: OriginRules{Allow: []string{"*"}, Deny: []string{"https://other.test"}}},
		} {
			_, ok := p.allowsURL(c.address)
			assert.Check(t, !ok || o.scheme != unknownScheme, "%q passes", c.address)
		}
	}
	for _, c := range regular {
		o, why := parseOrigin(c.address)
		assert.Check(t, why == "", "%q: %s", c.address, why)
		assert.Check(t, o.String() == c.origin, "%q is %s", c.address, o)
	}
	for _, address := range []string{"", "bank.test", "//bank.test", "https://", "https:///", "https://@/", "https://./", "https://a../", "https://[::1/", "https://[::1%25lo]/", "https://[1.2.3.4]/",
		"https://a.test:65536/", "https://a.test:x/", "https://a.test:+1/", "http://256.1.1.1/", "http://1.2.3.4.5/", "https://a b/", "https://a<b/", "view-source:bank.test",
		strings.Repeat("blob:", 9) + "https://a.test"} {
		o, why := parseOrigin(address)
		assert.Check(t, why != "" && o.scheme == unknownScheme, "%q is %s", address, o)
	}
}

// TestPatternsThatWouldNeverMatch are refused with the file.
func TestPatternsThatWouldNeverMatch(t *testing.T) {
	for _, raw := range []string{"https://bänk.test", "http://127.1", "http://0x7f000001:*", "https://b%61nk.test", `https://bank.test\x`, "https://bank.test:99999", "http://::1", "http://[::1%25lo]"} {
		_, err := parsePattern(raw)
		assert.Check(t, err != nil, raw)
	}
	for _, c := range []struct{ pattern, address string }{
		{"https://BANK.test:0443", "https://bank.test/"},
		{"http://[0:0::1]:8080", "http://[::1]:8080/"},
		{"https://bank.test", "https://bank.test./"},
		{"https://bank.test", "https://bank.test/%zz"},
	} {
		_, hit := match([]string{c.pattern}, originOf(c.address))
		assert.Check(t, hit, "%s %s", c.pattern, c.address)
	}
}

// TestASpellingEvadesNoVerb: an operation that a rule denies on an origin opens
// none of its spellings.
func TestASpellingEvadesNoVerb(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		open := func(id, address string) wire.Command {
			return cmd(id, "page.navigate", fmt.Sprintf(`{"url":%s}`, jsonText(address)))
		}
		for i, c := range spellings {
			p.setPolicy(t, fmt.Sprintf(`{"version":1,"verbs":[{"origins":[%q],"deny":["open"]}]}`, c.origin))
			f := wantError(t, p.do(open(fmt.Sprint("v", i), c.address)), op.Rejected, op.PolicyDenied)
			assert.Check(t, strings.Contains(f.Message, "cannot be judged") && f.Hint != "", "%s %s", f.Message, f.Hint)
			wantError(t, p.do(open(fmt.Sprint("o", i), c.origin+"/")), op.Rejected, op.PolicyDenied)
			p.setPolicy(t, fmt.Sprintf(`{"version":1,"origins":{"deny":[%q]}}`, c.origin))
			wantError(t, p.do(open(fmt.Sprint("d", i), c.address)), op.Rejected, op.PolicyDenied)
		}
		assert.Equal(t, len(r.handler.order()), 0)
		p.setPolicy(t, `{"version":1,"readOnly":true}`)
		wantOK(t, p.do(open("free", `https:\\bank.test/`))) // nothing to judge
	})
}

func jsonText(s string) string {
	b, err := wire.Encode(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// asBrowser reads an address of a special scheme as the WHATWG's parser does,
// as far as ASCII hosts go; ok is false where that one fails.
func asBrowser(raw string) (o origin, ok bool) {
	raw = strings.TrimFunc(raw, func(r rune) bool { return r <= ' ' })
	raw = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(raw)
	scheme, rest, found := strings.Cut(raw, ":")
	scheme = strings.ToLower(scheme)
	if !found || specialPorts[scheme] == "" {
		return origin{}, false
	}
	rest = strings.TrimLeft(rest, `/\`)
	if i := strings.IndexAny(rest, `/\?#`); i >= 0 {
		rest = rest[:i]
	}
	rest = rest[strings.LastIndexByte(rest, '@')+1:]
	host, port := rest, ""
	if i := strings.LastIndexByte(rest, ':'); i >= 0 && !strings.Contains(rest[i:], "]") {
		host, port = rest[:i], strings.TrimLeft(rest[i+1:], "0")
		if port == "" && rest[i+1:] != "" {
			port = "0"
		}
	}
	if port == "" {
		port = specialPorts[scheme]
	}
	if strings.HasPrefix(host, "[") {
		return origin{scheme, host, port}, true // not compared
	}
	plain, err := url.PathUnescape(host)
	if err != nil {
		return origin{}, false
	}
	host = strings.ToLower(plain)
	parts := strings.Split(strings.TrimSuffix(host, "."), ".")
	number := func(s string) (int64, bool) {
		base := 10
		if hex, ok := strings.CutPrefix(s, "0x"); ok {
			s, base = "0"+hex, 16
		} else if len(s) > 1 && s[0] == '0' {
			s, base = s[1:], 8
		}
		n, err := strconv.ParseInt(s, base, 64)
		return n, err == nil && !strings.HasPrefix(s, "+") && !strings.HasPrefix(s, "-")
	}
	last := parts[len(parts)-1]
	if _, isNumber := number(last); !isNumber && (last == "" || strings.Trim(last, "0123456789") != "") {
		return origin{scheme, host, port}, host != ""
	}
	var address int64
	for i, part := range parts {
		n, ok := number(part)
		if !ok || len(parts) > 4 || i < len(parts)-1 && n > 255 || i == len(parts)-1 && n >= 1<<(8*(5-len(parts))) {
			return origin{}, false
		}
		if i == len(parts)-1 {
			address += n
		} else {
			address += n << (8 * (3 - i))
		}
	}
	return origin{scheme, fmt.Sprintf("%d.%d.%d.%d", address>>24, address>>16&255, address>>8&255, address&255), port}, true
}

func TestAsBrowser(t *testing.T) {
	for _, c := range spellings {
		if strings.HasPrefix(c.address, "view-source:") || slices.ContainsFunc([]rune(c.address), func(r rune) bool { return r > 0x7f }) {
			continue
		}
		o, ok := asBrowser(c.address)
		o.host = strings.TrimSuffix(o.host, ".")
		assert.Check(t, ok && o.String() == c.origin, "%q is %s", c.address, o)
	}
}

// FuzzOrigin: an address that is taken has the origin that a browser sees in
// it; it is a fixed point, and neither what stands behind the host nor a
// control character or a backslash in front of that changes it unnoticed.
func FuzzOrigin(f *testing.F) {
	for _, c := range spellings {
		f.Add(c.address)
	}
	for _, c := range regular {
		f.Add(c.address)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		o, why := parseOrigin(raw)
		if o.scheme == unknownScheme {
			if why == "" && !strings.HasPrefix(strings.ToLower(strings.Trim(raw, " ")), "unknown:") {
				t.Fatalf("%q is unknown and says not why", raw)
			}
			return
		}
		if why != "" && !strings.Contains(why, "dot") {
			t.Fatalf("%q is %s, and yet %s", raw, o, why)
		}
		if specialPorts[o.scheme] == "" {
			return
		}
		if strings.Trim(o.host, "abcdefghijklmnopqrstuvwxyz0123456789-_.:") != "" {
			t.Fatalf("%q has the host %q", raw, o.host)
		}
		if again, why := parseOrigin(o.String() + "/%zz?\\@x.test#\\"); again != o || why != "" {
			t.Fatalf("%q is %s, and that is %s: %s", raw, o, again, why)
		}
		if why != "" {
			return
		}
		inner := strings.Trim(raw, " ")
		for _, wrapper := range slices.Repeat([]string{"blob:", "view-source:", "filesystem:"}, maxWrapped) {
			if len(inner) > len(wrapper) && strings.EqualFold(inner[:len(wrapper)], wrapper) {
				inner = inner[len(wrapper):]
			}
		}
		seen, ok := asBrowser(inner)
		if strings.HasPrefix(seen.host, "[") {
			return
		}
		if !ok || seen != o {
			t.Fatalf("%q is %s, and a browser sees %s (%v)", raw, o, seen, ok)
		}
		if u, err := url.Parse(inner); err == nil && strings.ToLower(u.Hostname()) != o.host {
			t.Fatalf("%q is %s, and net/url sees %q", raw, o, u.Hostname())
		}
		for _, c := range []string{"\t", "\n", "\x00", `\`} {
			bent := strings.Replace(inner, ":", ":"+c, 1)
			if _, why := parseOrigin(bent); why == "" {
				t.Fatalf("%q is taken", bent)
			}
		}
	})
}
