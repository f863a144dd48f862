package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"pi-chrome/extension"
)

// The laws of the repository. Each test holds one; docs/architecture.md says
// why they are what they are.

const (
	root     = "../.."
	maxLines = 800
	cdproto  = "github.com/chromedp/cdproto"
)

// topLevel is everything that may stand in the root.
var topLevel = []string{
	".ci", ".gitattributes", ".gitignore", "CHANGELOG.md", "LICENSE", "Makefile", "README.md",
	"bridge", "cdpmodel", "cmd", "docs", "driver", "extension", "fixtures", "go.mod", "go.sum",
}

// imports says what the code of a package, tests left out, may import beside
// the standard library. "./driver/op" is a package of this module; a name that
// ends in "/" allows what is below it. The packages below cmd may import
// everything.
var imports = map[string][]string{
	"cdpmodel":          {cdproto + "/cdp"},
	"driver/op":         {"github.com/google/jsonschema-go/"},
	"driver":            {"./cdpmodel", "./driver/op", cdproto + "/"},
	"driver/direct":     {"./driver/op", cdproto + "/"},
	"driver/drivertest": {"./driver/direct", "./driver/op", "./fixtures", cdproto + "/", "gotest.tools/v3/"},
	"driver/pagecases":  {"./cdpmodel", "./driver/drivertest", "./driver/op", "./fixtures", cdproto + "/", "gotest.tools/v3/"},
	"driver/chromedptab": {
		"./driver/op", cdproto, cdproto + "/", "github.com/chromedp/chromedp",
	},
	"bridge/wire":   {},
	"bridge/client": {"./bridge", "./bridge/wire", "./driver/op", "github.com/coder/websocket"},
	"bridge": {
		"./bridge/wire", "./driver/op", "./cdpmodel",
		cdproto + "/cdp", cdproto + "/cdp/jsonv2", cdproto + "/target", "github.com/coder/websocket", "go.etcd.io/bbolt", "go.etcd.io/bbolt/errors",
	},
	"bridge/pi": {},
	"docs":      {},
	"extension": {},
	"fixtures":  {},
}

// support is what only tests import.
var support = []string{"driver/drivertest", "driver/pagecases"}

// forbidden says what a package must not reach by any way, and why.
var forbidden = map[string]map[string]string{
	"cdpmodel": {
		"net/http": "it is pure", "os/exec": "it is pure",
	},
	"driver": {
		"./bridge":                        "a page is driven the same over every transport",
		"github.com/coder/websocket":      "the transport is the caller's",
		"net/http":                        "it speaks to a cdp.Session only",
		"./driver/direct":                 "the transport is the caller's",
		"github.com/spf13/pflag":          "flags belong to the surface",
		"github.com/chromedp/chromedp":    "it speaks to a cdp.Session only",
		"./fixtures":                      "pages of tests are not part of the driver",
		"gotest.tools/v3/assert":          "tests are not part of the driver",
		"pgregory.net/rapid":              "tests are not part of the driver",
		"github.com/rogpeppe/go-internal": "tests are not part of the driver",
	},
	"bridge": {
		"./driver":        "the command injects it as a handler",
		"./driver/direct": "the owner launches no browser",
	},
}

func TestRepoTopLevel(t *testing.T) {
	var found []string
	for _, name := range tracked(t) {
		first, _, _ := strings.Cut(name, "/")
		if !slices.Contains(found, first) {
			found = append(found, first)
		}
	}
	slices.Sort(found)
	assert.DeepEqual(t, found, topLevel)
}

func TestRepoImports(t *testing.T) {
	packages := sources(t)
	module := moduleName(t)
	for dir := range imports {
		if _, ok := packages[dir]; !ok {
			t.Errorf("%s is in the table of imports and not in the tree", dir)
		}
	}
	for dir, files := range packages {
		allowed, known := imports[dir]
		free := dir == "cmd/pi-chrome" || strings.HasPrefix(dir, "cmd/internal/")
		if !known && !free {
			t.Errorf("%s is not in the table of imports", dir)
		}
		for _, file := range files {
			for _, spec := range file.syntax.Imports {
				name, err := strconv.Unquote(spec.Path.Value)
				assert.NilError(t, err)
				if name == cdproto && dir != "driver/chromedptab" { // a connection of chromedp has its messages
					t.Errorf("%s imports the root of cdproto, which brings in every domain", file.name)
				}
				if file.test || standard(name, module) {
					continue
				}
				name = strings.Replace(name, module+"/", "./", 1)
				if strings.HasPrefix(name, "./") && slices.Contains(support, name[2:]) && !slices.Contains(support, dir) {
					t.Errorf("%s imports %s, which is for tests", file.name, name)
				}
				if free {
					continue
				}
				if !slices.ContainsFunc(allowed, func(rule string) bool {
					return name == rule || strings.HasSuffix(rule, "/") && strings.HasPrefix(name, rule)
				}) {
					t.Errorf("%s imports %s, which the table does not allow to %s", file.name, name, dir)
				}
			}
		}
	}
}

func TestRepoReach(t *testing.T) {
	module := moduleName(t)
	for dir, reasons := range forbidden {
		command := exec.Command("go", "list", "-deps", "-json=ImportPath", "./"+dir)
		command.Dir = root
		output, err := command.Output()
		assert.NilError(t, err, "listing what %s reaches", dir)
		decoder := json.NewDecoder(bytes.NewReader(output))
		for {
			var reached struct{ ImportPath string }
			if err := decoder.Decode(&reached); errors.Is(err, io.EOF) {
				break
			} else {
				assert.NilError(t, err)
			}
			if why, ok := reasons[strings.Replace(reached.ImportPath, module+"/", "./", 1)]; ok {
				t.Errorf("%s reaches %s: %s", dir, reached.ImportPath, why)
			}
			if reached.ImportPath == cdproto {
				t.Errorf("%s reaches the root of cdproto, which brings in every domain", dir)
			}
		}
	}
}

// TestRepoModelIsPure holds that cdpmodel has no goroutine, no clock and no
// I/O: time and ids are arguments.
func TestRepoModelIsPure(t *testing.T) {
	impure := []string{"crypto/rand", "math/rand", "math/rand/v2", "os", "net", "net/http", "io/fs", "log", "log/slog", "context"}
	clock := []string{"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTimer", "NewTicker"}
	for _, file := range sources(t)["cdpmodel"] {
		if file.test {
			continue
		}
		for _, spec := range file.syntax.Imports {
			if name, _ := strconv.Unquote(spec.Path.Value); slices.Contains(impure, name) {
				t.Errorf("%s imports %s", file.name, name)
			}
		}
		ast.Inspect(file.syntax, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.GoStmt:
				t.Errorf("%s starts a goroutine", file.name)
			case *ast.SelectorExpr:
				if x, ok := node.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clock, node.Sel.Name) {
					t.Errorf("%s uses time.%s", file.name, node.Sel.Name)
				}
			}
			return true
		})
	}
}

func TestRepoPackageComments(t *testing.T) {
	for dir, files := range sources(t) {
		var with []string
		code := false
		for _, file := range files {
			code = code || !file.test
			if !file.test && file.syntax.Doc != nil {
				with = append(with, file.name)
			}
		}
		if code && len(with) != 1 {
			t.Errorf("%s has %d package comments %v, not one", dir, len(with), with)
		}
	}
}

func TestRepoFileSizes(t *testing.T) {
	capped := []string{".go", ".js", ".ts", ".css", ".html"}
	for _, name := range tracked(t) {
		if !slices.Contains(capped, path.Ext(name)) || strings.HasPrefix(name, "fixtures/") && path.Ext(name) != ".go" {
			continue
		}
		if lines := bytes.Count(read(t, name), []byte("\n")); lines > maxLines {
			t.Errorf("%s has %d lines, more than %d: split it by topic", name, lines, maxLines)
		}
	}
}

var constraint = regexp.MustCompile(`(?m)^//go:build `)

// TestRepoFileNames holds that no Go file leaves the build by its name
// unnoticed: one that ends in the name of a system or a processor has a
// constraint, or a sibling with one for the others.
func TestRepoFileNames(t *testing.T) {
	silent := strings.Fields(`aix android darwin dragonfly freebsd illumos ios js linux netbsd openbsd plan9 solaris wasip1 windows unix
		386 amd64 arm arm64 loong64 mips mips64 ppc64 ppc64le riscv64 s390x wasm`)
	names := tracked(t)
	for _, name := range names {
		stem, isGo := strings.CutSuffix(name, ".go")
		stem, test := strings.CutSuffix(stem, "_test")
		cut := strings.LastIndex(stem, "_")
		if !isGo || cut < 0 || !slices.Contains(silent, stem[cut+1:]) {
			continue
		}
		meant := slices.ContainsFunc(names, func(other string) bool {
			return strings.HasPrefix(other, stem[:cut+1]) && strings.HasSuffix(other, "_test.go") == test &&
				path.Ext(other) == ".go" && constraint.Match(read(t, other))
		})
		if !meant {
			t.Errorf("%s is built on some systems only, by its name: rename it, or add the constraint it means", name)
		}
	}
}

func TestRepoModuleFile(t *testing.T) {
	for number, line := range strings.Split(string(read(t, "go.mod")), "\n") {
		if word, _, _ := strings.Cut(strings.TrimSpace(line), " "); word == "replace" || word == "exclude" {
			t.Errorf("go.mod:%d has a %s: it would not hold for who imports or installs us", number+1, word)
		}
	}
}

// TestRepoEmbeddedExtension holds that the binary carries the extension as it
// stands in the folder, and nothing that belongs to its tests.
func TestRepoEmbeddedExtension(t *testing.T) {
	embedded := map[string]string{}
	err := fs.WalkDir(extension.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(extension.FS(), name)
		embedded[name] = string(data)
		return err
	})
	assert.NilError(t, err)

	folder := map[string]string{}
	for _, name := range tracked(t) {
		inside, ok := strings.CutPrefix(name, "extension/")
		// Tests, types, the drawing of the icons and the Go file are not for
		// the browser.
		if !ok || strings.HasPrefix(inside, "test/") || slices.Contains([]string{".go", ".ts", ".svg"}, path.Ext(inside)) ||
			slices.Contains([]string{"tsconfig.json", "package.json"}, inside) {
			continue
		}
		folder[inside] = string(read(t, name))
	}
	assert.Assert(t, len(folder) > 5, "the folder has %d files", len(folder))
	for name := range embedded {
		if _, ok := folder[name]; !ok {
			t.Errorf("%s is embedded and is no part of the extension", name)
		}
	}
	for name, data := range folder {
		if got, ok := embedded[name]; !ok {
			t.Errorf("%s is not embedded", name)
		} else if got != data {
			t.Errorf("%s is embedded in another version", name)
		}
	}
}

// script finds JavaScript. It belongs in .js files, where it is checked, read
// and counted as such.
var script = regexp.MustCompile(`\bfunction\s*[\w$]*\s*\(|\)\s*=>|=>\s*[{(]|\bdocument\.(querySelector|getElementById|createElement)`)

// TestRepoNoScriptInGo holds that no Go file carries a script. What is written
// for a caller to read is not one: descriptions and examples of inputs, hints.
func TestRepoNoScriptInGo(t *testing.T) {
	for dir, files := range sources(t) {
		for _, file := range files {
			if file.test || slices.Contains(support, dir) {
				continue
			}
			ast.Inspect(file.syntax, func(node ast.Node) bool {
				switch node := node.(type) {
				case *ast.Field:
					node.Tag = nil
				case *ast.CallExpr:
					if called, ok := node.Fun.(*ast.SelectorExpr); ok && called.Sel.Name == "WithHint" {
						node.Args = nil
					}
				case *ast.BasicLit:
					if node.Kind == token.STRING && script.MatchString(node.Value) && !strings.HasPrefix(node.Value, "`{\"") {
						t.Errorf("%s has JavaScript in a string: %.80s", file.at(node.Pos()), node.Value)
					}
				}
				return true
			})
		}
	}
}

// unfit finds what must not stand in any file: a path of the machine that it
// was written on, and what was left for later. The words are put together here
// so that this file is not found.
var unfit = regexp.MustCompile(`(^|[^\w./>-])/(ro` + `ot|wo` + `rk|ho` + `me|Use` + `rs)/|/tmp/` + `bash|\b(TO` + `DO|FIX` + `ME)\b`)

func TestRepoNothingLeftBehind(t *testing.T) {
	for _, name := range tracked(t) {
		data := read(t, name)
		if bytes.IndexByte(data, 0) >= 0 {
			continue // A picture.
		}
		for number, line := range strings.Split(string(data), "\n") {
			// Somebody is nobody: tests of where state is kept need a name.
			line = strings.ReplaceAll(line, "/ho"+"me/somebody", "")
			if found := unfit.FindString(line); found != "" {
				t.Errorf("%s:%d has %q", name, number+1, found)
			}
		}
	}
}

// TestRepoTests holds that no test is skipped, and that -update works in every
// package that has tests (assert registers the flag).
func TestRepoTests(t *testing.T) {
	for dir, files := range sources(t) {
		tests, asserts := false, false
		for _, file := range files {
			if !file.test {
				continue
			}
			tests = true
			for _, spec := range file.syntax.Imports {
				asserts = asserts || spec.Path.Value == `"gotest.tools/v3/assert"`
			}
			ast.Inspect(file.syntax, func(node ast.Node) bool {
				switch node := node.(type) {
				case *ast.FuncLit:
					return !drawn(node.Type)
				case *ast.FuncDecl:
					return !drawn(node.Type)
				case *ast.SelectorExpr:
					if slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, node.Sel.Name) {
						t.Errorf("%s skips a test", file.at(node.Pos()))
					}
				}
				return true
			})
		}
		if tests && !asserts {
			t.Errorf("no test of %s imports gotest.tools/v3/assert: go test ./... -update fails there", dir)
		}
	}
}

// drawn says whether a function is a step of a property test, which may skip
// what it drew.
func drawn(function *ast.FuncType) bool {
	return slices.ContainsFunc(function.Params.List, func(field *ast.Field) bool {
		pointer, ok := field.Type.(*ast.StarExpr)
		if !ok {
			return false
		}
		selector, ok := pointer.X.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		name, ok := selector.X.(*ast.Ident)
		return ok && name.Name == "rapid"
	})
}

var (
	markdownLink = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)
	heading      = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*$`)
	notInAnchor  = regexp.MustCompile(`[^\p{L}\p{N}\s_-]`)
)

// TestRepoLinks holds that every relative link of the documents leads to a file
// of the tree, and its anchor to a heading.
func TestRepoLinks(t *testing.T) {
	names := tracked(t)
	checked := 0
	for _, name := range names {
		if path.Ext(name) != ".md" {
			continue
		}
		for number, line := range prose(string(read(t, name))) {
			for _, match := range markdownLink.FindAllStringSubmatch(line, -1) {
				target, anchor, _ := strings.Cut(match[1], "#")
				if strings.Contains(match[1], "://") || strings.HasPrefix(match[1], "mailto:") {
					continue
				}
				checked++
				file := name
				if target != "" {
					file = path.Join(path.Dir(name), target)
				}
				exists := slices.ContainsFunc(names, func(other string) bool { return other == file || strings.HasPrefix(other, file+"/") })
				if !exists {
					t.Errorf("%s:%d links to %s, which is not in the tree", name, number+1, match[1])
				} else if anchor != "" && !slices.Contains(anchors(string(read(t, file))), anchor) {
					t.Errorf("%s:%d links to %s, and there is no such heading", name, number+1, match[1])
				}
			}
		}
	}
	assert.Assert(t, checked > 0, "no link was checked")
}

// TestRepoDecisions holds that the index of the decisions has them all, and
// that each is named by its day.
func TestRepoDecisions(t *testing.T) {
	const index = "docs/decisions/README.md"
	dated := regexp.MustCompile(`^\d{4}-\d\d-\d\d-[a-z0-9-]+\.md$`)
	for _, name := range tracked(t) {
		file, ok := strings.CutPrefix(name, "docs/decisions/")
		if !ok || name == index {
			continue
		}
		if !dated.MatchString(file) {
			t.Errorf("%s is not named <year>-<month>-<day>-<subject>.md", name)
		}
		if !bytes.Contains(read(t, index), []byte("("+file+")")) {
			t.Errorf("%s does not list %s", index, file)
		}
	}
}

// prose returns the lines of a document with those in code blocks emptied.
func prose(text string) []string {
	lines := strings.Split(text, "\n")
	code := false
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence || code {
			lines[i] = ""
		}
		code = code != fence
	}
	return lines
}

// anchors returns the anchors of a document's headings, as GitHub makes them.
func anchors(text string) []string {
	var found []string
	seen := map[string]int{}
	for _, line := range prose(text) {
		match := heading.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		anchor := strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(match[1]), ""), " ", "-")
		seen[anchor]++
		if seen[anchor] > 1 {
			anchor = fmt.Sprintf("%s-%d", anchor, seen[anchor]-1)
		}
		found = append(found, anchor)
	}
	return found
}

// source is one Go file, whatever system it is built for.
type source struct {
	name   string
	test   bool
	syntax *ast.File
	set    *token.FileSet
}

func (s source) at(pos token.Pos) string {
	return fmt.Sprintf("%s:%d", s.name, s.set.Position(pos).Line)
}

// sources returns the Go files of the tree by the folder of their package.
func sources(t *testing.T) map[string][]source {
	t.Helper()
	found := map[string][]source{}
	for _, name := range tracked(t) {
		if path.Ext(name) != ".go" || strings.Contains(name, "/testdata/") {
			continue
		}
		set := token.NewFileSet()
		syntax, err := parser.ParseFile(set, filepath.Join(root, name), nil, parser.ParseComments)
		assert.NilError(t, err)
		dir := path.Dir(name)
		found[dir] = append(found[dir], source{name: name, test: strings.HasSuffix(name, "_test.go"), syntax: syntax, set: set})
	}
	return found
}

// TestRepoScriptsArePlayed: a script lies where a test plays every file.
func TestRepoScriptsArePlayed(t *testing.T) {
	played := []string{"cmd/pi-chrome/testdata/script/", "cmd/pi-chrome/testdata/mcp/", "bridge/testdata/conversations/"}
	for _, name := range tracked(t) {
		if path.Ext(name) == ".txtar" && !slices.ContainsFunc(played, func(dir string) bool { return strings.HasPrefix(name, dir) }) {
			t.Errorf("no test plays %s", name)
		}
	}
}

// tracked returns the files of the repository, sorted: what is committed or
// would be, deleted files left out.
func tracked(t *testing.T) []string {
	t.Helper()
	command := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	command.Dir = root
	output, err := command.Output()
	assert.NilError(t, err, "the laws are held over what git lists")
	var names []string
	for name := range strings.SplitSeq(strings.TrimRight(string(output), "\x00"), "\x00") {
		if info, err := os.Lstat(filepath.Join(root, name)); err == nil && info.Mode().IsRegular() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	assert.Assert(t, len(names) > 0)
	return slices.Compact(names)
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	assert.NilError(t, err)
	return data
}

// moduleName returns the name that go.mod gives the module; docs/rename-module.md
// changes it.
func moduleName(t *testing.T) string {
	t.Helper()
	line, _, _ := strings.Cut(string(read(t, "go.mod")), "\n")
	name, ok := strings.CutPrefix(line, "module ")
	assert.Assert(t, ok, "go.mod begins with %q", line)
	return strings.TrimSpace(name)
}

// standard says whether the import path is one of the standard library: its
// first element has no dot, and it is not of this module.
func standard(name, module string) bool {
	first, _, _ := strings.Cut(name, "/")
	return !strings.Contains(first, ".") && !strings.HasPrefix(name, module+"/")
}
