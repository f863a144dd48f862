package bridge

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// routesOf reads the routes of the server from its code, so that none can be
// added without the checks below. Each is a method and a path.
func routesOf(t *testing.T) [][2]string {
	t.Helper()
	names, err := filepath.Glob("*.go")
	assert.NilError(t, err)
	var routes [][2]string
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		assert.NilError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			if sel, ok := call.Fun.(*ast.SelectorExpr); !ok || sel.Sel.Name != "HandleFunc" && sel.Sel.Name != "Handle" {
				return true
			}
			pattern, ok := call.Args[0].(*ast.BasicLit)
			assert.Assert(t, ok, "%s: a route that is no literal", name)
			text, err := strconv.Unquote(pattern.Value)
			assert.NilError(t, err)
			method, path, ok := strings.Cut(text, " ")
			assert.Assert(t, ok, "%s: the route %q names no method", name, text)
			routes = append(routes, [2]string{method, path})
			return true
		})
	}
	return routes
}

// TestEveryRouteRefusesStrangers: whatever a page of another site can send is
// refused on every route, and so is a request with another name for this
// machine, as after DNS rebinding, and a body that no route expects.
func TestEveryRouteRefusesStrangers(t *testing.T) {
	_, addr := serve(t, Options{})
	routes := routesOf(t)
	assert.Assert(t, len(routes) >= 4, "%v", routes)
	_, port, _ := strings.Cut(addr, ":")
	for _, route := range routes {
		for name, change := range map[string]func(*http.Request){
			"another name":               func(r *http.Request) { r.Host = "evil.example:" + port },
			"another name with our port": func(r *http.Request) { r.Host = "127.0.0.1.evil.example:" + port },
			"another port":               func(r *http.Request) { r.Host = "127.0.0.1:1" },
			"no port":                    func(r *http.Request) { r.Host = "127.0.0.1" },
			"another address":            func(r *http.Request) { r.Host = "[::1]:" + port },
			"a page":                     func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") },
			"a page of this machine":     func(r *http.Request) { r.Header.Set("Origin", "http://"+addr) },
			"a sandboxed page":           func(r *http.Request) { r.Header.Set("Origin", "null") },
			"another extension":          func(r *http.Request) { r.Header.Set("Origin", "chrome-extension://"+strings.Repeat("a", 32)) },
			"two origins": func(r *http.Request) {
				r.Header["Origin"] = []string{"chrome-extension://" + pinnedExtension, "http://evil.example"}
			},
			"an empty origin":  func(r *http.Request) { r.Header["Origin"] = []string{""} },
			"a browser's form": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
			"an address bar":   func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "none") },
		} {
			t.Run(route[1]+" from "+name, func(t *testing.T) {
				req, err := http.NewRequestWithContext(t.Context(), route[0], "http://"+addr+route[1], nil)
				assert.NilError(t, err)
				req.Header.Set("Connection", "Upgrade")
				req.Header.Set("Upgrade", "websocket")
				req.Header.Set("Sec-WebSocket-Version", "13")
				req.Header.Set("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==")
				change(req)
				res, err := http.DefaultClient.Do(req)
				assert.NilError(t, err)
				assert.NilError(t, res.Body.Close())
				assert.Equal(t, res.StatusCode, http.StatusForbidden)
				assert.Equal(t, res.Header.Get("Access-Control-Allow-Origin"), "")
				assert.Equal(t, res.Header.Get("Cache-Control"), "no-store")
			})
		}
	}
	// A program without an origin is none of the extension's pages.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/popup", nil)
	assert.NilError(t, err)
	res, err := http.DefaultClient.Do(req)
	assert.NilError(t, err)
	assert.NilError(t, res.Body.Close())
	assert.Equal(t, res.StatusCode, http.StatusForbidden)
}
