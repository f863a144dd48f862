package driver

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"pgregory.net/rapid"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

// refuseFiles has Chrome refuse files as it does to an extension that may not
// read them.
func refuseFiles(s *drivertest.Scenario, method string) {
	recorded(s).FailNth(method, 1, fmt.Errorf("%w: %w", op.ErrNotDelivered, &op.ProtocolError{Method: method, Message: "Not allowed"}))
}

func writeFile(t *testing.T, name string, data []byte) string {
	path := filepath.Join(t.TempDir(), name)
	assert.NilError(t, os.WriteFile(path, data, 0o600))
	return path
}

// Where Chrome gives the extension no files they are built in the page: whole,
// with name, type and time, and the page is told once.
func TestUploadWithoutFileAccess(t *testing.T) {
	s := start(t, "input/upload.html")
	big := make([]byte, 2*uploadPart+5)
	for i := range big {
		big[i] = byte(i * 7)
	}
	note, blob, empty := writeFile(t, "note.txt", []byte("hello")), writeFile(t, "blob.bin", big), writeFile(t, "empty.csv", nil)
	for _, tt := range []struct{ selector, id, how string }{{"#many", "many", "input"}, {"#attach", "attached", "chooser"}} {
		s.Eval("lines.length = 0")
		refuseFiles(s, "DOM.setFileInputFiles")
		var out UploadOut
		res := s.Value("input.upload", map[string]any{"selector": tt.selector, "paths": []string{note, blob, empty}}, &out)
		assert.Equal(t, out.How, tt.how)
		assert.Equal(t, out.Holds, 3)
		assert.Assert(t, out.Built)
		assert.Assert(t, strings.Contains(res.Text, "Allow access to file URLs"), res.Text)
		s.Eval("new Promise((done) => { const look = () => lines.length >= 3 ? done() : setTimeout(look, 5); look(); })")
		var lines []string
		assert.NilError(t, json.Unmarshal([]byte(s.Eval("lines")), &lines))
		assert.DeepEqual(t, lines[:2], []string{"input " + tt.id + " untrusted", "change " + tt.id + " untrusted"})
		assert.Assert(t, strings.HasPrefix(lines[2], tt.id+" note.txt|5|text/plain|hello;blob.bin|1572869|application/octet-stream|") ||
			strings.HasPrefix(lines[2], tt.id+" note.txt|5|text/plain|hello;blob.bin|1572869||"), lines[2])
		assert.Assert(t, strings.HasSuffix(lines[2], ";empty.csv|0|text/csv|"), lines[2])
		sum := s.Eval(fmt.Sprintf(`document.getElementById(%q).files[1].arrayBuffer().then((b) => new Uint8Array(b).every((v, i) => v === (i * 7) %% 256))`, tt.id))
		assert.Equal(t, sum, "true")
		assert.Equal(t, s.Eval(fmt.Sprintf(`Date.now() - document.getElementById(%q).files[0].lastModified < 600000`, tt.id)), "true")
	}
	s.Eval("lines.length = 0")
	refuseFiles(s, "Input.dispatchDragEvent")
	var out UploadOut
	s.Value("input.upload", map[string]any{"selector": "#zone", "paths": []string{note}}, &out)
	assert.Equal(t, out.How, "drop")
	assert.Assert(t, out.Built)
	s.Eval("new Promise((done) => { const look = () => lines.length >= 2 ? done() : setTimeout(look, 5); look(); })")
	assert.Equal(t, s.Eval("lines"), `["drop untrusted","zone note.txt|5|text/plain|hello"]`)
}

// More than the page may be given is refused before a byte is sent.
func TestUploadTooLarge(t *testing.T) {
	s := start(t, "input/upload.html")
	path := writeFile(t, "huge.bin", nil)
	assert.NilError(t, os.Truncate(path, maxUploadBytes+1))
	refuseFiles(s, "DOM.setFileInputFiles")
	e := s.Fail("input.upload", map[string]any{"selector": "#one", "paths": []string{path}}, op.Rejected, op.Unsupported)
	assert.Assert(t, strings.Contains(e.Message, "64 MB"), e.Message)
	assert.Equal(t, s.Eval("document.getElementById('one').files.length"), "0")
	refuseFiles(s, "Input.dispatchDragEvent")
	e = s.Fail("input.upload", map[string]any{"selector": "#zone", "paths": []string{t.TempDir()}}, op.Rejected, op.Unsupported)
	assert.Assert(t, strings.Contains(e.Message, "directory"), e.Message)
}

func TestUploadAccepts(t *testing.T) {
	for _, tt := range []struct {
		name, accept string
		want         bool
	}{
		{"a.png", "", true}, {"a.png", "image/*", true}, {"a.PNG", ".png", true}, {"a.png", ".jpg, .png", true}, {"a.txt", "image/*,.pdf", false}, {"a.pdf", "image/*,.pdf", true},
		{"a.unknownkind", "image/*", true}, {"a.unknownkind", ".png", false}, {"a.jpeg", "image/png", false}, {"a.txt", "*/*", true}, {"a.txt", " , ", true}, {"a.csv", "text/csv", true},
		{"archive.tar.gz", ".tar.gz", true},
	} {
		f := uploadFile{name: tt.name, mime: mimeOf(tt.name)}
		assert.Equal(t, f.accepts(tt.accept), tt.want, "%v", tt)
	}
	rapid.Check(t, func(t *rapid.T) {
		f := uploadFile{name: rapid.String().Draw(t, "name"), mime: rapid.String().Draw(t, "mime")}
		f.accepts(rapid.String().Draw(t, "accept"))
	})
}

// A file is read whole, in pieces of which all but the last are full.
func TestUploadParts(t *testing.T) {
	for _, size := range []int{0, 1, uploadPart - 1, uploadPart, uploadPart + 1, 2 * uploadPart} {
		f := uploadFile{path: writeFile(t, "data", make([]byte, size))}
		left, got, pieces := int64(maxUploadBytes), 0, 0
		assert.NilError(t, f.parts(&left, func(data []byte) error { got += len(data); pieces++; return nil }))
		assert.Equal(t, got, size)
		assert.Equal(t, left, int64(maxUploadBytes-size))
		assert.Equal(t, pieces, max(1, (size+uploadPart-1)/uploadPart))
		left = int64(size) - 1
		if size > 0 {
			assert.ErrorIs(t, f.parts(&left, func([]byte) error { return nil }), errTooLarge)
		}
	}
}
