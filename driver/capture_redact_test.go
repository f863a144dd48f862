package driver

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"gotest.tools/v3/assert"
	"pgregory.net/rapid"
)

func TestSecretNames(t *testing.T) {
	for _, name := range []string{"password", "Password", "user_passwd", "pwd", "clientSecret", "access_token", "accessToken", "X-Api-Key", "apikey", "access-key", "authCode", "one-time-code",
		"otp", "2fa", "mfa_code", "verificationCode", "recovery code", "creditCard", "cc-number", "cc-csc", "cvc", "card[cvv]", "security-code", "ssn", "social_security", "Authorization", "jwt", "csrf-token"} {
		assert.Assert(t, secretName(name), name)
	}
	for _, name := range []string{"className", "user", "page", "query", "laptop", "option", "classname", "author", "Content-Type", "passage", "key", "code", "cardinality", ""} {
		assert.Assert(t, !secretName(name), name)
	}
}

func TestRedactURL(t *testing.T) {
	for in, want := range map[string]string{
		"http://site/path?page=2&q=a%20b#top":                       "http://site/path?page=2&q=a%20b#top",
		"http://site/?access_token=abc&page=2":                      "http://site/?access_token=[redacted]&page=2",
		"http://site/#/route?id_token=abc&x=1":                      "http://site/#/route?id_token=[redacted]&x=1",
		"http://site/#access_token=abc":                             "http://site/#access_token=[redacted]",
		"https://ada:pw@site:81/p?x=1":                              "https://[redacted]@site:81/p?x=1",
		"https://site/p@th":                                         "https://site/p@th",
		"http://site/?api%5Fkey=abc;otp=1":                          "http://site/?api%5Fkey=[redacted];otp=[redacted]",
		"http://site/?next=http%3A%2F%2Fother%2F%3Ftoken%3Dabc&a=1": "http://site/?next=[redacted]&a=1",
		"http://site/?next=http%3A%2F%2Fother%2F%3Fpage%3D1":        "http://site/?next=http%3A%2F%2Fother%2F%3Fpage%3D1",
		"http://site/?token=&a=1":                                   "http://site/?token=&a=1",
		"":                                                          "",
		"about:blank":                                               "about:blank",
	} {
		assert.Equal(t, redactURL(in), want)
		assert.Equal(t, redactURL(redactURL(in)), want, "twice")
	}
}

func TestRedactHeaders(t *testing.T) {
	got := headerList(network.Headers{
		"Set-Cookie": "a=secret; Path=/; HttpOnly\nb=secret", "Cookie": "a=secret; b=secret", "Authorization": "Bearer secret", "Proxy-Authorization": "secret",
		"X-Api-Key": "secret", "X-CSRF-Token": "secret", "Location": "/next?token=secret", "Referer": "http://site/?password=secret&a=1",
		"Access-Control-Allow-Headers": "authorization", "Content-Type": "text/html", "Sec-WebSocket-Key": "public", ":path": "/p?token=secret",
	})
	for _, h := range got {
		assert.Assert(t, !strings.Contains(h[1], "secret"), "%v", h)
	}
	assert.DeepEqual(t, got, [][2]string{
		{":path", "/p?token=[redacted]"}, {"Access-Control-Allow-Headers", "authorization"}, {"Authorization", "Bearer [redacted]"}, {"Content-Type", "text/html"},
		{"Cookie", "a=[redacted]; b=[redacted]"}, {"Location", "/next?token=[redacted]"}, {"Proxy-Authorization", "[redacted]"}, {"Referer", "http://site/?password=[redacted]&a=1"},
		{"Sec-WebSocket-Key", "public"}, {"Set-Cookie", "a=[redacted]; Path=/; HttpOnly"}, {"Set-Cookie", "b=[redacted]"}, {"X-Api-Key", "[redacted]"}, {"X-CSRF-Token", "[redacted]"},
	})
}

func TestRedactBodies(t *testing.T) {
	for _, c := range []struct{ mime, in, want string }{
		{"application/json", `{"password": "a\"b", "user":"ada"}`, `{"password": "[redacted]", "user":"ada"}`},
		{"application/json", `{"tokens":["a","b"],"x":["c"]}`, `{"tokens":["[redacted]","[redacted]"],"x":["c"]}`},
		{"application/json", `{"otp":123456,"total_tokens":12,"n":1}`, `{"otp":"[redacted]","total_tokens":12,"n":1}`},
		{"application/json", `{"token":null,"a":"b","secret":{"label":"shown","password":"x"}}`, `{"token":null,"a":"b","secret":{"label":"shown","password":"[redacted]"}}`},
		{"application/json", `{"a":"password","b":"token: x"}`, `{"a":"password","b":"token: x"}`},
		{"text/plain", `[{"access_token":"cut off`, `[{"access_token":"[redacted]"`},
		{"application/x-www-form-urlencoded; charset=UTF-8", "user=ada&password=x%20y&otp=1", "user=ada&password=[redacted]&otp=[redacted]"},
		{"text/plain;charset=UTF-8", "a=1&pwd=x", "a=1&pwd=[redacted]"},
		{"text/plain", "password = is a word", "password = is a word"},
		{"multipart/form-data; boundary=B", "--B\r\nContent-Disposition: form-data; name=\"user\"\r\n\r\nada\r\n--B\r\nContent-Disposition: form-data; name=\"secret\"\r\n\r\nx\r\ny\r\n--B--\r\n",
			"--B\r\nContent-Disposition: form-data; name=\"user\"\r\n\r\nada\r\n--B\r\nContent-Disposition: form-data; name=\"secret\"\r\n\r\n[redacted]\r\n--B--\r\n"},
		{"text/html", `<p>token</p><input type="password" value="x"><input name='csrf_token' value='y'><input name="q" value="z">`,
			`<p>token</p><input type="password" value="[redacted]"><input name='csrf_token' value="[redacted]"><input name="q" value="z">`},
		{"", "", ""},
	} {
		assert.Equal(t, redactBody(c.mime, c.in), c.want, c.mime)
	}
}

// Whatever the JSON, secrets go, the rest stays, and the text stays JSON.
func TestRedactAnyJSON(t *testing.T) {
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		plain := rapid.OneOf(rapid.Map(rapid.StringMatching(`[a-z"\\{}\[\]:, ]{0,12}`), func(s string) any { return "v" + s }), rapid.Map(rapid.IntRange(-5, 5), func(i int) any { return i }),
			rapid.Just[any](nil), rapid.Just[any](true))
		if depth == 0 {
			return plain
		}
		key := rapid.SampledFrom([]string{"a", "name", "password", "access_token", `q"uote`, "otp", "list"})
		return rapid.OneOf(plain, rapid.Map(rapid.SliceOfN(value(depth-1), 0, 4), func(l []any) any { return l }),
			rapid.Map(rapid.MapOfN(key, value(depth-1), 0, 4), func(m map[string]any) any { return m }))
	}
	rapid.Check(t, func(rt *rapid.T) {
		raw, err := json.Marshal(value(3).Draw(rt, "value"))
		if err != nil {
			rt.Fatal(err)
		}
		out := redactJSON(string(raw))
		var before, after any
		if json.Unmarshal(raw, &before) != nil || json.Unmarshal([]byte(out), &after) != nil {
			rt.Fatalf("%s became %s", raw, out)
		}
		if why := sameButSecrets(before, after, false); why != "" {
			rt.Fatalf("%s became %s: %s", raw, out, why)
		}
	})
}

// sameButSecrets compares two values, of which the second must not tell the
// text of a secret key.
func sameButSecrets(a, b any, secret bool) string {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return "an object changed"
		}
		for k, v := range x {
			if why := sameButSecrets(v, y[k], secretName(k)); why != "" {
				return k + ": " + why
			}
		}
		return ""
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return "an array changed"
		}
		for i := range x {
			// An object among the items ends what is taken for secret.
			if why := sameButSecrets(x[i], y[i], false); why != "" && b.([]any)[i] != redacted {
				return why
			}
		}
		return ""
	}
	if secret {
		switch a.(type) {
		case string, float64:
			if b != redacted {
				return fmt.Sprintf("%v is told", a)
			}
			return ""
		}
	}
	if a != b {
		return fmt.Sprintf("%v became %v", a, b)
	}
	return ""
}

func FuzzRedact(f *testing.F) {
	f.Add("application/json", `{"password":"x","a":[1,{"otp":`)
	f.Add("multipart/form-data", "content-disposition: x; name=\"token\"\r\n\r\nx")
	f.Add("text/html", `<input type=password value=x>`)
	f.Add("application/x-www-form-urlencoded", "a=b&%zz=c")
	f.Fuzz(func(t *testing.T, mime, body string) {
		out := redactBody(mime, body)
		if again := redactBody(mime, out); again != out && !strings.Contains(mime, "multipart") && !strings.Contains(mime, "html") {
			t.Fatalf("%q became %q, then %q", body, out, again)
		}
		redactURL(body)
	})
}
