package driver

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pi-chrome/driver/op"
)

// uploadFile is one file of an upload, as it stands on this machine.
type uploadFile struct {
	path     string // absolute
	name     string
	size     int64
	dir      bool
	relative string // its path from the directory that is uploaded, which it begins with; "" outside of one
	mime     string // "" when its name does not tell
	modified int64  // in milliseconds
}

// uploadFiles looks the paths up. It fails with invalid input when one is not
// absolute, is missing or cannot be read, before anything is sent to the page.
func uploadFiles(paths []string) ([]uploadFile, error) {
	files := make([]uploadFile, len(paths))
	for i, p := range paths {
		field := fmt.Sprintf("paths[%d]", i)
		bad := func(format string, args ...any) error {
			return op.Invalidf("chrome_upload: field %q: "+format, append([]any{field}, args...)...).
				WithHint("give absolute paths of files on the machine where the browser runs").WithDetail("field", field).WithDetail("path", p)
		}
		if strings.ContainsRune(p, 0) || !filepath.IsAbs(p) {
			return nil, bad("%q is not an absolute path", cut(p, 200))
		}
		info, err := os.Stat(p)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, bad("there is no file %q", cut(p, 200))
		case err != nil:
			return nil, bad("%q cannot be read: %s", cut(p, 200), unwrapped(err))
		case !info.IsDir() && !info.Mode().IsRegular():
			return nil, bad("%q is neither a file nor a directory", cut(p, 200))
		}
		if f, err := os.Open(p); err != nil {
			return nil, bad("%q cannot be read: %s", cut(p, 200), unwrapped(err))
		} else if err := f.Close(); err != nil {
			return nil, bad("%q cannot be read: %s", cut(p, 200), unwrapped(err))
		}
		files[i] = uploadFile{path: p, name: filepath.Base(p), size: info.Size(), dir: info.IsDir(), mime: mimeOf(p), modified: info.ModTime().UnixMilli()}
	}
	return files, nil
}

func unwrapped(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// mimeTypes are types by extension that do not depend on what the machine has
// registered.
var mimeTypes = map[string]string{
	".txt": "text/plain", ".csv": "text/csv", ".md": "text/markdown", ".htm": "text/html", ".html": "text/html", ".xml": "text/xml", ".json": "application/json",
	".pdf": "application/pdf", ".zip": "application/zip", ".gz": "application/gzip", ".tar": "application/x-tar",
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp", ".avif": "image/avif", ".svg": "image/svg+xml", ".bmp": "image/bmp", ".ico": "image/x-icon",
	".mp3": "audio/mpeg", ".wav": "audio/wav", ".ogg": "audio/ogg", ".m4a": "audio/mp4", ".mp4": "video/mp4", ".webm": "video/webm", ".mov": "video/quicktime",
	".doc": "application/msword", ".xls": "application/vnd.ms-excel", ".ppt": "application/vnd.ms-powerpoint",
	".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
}

func mimeOf(path string) string {
	ext := strings.ToLower(filepath.Ext(path))
	if t, ok := mimeTypes[ext]; ok {
		return t
	}
	t, _, _ := strings.Cut(mime.TypeByExtension(ext), ";")
	return strings.TrimSpace(t)
}

// accepts reports whether an input with that accept attribute offers the file
// in its chooser. A file whose type its name does not tell is given the
// benefit of the doubt where a type is asked for.
func (f uploadFile) accepts(accept string) bool {
	wanted := false
	for part := range strings.SplitSeq(strings.ToLower(accept), ",") {
		part = strings.TrimSpace(part)
		switch {
		case part == "":
			continue
		case strings.HasPrefix(part, "."):
			if strings.HasSuffix(strings.ToLower(f.name), part) {
				return true
			}
		case part == "*/*" || f.mime == "" && strings.Contains(part, "/"):
			return true
		case strings.HasSuffix(part, "/*"):
			if strings.HasPrefix(f.mime, strings.TrimSuffix(part, "*")) {
				return true
			}
		case part == f.mime:
			return true
		}
		wanted = true
	}
	return !wanted
}

// Bounds of files that are built in the page, where Chrome does not read them
// itself.
const (
	maxUploadBytes = 64 << 20
	uploadPart     = 768 << 10 // of a file at a time; a multiple of 3, so that its base64 has no end
)

// parts reads the file piece by piece. An empty file is one empty piece.
func (f uploadFile) parts(left *int64, send func(data []byte) error) error {
	in, err := os.Open(f.path)
	if err != nil {
		return fmt.Errorf("reading %s: %w", f.path, unwrapped(err))
	}
	defer in.Close() //nolint:errcheck // Nothing was written.
	buf := make([]byte, uploadPart)
	for first := true; ; first = false {
		n, err := io.ReadFull(in, buf)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("reading %s: %w", f.path, unwrapped(err))
		}
		if *left -= int64(n); *left < 0 {
			return errTooLarge
		}
		if n > 0 || first {
			if err := send(buf[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

var errTooLarge = errors.New("the files are too large")

// maxDirectory is how many files of a directory are uploaded at most.
const maxDirectory = 2000

// inDirectory lists the files of a directory, as its input would: those of its
// directories too, in the order of their names, and no links.
func inDirectory(dir uploadFile) ([]uploadFile, error) {
	var files []uploadFile
	err := filepath.WalkDir(dir.path, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.Type().IsRegular() {
			return nil
		}
		if len(files) == maxDirectory {
			return errTooLarge
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir.path, path)
		if err != nil {
			return err
		}
		files = append(files, uploadFile{path: path, name: d.Name(), size: info.Size(), mime: mimeOf(path), modified: info.ModTime().UnixMilli(),
			relative: dir.name + "/" + filepath.ToSlash(rel)})
		return nil
	})
	if err != nil && !errors.Is(err, errTooLarge) {
		return nil, fmt.Errorf("reading %s: %w", dir.path, unwrapped(err))
	}
	return files, err
}

// fit refuses files that the input does not take.
func (i uploadInput) fit(t *Tab, what string, files []uploadFile) *op.Error {
	tab := t.conn.Key().TabID
	refuse := func(hint, format string, args ...any) *op.Error {
		return op.Reject(op.ValueRefused, "%s on tab %d "+format+"; nothing was uploaded", append([]any{what, tab}, args...)...).WithHint("%s", hint).WithDetail("url", t.url())
	}
	dirs := slices.ContainsFunc(files, func(f uploadFile) bool { return f.dir })
	switch {
	case i.Directory && (len(files) != 1 || !dirs):
		return refuse("give the path of one directory", "takes one directory")
	case !i.Directory && dirs:
		return refuse("give the paths of files", "takes files, not directories")
	case !i.Multiple && !i.Directory && len(files) > 1:
		return refuse("give one path", "takes one file; %d were given", len(files)).WithDetail("wanted", len(files))
	}
	for _, f := range files {
		if !i.Directory && !f.accepts(i.Accept) {
			kind := f.mime
			if kind == "" {
				kind = "of an unknown type"
			}
			return refuse("give a file that it accepts", "accepts %s; %q is %s", cut(i.Accept, 200), f.name, kind).
				WithDetail("allowed", cut(i.Accept, 500)).WithDetail("wanted", f.name)
		}
	}
	return nil
}
