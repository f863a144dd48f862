package pagecases

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

var uploadCases = []drivertest.Case{
	{Name: "input--upload-inputs", Page: "input/upload.html", Do: uploadInputs},
	{Name: "input--upload-directory", Page: "input/upload.html", Do: uploadDirectory},
	{Name: "input--upload-choosers", Page: "input/upload.html", Do: uploadChoosers},
	{Name: "input--upload-drops", Page: "input/upload.html", Do: uploadDrops},
	{Name: "input--upload-refuses", Page: "input/upload.html", Do: uploadRefuses},
	{Name: "input--upload-frames", Page: "input/upload-frames.html", Do: uploadFrames},
}

type uploadOut struct {
	receipt
	Uploaded    []struct{ Path, Name string }
	How, Tag    string
	Holds       int
	Built       bool
	ResolvedUID string
}

// UploadFile writes a file for an upload and returns its path.
func uploadFile(s *drivertest.Scenario, name, text string) string {
	s.T.Helper()
	path := filepath.Join(s.T.TempDir(), name)
	assert.NilError(s.T, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func uploadTo(s *drivertest.Scenario, selector string, paths ...string) uploadOut {
	s.T.Helper()
	var out uploadOut
	s.Value("input.upload", map[string]any{"selector": selector, "paths": paths}, &out)
	return out
}

// told are the page's own lines once it has read the files.
func told(s *drivertest.Scenario, lines int) []string {
	s.T.Helper()
	s.Eval("new Promise((done) => { const look = () => lines.length >= " + string(rune('0'+lines)) + " ? done() : setTimeout(look, 5); look(); })")
	return logged(s)
}

// An input is told of its files once, with trusted events, hidden or not.
func uploadInputs(s *drivertest.Scenario) {
	t := s.T
	note, picture := uploadFile(s, "note.txt", "hello"), uploadFile(s, "a.png", "png")
	for _, tt := range []struct {
		selector, id string
		paths        []string
		file         string
	}{
		{"#one", "one", []string{note}, "note.txt|5|text/plain|hello"},
		{"#many", "many", []string{note, picture}, "note.txt|5|text/plain|hello;a.png|3|image/png|png"},
		{"#picture", "picture", []string{picture}, "a.png|3|image/png|png"},
		{"#behind", "behind", []string{note}, "note.txt|5|text/plain|hello"},
		{"#label", "behind", []string{picture}, "a.png|3|image/png|png"},
		{"#holder", "held", []string{note}, "note.txt|5|text/plain|hello"},
	} {
		s.Eval("lines.length = 0")
		out := uploadTo(s, tt.selector, tt.paths...)
		assert.Equal(t, out.How, "input", tt.selector)
		assert.Equal(t, out.Holds, len(tt.paths))
		assert.Equal(t, out.Uploaded[0].Path, tt.paths[0])
		assert.DeepEqual(t, told(s, 3), []string{"input " + tt.id + " trusted", "change " + tt.id + " trusted", tt.id + " " + tt.file})
	}
	// The same files again are no change, as in the browser's own chooser.
	s.Eval("lines.length = 0")
	res := s.Call("input.upload", map[string]any{"selector": "#one", "paths": []string{note}})
	assert.Assert(t, strings.Contains(res.Text, "the same files before"), res.Text)
	assert.Equal(t, s.Eval("lines"), "[]")
	// By ref and by what a person perceives.
	a := agent{s}
	several := a.find("button", "Several files")
	assert.DeepEqual(t, several.Verbs, []string{"upload"})
	var out uploadOut
	s.Value("input.upload", map[string]any{"ref": several.ID, "paths": []string{picture}}, &out)
	assert.Equal(t, out.ResolvedUID, several.ID)
	s.Value("input.upload", map[string]any{"find": map[string]any{"label": "One file"}, "paths": []string{picture}}, &out)
	assert.Equal(t, out.Holds, 1)
}

// An input that takes a directory is given its files, with the paths that a
// page reads of them, and tells its page once.
func uploadDirectory(s *drivertest.Scenario) {
	t := s.T
	dir := filepath.Join(t.TempDir(), "pictures")
	assert.NilError(t, os.MkdirAll(filepath.Join(dir, "of", "may"), 0o700))
	assert.NilError(t, os.MkdirAll(filepath.Join(dir, "none"), 0o700))
	for name, text := range map[string]string{"a.txt": "first", "of/may/b.png": "second", "of/c.txt": ""} {
		assert.NilError(t, os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), []byte(text), 0o600))
	}
	const held = `[...document.getElementById("directory").files].map((f) => f.webkitRelativePath)`
	s.Eval("lines.length = 0; window.paths = null; document.getElementById('directory').addEventListener('change', () => { window.paths = " + held + " })")
	var out uploadOut
	res := s.Value("input.upload", map[string]any{"selector": "#directory", "paths": []string{dir}}, &out)
	assert.Equal(t, out.How, "input")
	assert.Equal(t, out.Holds, 3)
	assert.Assert(t, strings.Contains(res.Text, "3 files given to "), res.Text)
	assert.Equal(t, len(out.Uploaded), 3)
	want := `["pictures/a.txt","pictures/of/c.txt","pictures/of/may/b.png"]`
	assert.Equal(t, s.Eval("window.paths"), want, "when it was told")
	assert.Equal(t, s.Eval(held), want, "afterwards")
	assert.DeepEqual(t, told(s, 3), []string{"input directory untrusted", "change directory untrusted",
		"directory a.txt|5|text/plain|first;c.txt|0|text/plain|;b.png|6|image/png|second"})
	e := s.Fail("input.upload", map[string]any{"selector": "#directory", "paths": []string{filepath.Join(dir, "none")}}, op.Rejected, op.ValueRefused)
	assert.Assert(t, strings.Contains(e.Message, "holds no file"), e.Message)
}

// A button's file chooser is answered, and never shown.
func uploadChoosers(s *drivertest.Scenario) {
	t := s.T
	note := uploadFile(s, "note.txt", "hello")
	for _, tt := range []struct {
		selector string
		want     []string
	}{
		{"#attach", []string{"input attached trusted", "change attached trusted", "attached note.txt|5|text/plain|hello"}},
		{"#make", []string{"change made", "made note.txt|5|text/plain|hello"}},
	} {
		s.Eval("lines.length = 0")
		out := uploadTo(s, tt.selector, note)
		assert.Equal(t, out.How, "chooser")
		assert.Equal(t, out.Holds, 1)
		assert.DeepEqual(t, told(s, len(tt.want)), tt.want)
	}
	attach := agent{s}.find("button", "Attach")
	s.Call("input.upload", map[string]any{"ref": attach.ID, "paths": []string{uploadFile(s, "b.txt", "b"), note}})
	e := s.Fail("input.upload", map[string]any{"selector": "#make", "paths": []string{uploadFile(s, "b.txt", "b"), note}}, op.OutcomeUnknown, op.ValueRefused)
	assert.Assert(t, strings.Contains(e.Message, "takes one file"), e.Message)
	e = s.Fail("input.upload", map[string]any{"selector": "#plain", "paths": []string{note}}, op.OutcomeUnknown, op.InvalidActionTarget)
	assert.Assert(t, strings.Contains(e.Message, "opened no file chooser"), e.Message)
	e = s.Fail("input.upload", map[string]any{"selector": "#picker", "paths": []string{note}}, op.OutcomeUnknown, op.Unsupported)
	assert.Assert(t, strings.Contains(e.Message, "showOpenFilePicker"), e.Message)
}

// A zone takes dropped files; one that opens a chooser instead is clicked.
func uploadDrops(s *drivertest.Scenario) {
	t := s.T
	note := uploadFile(s, "note.txt", "hello")
	out := uploadTo(s, "#zone", note, uploadFile(s, "b.txt", "b"))
	assert.Equal(t, out.How, "drop")
	assert.DeepEqual(t, told(s, 2), []string{"drop trusted", "zone note.txt|5|text/plain|hello;b.txt|1|text/plain|b"})
	s.Eval("lines.length = 0")
	out = uploadTo(s, "#area", note)
	assert.Equal(t, out.How, "chooser")
	assert.DeepEqual(t, told(s, 3), []string{"input attached trusted", "change attached trusted", "attached note.txt|5|text/plain|hello"})
	e := s.Fail("input.upload", map[string]any{"selector": "#deaf", "paths": []string{note}}, op.Rejected, op.InvalidActionTarget)
	assert.Assert(t, strings.Contains(e.Message, "nothing listens"), e.Message)
}

// What does not fit is refused before anything is done.
func uploadRefuses(s *drivertest.Scenario) {
	t := s.T
	note, dir := uploadFile(s, "note.txt", "hello"), t.TempDir()
	for _, tt := range []struct {
		selector string
		paths    []string
		kind     op.Kind
		code     op.Code
		words    string
	}{
		{"#one", []string{note, note}, op.Rejected, op.ValueRefused, "takes one file"},
		{"#picture", []string{note}, op.Rejected, op.ValueRefused, "accepts image/*,.pdf"},
		{"#one", []string{dir}, op.Rejected, op.ValueRefused, "not directories"},
		{"#directory", []string{note}, op.Rejected, op.ValueRefused, "takes one directory"},
		{"#off", []string{note}, op.Rejected, op.InvalidActionTarget, "disabled"},
		{"#form", []string{note}, op.Rejected, op.InvalidActionTarget, "several inputs"},
		{"#one", []string{filepath.Join(dir, "missing.txt")}, op.Invalid, op.InvalidInput, "there is no file"},
		{"#one", []string{note, "note.txt"}, op.Invalid, op.InvalidInput, "not an absolute path"},
		{"#one", []string{}, op.Invalid, op.InvalidInput, "items"},
		{"#one", slices.Repeat([]string{note}, 33), op.Invalid, op.InvalidInput, "items"},
	} {
		e := s.Fail("input.upload", map[string]any{"selector": tt.selector, "paths": tt.paths}, tt.kind, tt.code)
		assert.Assert(t, strings.Contains(e.Message, tt.words), e.Message)
	}
	s.Fail("input.upload", map[string]any{"paths": []string{note}}, op.Invalid, op.InvalidInput)
	assert.Equal(t, s.Eval("lines"), "[]")
}

// Inputs and choosers in frames, of this process and of another.
func uploadFrames(s *drivertest.Scenario) {
	t := s.T
	note := uploadFile(s, "note.txt", "hello")
	for _, id := range []string{"same", "cross"} {
		assert.Equal(t, uploadTo(s, "#"+id+" >> #one", note).Holds, 1)
		assert.Equal(t, uploadTo(s, "#"+id+" >> #attach", note).How, "chooser")
		assert.Equal(t, uploadTo(s, "#"+id+" >> #zone", note).How, "drop")
	}
}
