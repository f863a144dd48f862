package driver

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"sort"
	"strings"
	"unicode"

	"github.com/chromedp/cdproto/network"
)

// redacted stands for a secret in what a capture tells.
const redacted = "[redacted]"

// secretWords are the words of contract §1.9 as parts of a name, and those
// that name a secret on the wire. Short ones count only as a word of their
// own: "ssn" is also a part of className.
var (
	secretParts = []string{"password", "passwd", "pwd", "secret", "token", "bearer", "apikey", "accesskey", "authcode", "onetime", "verificationcode",
		"recoverycode", "creditcard", "cardnumber", "ccnumber", "cccsc", "securitycode", "socialsecurity",
		"authorization", "credential", "passphrase", "privatekey", "sessionid", "sessid", "signature"}
	secretShort = []string{"otp", "2fa", "mfa", "cvc", "cvv", "ssn", "jwt", "auth", "sid"}
)

// secretName reports whether a parameter, field or header of that name holds
// a secret.
func secretName(name string) bool {
	if len(name) > 200 {
		name = name[:200]
	}
	words := nameWords(name)
	joined := strings.Join(words, "")
	for _, p := range secretParts {
		if strings.Contains(joined, p) {
			return true
		}
	}
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(secretShort, w) })
}

// nameWords splits accessToken, access_token and Access-Token into the same
// words.
func nameWords(name string) []string {
	var words []string
	var word []rune
	end := func() {
		if len(word) > 0 {
			words = append(words, string(word))
			word = word[:0]
		}
	}
	lower := false
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			end()
			lower = false
			continue
		case unicode.IsUpper(r) && lower:
			end()
		}
		lower = unicode.IsLower(r)
		word = append(word, unicode.ToLower(r))
	}
	end()
	return words
}

// redactURL takes the secrets out of an address: the password before the
// host, and the values of parameters whose names say that they are secret, in
// the query and behind the #.
func redactURL(u string) string {
	head, tail := u, ""
	if i := strings.IndexAny(u, "?#"); i >= 0 {
		head, tail = u[:i], u[i:]
	}
	if i := strings.Index(head, "://"); i >= 0 {
		host, path := head[i+3:], ""
		if j := strings.IndexByte(host, '/'); j >= 0 {
			host, path = host[:j], host[j:]
		}
		if at := strings.LastIndexByte(host, '@'); at >= 0 {
			head = head[:i+3] + redacted + host[at:] + path
		}
	}
	if tail == "" || !strings.Contains(tail, "=") {
		return head + tail
	}
	return head + redactPairs(tail)
}

var urlInText = regexp.MustCompile(`\b(?:https?|wss?)://[^\s'"<>]+`)

// redactText takes the secrets out of the addresses in a text.
func redactText(s string) string { return urlInText.ReplaceAllStringFunc(s, redactURL) }

// redactPairs replaces the secret values of name=value pairs.
func redactPairs(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		end := strings.IndexAny(s, "?&#;")
		pair, sep := s, ""
		if end >= 0 {
			pair, sep = s[:end], s[end:end+1]
			s = s[end+1:]
		} else {
			s = ""
		}
		b.WriteString(redactPair(pair))
		b.WriteString(sep)
	}
	return b.String()
}

func redactPair(pair string) string {
	name, value, ok := strings.Cut(pair, "=")
	if !ok || value == "" {
		return pair
	}
	plain, err := url.QueryUnescape(name)
	if err != nil {
		plain = name
	}
	if secretName(plain) {
		return name + "=" + redacted
	}
	// An address in a parameter may carry a secret of its own.
	if inner, err := url.QueryUnescape(value); err == nil && inner != value && strings.Contains(inner, "=") && redactURL(inner) != inner {
		return name + "=" + redacted
	}
	return pair
}

// Bounds of the headers of one message, in characters.
const (
	maxHeaders     = 60
	maxHeaderValue = 1000
	maxHeaderBytes = 6000
)

// headerList are headers without their secrets, by name, each as [name,
// value]. What does not fit is counted in a last one.
func headerList(h network.Headers) [][2]string {
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name)
	}
	sort.Strings(names)
	out, bytes := [][2]string{}, 0
	for i, name := range names {
		// Chrome joins headers of the same name by new lines.
		for value := range strings.SplitSeq(fmt.Sprint(h[name]), "\n") {
			value = cut(redactHeader(name, value), maxHeaderValue)
			bytes += len(name) + len(value)
			if len(out) >= maxHeaders || bytes > maxHeaderBytes {
				return append(out, [2]string{"…", fmt.Sprintf("%d more", len(names)-i)})
			}
			out = append(out, [2]string{cut(name, 200), value})
		}
	}
	return out
}

func redactHeader(name, value string) string {
	switch strings.ToLower(name) {
	case "set-cookie", "set-cookie2":
		pair, attributes, more := strings.Cut(value, ";")
		key, _, _ := strings.Cut(pair, "=")
		out := strings.TrimSpace(key) + "=" + redacted
		if more {
			out += ";" + attributes
		}
		return out
	case "cookie":
		var out []string
		for pair := range strings.SplitSeq(value, ";") {
			key, _, _ := strings.Cut(pair, "=")
			out = append(out, strings.TrimSpace(key)+"="+redacted)
		}
		return strings.Join(out, "; ")
	case "authorization", "proxy-authorization":
		if scheme, _, ok := strings.Cut(value, " "); ok && len(scheme) < 20 {
			return scheme + " " + redacted
		}
		return redacted
	case "location", "content-location", "referer", "link", "refresh", "origin", ":path", "x-forwarded-uri", "x-original-url":
		return redactURL(value)
	case "authentication-info", "proxy-authentication-info":
		return redacted
	}
	if secretName(name) && value != "" && !strings.HasPrefix(strings.ToLower(name), "access-control-") {
		return redacted
	}
	return value
}

// redactBody takes the secrets out of a body: values of fields whose names say
// that they are secret, in JSON, forms, multipart forms and the inputs of a
// page.
func redactBody(mime, body string) string {
	mime = strings.ToLower(mime)
	trimmed := strings.TrimLeft(body, " \t\r\n\ufeff")
	switch {
	case strings.Contains(mime, "multipart/"):
		return redactMultipart(body)
	case strings.Contains(mime, "x-www-form-urlencoded"):
		return redactPairs(body)
	case strings.Contains(mime, "html"):
		return redactInputs(body)
	case strings.Contains(mime, "json"), strings.HasPrefix(trimmed, "{"), strings.HasPrefix(trimmed, "["):
		return redactJSON(body)
	case (mime == "" || strings.HasPrefix(mime, "text/plain")) && strings.Contains(body, "=") && !strings.ContainsAny(body, " \n<{"):
		return redactPairs(body)
	}
	return body
}

// redactJSON replaces the values of secret keys, numbers and texts, also those
// in an array, and leaves the rest of the text as it is. It takes text that is
// cut or not quite JSON.
func redactJSON(s string) string {
	var b strings.Builder
	last := 0 // what is written up to
	array := 0
	secret := false // the value of a secret key comes
	counts := false // its number, such as that of tokens, is none
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == '"':
			end := stringEnd(s, i)
			next := skipSpace(s, end)
			if array == 0 && next < len(s) && s[next] == ':' {
				name := unquote(s[i:end])
				secret, counts = secretName(name), strings.HasSuffix(name, "s")
				i = next + 1
				continue
			}
			if secret {
				b.WriteString(s[last:i])
				b.WriteString(`"` + redacted + `"`)
				last = end
				secret = array > 0
			}
			i = end
		case secret && c == '[':
			array++
			i++
		case secret && c == ']' && array > 0:
			array--
			secret = array > 0
			i++
		case secret && c == '{':
			secret, array = false, 0
			i++
		case secret && !counts && (c == '-' || c >= '0' && c <= '9'):
			end := i + 1
			for end < len(s) && strings.IndexByte("0123456789.eE+-", s[end]) >= 0 {
				end++
			}
			b.WriteString(s[last:i])
			b.WriteString(`"` + redacted + `"`)
			last = end
			secret = array > 0
			i = end
		case secret && array == 0 && (c == ',' || c == '}'):
			secret = false
			i++
		default:
			i++
		}
	}
	if last == 0 {
		return s
	}
	b.WriteString(s[last:])
	return b.String()
}

// stringEnd is the index behind the string that begins at i.
func stringEnd(s string, i int) int {
	for j := i + 1; j < len(s); j++ {
		switch s[j] {
		case '\\':
			j++
		case '"':
			return j + 1
		}
	}
	return len(s)
}

func skipSpace(s string, i int) int {
	for i < len(s) && strings.IndexByte(" \t\r\n", s[i]) >= 0 {
		i++
	}
	return i
}

// unquote is the text of a JSON string, as far as names need it.
func unquote(q string) string {
	var s string
	if json.Unmarshal([]byte(q), &s) == nil {
		return s
	}
	return strings.Trim(q, `"`)
}

var multipartName = regexp.MustCompile(`(?is)(content-disposition:[^\r\n]*?\bname="([^"]*)"(?:[^\r\n]*\r?\n)(?:[^\r\n]+\r?\n)*\r?\n)(.*?)(\r?\n--|$)`)

func redactMultipart(s string) string {
	return multipartName.ReplaceAllStringFunc(s, func(m string) string {
		g := multipartName.FindStringSubmatch(m)
		if g == nil || !secretName(g[2]) {
			return m
		}
		return g[1] + redacted + g[4]
	})
}

var (
	inputTag   = regexp.MustCompile(`(?is)<input\b[^>]*>`)
	inputName  = regexp.MustCompile(`(?is)\s(?:name|id|autocomplete)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>]+))`)
	inputPass  = regexp.MustCompile(`(?is)\stype\s*=\s*["']?password`)
	inputValue = regexp.MustCompile(`(?is)(\svalue\s*=\s*)(?:"[^"]*"|'[^']*'|[^\s>]+)`)
)

func redactInputs(s string) string {
	return inputTag.ReplaceAllStringFunc(s, func(tag string) string {
		hidden := inputPass.MatchString(tag)
		for _, g := range inputName.FindAllStringSubmatch(tag, -1) {
			hidden = hidden || secretName(g[1]+g[2]+g[3])
		}
		if !hidden {
			return tag
		}
		return inputValue.ReplaceAllString(tag, `${1}"`+redacted+`"`)
	})
}
