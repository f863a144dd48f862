package bridge

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// unknownScheme is that of an origin which nobody is sure of.
const unknownScheme = "unknown"

// maxWrapped bounds the addresses around an address: view-source:blob:https:…
const maxWrapped = 4

// specialPorts are the schemes whose addresses have a host, with their ports.
var specialPorts = map[string]string{"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21"}

// originPattern is one pattern: "*", "scheme:" of an address without a host, or
// scheme://host[:port], where scheme may be * (http and https), host may begin
// with *. (the host itself and all below it) or be *, and port may be *.
type originPattern struct {
	scheme, host, port string // "*" for any; host "" for a scheme without one
	below              bool   // and every host below it
}

func parsePattern(raw string) (originPattern, error) {
	if raw == "*" {
		return originPattern{scheme: "any", host: "*", port: "*"}, nil
	}
	scheme, rest, found := strings.Cut(raw, "://")
	if !found {
		scheme, found = strings.CutSuffix(raw, ":")
		if found && (scheme == "data" || scheme == "file" || scheme == "about") {
			return originPattern{scheme: scheme}, nil
		}
		return originPattern{}, errors.New("write scheme://host, as in https://example.org, https://*.example.org or http://localhost:*")
	}
	p := originPattern{scheme: strings.ToLower(scheme)}
	if p.scheme != "*" && p.scheme != "http" && p.scheme != "https" {
		return p, errors.New("the scheme must be http, https or *; data:, file: and about: stand alone")
	}
	if strings.ContainsAny(rest, "/?#@ ") {
		return p, errors.New("an origin has no path, query or user")
	}
	host, port := rest, ""
	if i := strings.LastIndexByte(rest, ':'); i >= 0 && !strings.HasSuffix(rest, "]") {
		host, port = rest[:i], rest[i+1:]
		number, ok := canonicalPort(port)
		if port == "" || port != "*" && !ok {
			return p, errors.New("the port must be a number or *")
		}
		if ok {
			port = number
		}
	}
	p.port = port
	if host == "*" {
		p.host = "*"
		return p, nil
	}
	host, p.below = strings.CutPrefix(host, "*.")
	if host == "" || strings.Contains(host, "*") {
		return p, errors.New("* stands for a whole host or, as *., for all below one")
	}
	var why string
	if p.host, why = canonicalHost(strings.TrimSuffix(host, ".")); why != "" {
		return p, errors.New(why) // it would never match
	}
	return p, nil
}

// origin is the part of an address that a policy looks at.
type origin struct{ scheme, host, port string }

// originOf returns the origin of an address, that of its page for blob: and
// view-source: ones. Its scheme is unknownScheme where the address may be read
// in more than one way.
func originOf(raw string) origin {
	o, _ := parseOrigin(raw)
	return o
}

// parseOrigin is originOf; irregular says what is not canonical in the
// address, so that the browser might read it otherwise than it is written.
// net/url is no help here: it refuses addresses that browsers open, and reads
// some in another way.
func parseOrigin(raw string) (o origin, irregular string) {
	unknown := origin{scheme: unknownScheme}
	rest := strings.Trim(raw, " ")
	for range maxWrapped {
		scheme, after, ok := cutScheme(rest)
		switch {
		case !ok:
			return unknown, "it does not begin with a scheme"
		case scheme == "blob" || scheme == "filesystem":
			if _, _, ok := cutScheme(after); !ok {
				return origin{scheme: scheme}, "" // of a page without an origin: blob:null/…
			}
			rest = after
		case scheme == "view-source":
			rest = after
		case specialPorts[scheme] != "":
			host, port, why := cutHost(scheme, after)
			if host == "" {
				return unknown, why
			}
			return origin{scheme, host, port}, why
		default:
			return origin{scheme: scheme, host: plainAuthority(after)}, ""
		}
	}
	return unknown, "it is wrapped too often"
}

// cutScheme splits an address after its scheme, which is returned in lower case.
func cutScheme(raw string) (scheme, after string, ok bool) {
	for i := range len(raw) {
		c := raw[i] | 0x20
		switch {
		case 'a' <= c && c <= 'z':
		case i > 0 && (isDigit(raw[i]) || strings.IndexByte("+-.", raw[i]) >= 0):
		case i > 0 && raw[i] == ':':
			return strings.ToLower(raw[:i]), raw[i+1:], true
		default:
			return "", "", false
		}
	}
	return "", "", false
}

// cutHost reads host and port of an address of a special scheme from what is
// behind the scheme's colon. host is "" where it is not sure.
func cutHost(scheme, after string) (host, port, irregular string) {
	if strings.ContainsFunc(after, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", "", "it holds a tab, a line break or another control character"
	}
	authority, ok := strings.CutPrefix(after, "//")
	if !ok {
		return "", "", fmt.Sprintf("%s: is not followed by two slashes", scheme)
	}
	if i := strings.IndexAny(authority, `/?#\`); i >= 0 {
		if authority[i] == '\\' {
			return "", "", "it holds a backslash before its path"
		}
		authority = authority[:i]
	}
	authority = authority[strings.LastIndexByte(authority, '@')+1:]
	host = authority
	if i := strings.LastIndexByte(authority, ':'); i >= 0 && !strings.HasSuffix(authority, "]") {
		host = authority[:i]
		if port, ok = canonicalPort(authority[i+1:]); !ok && authority[i+1:] != "" {
			return "", "", "its port is not a number up to 65535"
		}
	}
	if port == "" {
		port = specialPorts[scheme]
	}
	// Another host by its letters, the same one by its name.
	host, dot := strings.CutSuffix(host, ".")
	if host, irregular = canonicalHost(host); irregular == "" && dot {
		irregular = "its host ends with a dot"
	}
	return host, port, irregular
}

// canonicalHost returns a host as a browser writes it, without the brackets of
// IPv6; "" and why for one that it would write otherwise or not at all. Only
// upper case and the forms of an IPv6 address are mended.
func canonicalHost(host string) (canonical, why string) {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		addr, err := netip.ParseAddr(inner)
		if !ok || err != nil || !addr.Is6() || addr.Zone() != "" {
			return "", "what stands in brackets is no IPv6 address"
		}
		if b := addr.As16(); addr.Is4In6() {
			return fmt.Sprintf("::ffff:%x:%x", int(b[12])<<8|int(b[13]), int(b[14])<<8|int(b[15])), ""
		}
		return addr.String(), ""
	}
	if host == "" {
		return "", "it has no host"
	}
	for i := range len(host) {
		c := host[i]
		switch {
		case 'a' <= c|0x20 && c|0x20 <= 'z', isDigit(c), c == '-', c == '_', c == '.':
		case c >= 0x80:
			return "", "its host has letters beyond ASCII; write their xn-- form"
		case c == '%':
			return "", "its host has a percent sign"
		default:
			return "", fmt.Sprintf("its host has the character %q", c)
		}
	}
	host = strings.ToLower(host)
	last := host[strings.LastIndexByte(host, '.')+1:]
	if last == "" {
		return "", "its host ends with two dots"
	}
	// Where the last part is a number, all is one to a browser.
	digits, base := last, "0123456789"
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		digits, base = hex, "0123456789abcdef"
	}
	if strings.Trim(digits, base) == "" {
		if addr, err := netip.ParseAddr(host); err != nil || !addr.Is4() {
			return "", "its host is a number that is not written as four decimal numbers without leading zeros"
		}
	}
	return host, ""
}

// canonicalPort is a port without leading zeros.
func canonicalPort(port string) (string, bool) {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", false
	}
	return strconv.FormatUint(n, 10), true
}

// plainAuthority is what stands between // and the path of an address that is
// none of the web; no pattern is about it.
func plainAuthority(after string) string {
	authority, ok := strings.CutPrefix(after, "//")
	if i := strings.IndexAny(authority, "/?#"); i >= 0 {
		authority = authority[:i]
	}
	if host, why := canonicalHost(authority); ok && why == "" {
		return host
	}
	return ""
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func (o origin) String() string {
	if o.scheme == unknownScheme {
		return "an address of no sure origin"
	}
	if o.host == "" {
		return o.scheme + ":"
	}
	host := o.host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if o.port == specialPorts[o.scheme] {
		return o.scheme + "://" + host
	}
	return o.scheme + "://" + net.JoinHostPort(o.host, o.port)
}

func (p originPattern) matches(o origin) bool {
	if p.scheme == "any" {
		return true
	}
	if p.host == "" {
		return o.scheme == p.scheme
	}
	if p.scheme != o.scheme && (p.scheme != "*" || o.scheme != "http" && o.scheme != "https") {
		return false
	}
	if p.host != "*" && o.host != p.host && (!p.below || !strings.HasSuffix(o.host, "."+p.host)) {
		return false
	}
	switch p.port {
	case "*":
		return true
	case "":
		return o.port == specialPorts[o.scheme]
	}
	return o.port == p.port
}

// match returns the first pattern that the origin matches. The patterns have
// been checked.
func match(patterns []string, o origin) (string, bool) {
	for _, raw := range patterns {
		if p, err := parsePattern(raw); err == nil && p.matches(o) {
			return raw, true
		}
	}
	return "", false
}
