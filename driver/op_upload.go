package driver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"

	"pi-chrome/driver/op"
)

// UploadIn is the input of chrome_upload: the files, and one of ref, selector
// and find.
type UploadIn struct {
	Ref      string   `json:"ref,omitzero" pattern:"^@?el-\\d+$" brief:"el-N with [upload], or a button that opens a file chooser" jsonschema:"an input for files by a ref shown with [upload], or a button that opens a file chooser by one shown with [click]"`
	Selector string   `json:"selector,omitzero" minLength:"1" brief:"" jsonschema:"the same, or a zone for dropping files, by CSS that matches exactly one; >>> goes into shadow roots, \"iframe >>\" into frames"`
	Find     *FindBy  `json:"find,omitempty" brief:"the one element that fits" jsonschema:"the same, by what a person perceives of it"`
	Paths    []string `json:"paths" minItems:"1" maxItems:"32" brief:"absolute, on the browser's machine" jsonschema:"absolute paths on the machine where the browser runs"`
	op.TabInput
}

// Ways in which files get to a page.
const (
	uploadByInput   = "input"
	uploadByChooser = "chooser"
	uploadByDrop    = "drop"
)

// Uploaded is one file that was given to the page.
type Uploaded struct {
	Path string `json:"path"`
	Name string `json:"name"`
	Size int64  `json:"size" jsonschema:"in bytes"`
}

// UploadOut is what was given to the page and what that did.
type UploadOut struct {
	Input       string     `json:"input"` // chrome
	Uploaded    []Uploaded `json:"uploaded"`
	More        int        `json:"moreUploaded,omitempty" jsonschema:"how many more files of a directory were given"`
	How         string     `json:"how" enum:"input|chooser|drop" jsonschema:"by an input for files, a file chooser that a click opened, or a drop"`
	Tag         string     `json:"tag" jsonschema:"local name of what took the files"`
	ResolvedUID string     `json:"resolvedUid,omitempty" jsonschema:"the ref"`
	Holds       int        `json:"holds" jsonschema:"how many files the input holds now; a page may take them away from it at once"`
	Built       bool       `json:"built,omitempty" jsonschema:"the files were built in the page, because the browser does not let the extension read files, or because they are those of a directory; its events are not trusted"`
	Receipt
	notes []string
}

// Text is contract §1.11's form, with the receipt.
func (o UploadOut) Text() string { return o.Receipt.text("upload", o.notes...) }

var opUpload = op.Define(op.Spec{
	Name: "input.upload", Tool: "chrome_upload", Profile: "interaction", Title: "Upload",
	Summary: "Give files to a file input, a button that opens a file chooser, or a drop zone.",
	Brief:   "Give files to an input, file chooser or drop zone (one of ref, selector, find).",
	Doc: "Sets the files of an input, hidden or not, with one `input` and one `change` event; clicks a button and answers the file chooser that it opens; or drops the files on a zone. " +
		"Whether the input takes several files, directories and that kind of file is checked before anything is done. " +
		"Where the extension may not read files (\"Allow access to file URLs\" is off) the files are built in the page, at most 64 MB together. So are those of a directory, for an input that takes one, at most 2000.",
	Effect: op.MayMutate, Deadline: op.DefaultDeadline, Tab: op.PageTab, Args: []string{"ref"},
	OneOf: [][]string{{"ref", "selector", "find"}},
	Examples: []op.Example{
		{Title: "Choose a file", Input: json.RawMessage(`{"selector":"#one","paths":["/etc/hosts"]}`), Page: "input/upload.html"},
		{Title: "Answer a file chooser", Input: json.RawMessage(`{"find":{"role":"button","name":"Attach"},"paths":["/etc/hosts"]}`), Page: "input/upload.html"},
	},
	Errors: []op.Code{op.StaleActionRef, op.ActionVerbMismatch, op.InvalidActionTarget, op.ActionTargetNotFound, op.ValueRefused, op.ClickIntercepted,
		op.TargetInvisible, op.TargetUnstable, op.Unsupported, op.DialogOpen, op.DebuggerDetached, op.DebuggerBusy},
}, upload)

// Bounds of an upload.
const (
	maxUploaded  = 32              // files that the result lists
	chooserLimit = 3 * time.Second // from the click to the file chooser
	toldLimit    = time.Second     // until the page is told of its files
)

// uploadInput is what the page said of where the files go.
type uploadInput struct {
	State        string `json:"state"`
	Reason       string `json:"reason"`
	How          string `json:"how"`
	Tag          string `json:"tag"`
	RequestedTag string `json:"requestedTag"`
	Called       string `json:"called"`
	Multiple     bool   `json:"multiple"`
	Directory    bool   `json:"directory"`
	Accept       string `json:"accept"`
}

// uploadRun is one upload.
type uploadRun struct {
	t     *Tab
	c     *Call
	w     *witness
	p     *pace
	files []uploadFile
	node  node
	frame frameRef // of the input
	into  uploadInput
	out   UploadOut
}

// Check refuses what the schema cannot.
func (in UploadIn) Check() error { return checkFind("chrome_upload", in.Find) }

func upload(ctx context.Context, c *Call, in UploadIn) (UploadOut, error) {
	t := c.tab
	files, err := uploadFiles(in.Paths)
	if err != nil {
		return UploadOut{}, err
	}
	if err := t.leaseFrames(ctx); err != nil {
		return UploadOut{}, err
	}
	n, err := t.elementToUpload(ctx, elementInput{in.Ref, in.Selector, in.Find})
	if err != nil {
		return UploadOut{}, err
	}
	w, err := t.witness(c)
	if err != nil {
		return UploadOut{}, err
	}
	defer w.stop()
	u := &uploadRun{t: t, c: c, w: w, p: t.paceOf(c, ""), files: files, node: n, frame: n.frame, out: UploadOut{Input: "chrome", ResolvedUID: n.ref}}
	defer u.end(ctx)
	if err := u.run(ctx); err != nil {
		w.disarm(ctx)
		return UploadOut{}, w.untouched(c.cause(err))
	}
	for _, f := range firstN(u.files, maxUploaded) {
		u.out.Uploaded = append(u.out.Uploaded, Uploaded{Path: f.path, Name: f.name, Size: f.size})
	}
	u.out.More = len(u.files) - len(u.out.Uploaded)
	u.out.Receipt = w.settle(ctx, false)
	u.tell()
	return u.out, nil
}

// elementToUpload finds the element: one by ref must have been granted an
// upload, or the click that opens its file chooser.
func (t *Tab) elementToUpload(ctx context.Context, e elementInput) (node, error) {
	n, err := t.element(ctx, e, verbUpload)
	if isCode(err, op.ActionVerbMismatch) {
		if other, err2 := t.byRef(ctx, e.ref, verbClick); err2 == nil {
			return other, nil
		}
	}
	return n, err
}

// run gives the files to the page in the way that the element asks for.
func (u *uploadRun) run(ctx context.Context) error {
	t := u.t
	look, done := u.w.guard(ctx)
	defer done()
	object, err := t.resolve(look, u.node.frame, u.node.backend)
	if err != nil {
		return t.staleNode(u.node, err)
	}
	if err := t.inputFn(look, u.node.frame, object, "uploadTarget", &u.into); err != nil {
		return t.staleNode(u.node, err)
	}
	if u.into.State == "several" {
		return op.Reject(op.InvalidActionTarget, "%s on tab %d holds several inputs for files; nothing was uploaded", u.node, t.conn.Key().TabID).
			WithHint("name one of them; a snapshot shows them with [upload]").WithDetail("reason", "ambiguous").WithDetail("url", t.url())
	}
	if err := t.refusal(u.node.String(), u.node.ref, u.into.State, u.into.Reason, "", "", point{}); err != nil {
		return err
	}
	u.out.How, u.out.Tag = u.into.How, u.into.Tag
	switch u.into.How {
	case uploadByInput:
		return u.give(ctx)
	case uploadByDrop:
		taken, err := u.drop(ctx, object)
		if err != nil || taken || u.w.over() {
			return err
		}
		// It takes no drop: perhaps a click on it opens a file chooser.
		u.out.How = uploadByChooser
		u.w.disarm(ctx)
	}
	return u.choose(ctx, object)
}

// give sets the files of the input that the page has prepared.
func (u *uploadRun) give(ctx context.Context) error {
	t := u.t
	look, done := u.w.guard(ctx)
	defer done()
	what := u.into.Called
	if u.node.ref != "" {
		what = u.node.ref + " " + what
	}
	if e := u.into.fit(t, what, u.files); e != nil {
		return e
	}
	if u.w.frames == nil {
		if err := u.w.arm(look, u.frame); err != nil {
			return err
		}
	}
	if err := t.inputFn(look, u.frame, "", "uploadWatch", nil); err != nil {
		return err
	}
	if u.into.Directory {
		// Chrome 156 lists no directory for a program, or asks a person.
		return u.directory(ctx)
	}
	object, err := u.inputObject(look)
	if err != nil {
		return err
	}
	paths := make([]string, len(u.files))
	for i, f := range u.files {
		paths[i] = f.path
	}
	// The page may be told at once, and answer with a dialog.
	u.c.begin()
	u.w.inputAt()
	err = u.w.deliver(ctx, func(ctx context.Context) error {
		_, err := call(ctx, u.frame.s, dom.SetFileInputFiles, dom.SetFileInputFilesParams{Files: paths, ObjectID: object})
		return err
	})
	switch {
	case err == nil:
	case errors.Is(err, errDialog), u.w.gone(err):
		return nil
	case notAllowed(err):
		if u.out.How == uploadByInput {
			u.c.noEffect()
		}
		return u.build(ctx, "uploadSet", "")
	case errors.Is(err, op.ErrNotDelivered) && u.out.How == uploadByInput:
		u.c.noEffect()
		return fmt.Errorf("setting the files: %w", err)
	default:
		return fmt.Errorf("setting the files: %w", cleared(err))
	}
	return u.told(ctx)
}

// notAllowed reports whether Chrome refused a call because the extension may
// not read files.
func notAllowed(err error) bool {
	p, ok := errors.AsType[*op.ProtocolError](err)
	return ok && strings.Contains(p.Message, "Not allowed")
}

// inputObject is the input that the page has prepared, as an object of ours.
func (u *uploadRun) inputObject(ctx context.Context) (runtime.RemoteObjectID, error) {
	world, err := u.t.world(ctx, u.frame)
	if err != nil {
		return "", err
	}
	res, err := call(ctx, u.frame.s, callFunctionOn, callParams{FunctionDeclaration: script("input_file"), ExecutionContextID: world, ObjectGroup: objectGroup, Silent: true})
	if err != nil {
		return "", err
	}
	if res.Result == nil || res.Result.ObjectID == "" {
		return "", goneNode(u.t, u.node)
	}
	return res.Result.ObjectID, nil
}

func goneNode(t *Tab, n node) error {
	return t.refusal(n.String(), n.ref, "stale", "", "", "", point{})
}

// told reads what the input holds, once its page has been told.
func (u *uploadRun) told(ctx context.Context) error {
	var got struct {
		Missed bool `json:"missed"`
		Count  int  `json:"count"`
		Events struct {
			Input, Change, Cancel int
		} `json:"events"`
	}
	err := u.w.deliver(ctx, func(ctx context.Context) error {
		return u.t.inputFn(ctx, u.frame, "", "uploaded", &got, toldLimit.Milliseconds())
	})
	switch {
	case errors.Is(err, errDialog), u.w.gone(err), err == nil && got.Missed:
		return nil
	case err != nil:
		return fmt.Errorf("reading the input: %w", err)
	}
	u.out.Holds = got.Count
	if got.Count == 0 && got.Events.Change == 0 {
		return op.Unknown(op.ValueRefused, "%s on tab %d holds no file after the upload", u.into.Called, u.t.conn.Key().TabID).WithHint("take a snapshot and look")
	}
	if got.Events.Change == 0 && got.Events.Cancel > 0 {
		u.out.notes = append(u.out.notes, "the input held the same files before: the page was told of no change")
	}
	return nil
}

// directory gives the input the files of one directory, built in the page.
func (u *uploadRun) directory(ctx context.Context) error {
	id := u.t.conn.Key().TabID
	dir := u.files[0]
	files, err := inDirectory(dir)
	switch {
	case errors.Is(err, errTooLarge):
		return op.Reject(op.Unsupported, "chrome_upload on tab %d gives at most %d files of a directory to the page, and %s holds more; nothing was uploaded", id, maxDirectory, cut(dir.path, 200)).
			WithHint("give a directory further down")
	case err != nil:
		return op.Reject(op.InvalidInput, "chrome_upload on tab %d: %s; nothing was uploaded", id, err).WithHint("give a directory that can be read")
	case len(files) == 0:
		return op.Reject(op.ValueRefused, "the directory %s holds no file; nothing was uploaded to %s on tab %d", cut(dir.path, 200), u.into.Called, id).
			WithHint("give a directory that holds files")
	}
	u.files = files
	return u.build(ctx, "uploadSet", "")
}

// relativePaths gives the files that the input holds their paths in the
// directory.
func (u *uploadRun) relativePaths(ctx context.Context) error {
	object, err := u.inputObject(ctx)
	if err != nil {
		return err
	}
	about, err := call(ctx, u.frame.s, dom.DescribeNode, dom.DescribeNodeParams{ObjectID: object})
	if err != nil {
		return err
	}
	own, err := call(ctx, u.frame.s, dom.ResolveNode, dom.ResolveNodeParams{BackendNodeID: about.Node.BackendNodeID, ObjectGroup: objectGroup})
	if err != nil {
		return err
	}
	paths := make([]string, len(u.files))
	for i, f := range u.files {
		paths[i] = f.relative
	}
	return u.t.runOn(ctx, u.frame.s, own.Object.ObjectID, "upload_paths", nil, paths)
}

// build makes the files in the page, piece by piece, and has the function
// there take them: uploadSet for the input, uploadDrop for a drop.
func (u *uploadRun) build(ctx context.Context, name string, object runtime.RemoteObjectID, args ...any) error {
	t := u.t
	total := int64(0)
	for _, f := range u.files {
		total += f.size
		if f.dir {
			return op.Reject(op.Unsupported, "chrome_upload on tab %d cannot give a directory to the page: the browser does not let the extension read files; nothing was uploaded", t.conn.Key().TabID).
				WithHint("turn on \"Allow access to file URLs\" for the extension in chrome://extensions")
		}
	}
	tooLarge := op.Reject(op.Unsupported, "chrome_upload on tab %d: files that are built in the page may have %d MB together; these have %d; nothing was uploaded",
		t.conn.Key().TabID, maxUploadBytes>>20, (total+1<<20-1)>>20).WithHint("give fewer files; Chrome reads files of any size by itself, but for a directory, once you turn on \"Allow access to file URLs\" for the extension in chrome://extensions")
	if total > maxUploadBytes {
		return tooLarge
	}
	look, done := u.w.guard(ctx)
	defer done()
	left, sent := int64(maxUploadBytes), int64(0)
	for i, f := range u.files {
		about := map[string]any{"name": f.name, "type": f.mime, "modified": f.modified}
		err := f.parts(&left, func(data []byte) error {
			sent += int64(len(data))
			u.c.progress(int(sent), int(total), f.name)
			return t.inputFn(look, u.frame, "", "uploadPart", nil, i, about, base64.StdEncoding.EncodeToString(data))
		})
		switch {
		case errors.Is(err, errTooLarge):
			return tooLarge
		case err != nil:
			return fmt.Errorf("building the files in the page: %w", err)
		}
	}
	var res struct {
		State    string `json:"state"`
		Accepted bool   `json:"accepted"`
	}
	u.c.begin()
	u.w.inputAt()
	err := u.w.deliver(ctx, func(ctx context.Context) error { return t.inputFn(ctx, u.frame, object, name, &res, args...) })
	u.out.Built = true
	switch {
	case errors.Is(err, errDialog), u.w.gone(err):
		return nil
	case err != nil:
		return fmt.Errorf("giving the files to the page: %w", cleared(err))
	case res.State == "stale":
		return goneNode(t, u.node)
	case name == "uploadDrop":
		if !res.Accepted {
			return errNotTaken
		}
		return nil
	}
	if u.into.Directory {
		if err := u.relativePaths(look); err != nil {
			return fmt.Errorf("naming the files of the directory: %w", err)
		}
	}
	err = u.w.deliver(ctx, func(ctx context.Context) error { return t.inputFn(ctx, u.frame, "", "uploadTell", &res) })
	switch {
	case errors.Is(err, errDialog), u.w.gone(err):
		return nil
	case err != nil:
		return fmt.Errorf("telling the page of its files: %w", cleared(err))
	}
	return u.told(ctx)
}

// errNotTaken says that the page took no drop.
var errNotTaken = errors.New("the page took no drop")

// drop drops the files on the element. It reports false when the page does not
// take them: then nothing was dropped.
func (u *uploadRun) drop(ctx context.Context, object runtime.RemoteObjectID) (taken bool, err error) {
	t := u.t
	look, done := u.w.guard(ctx)
	defer done()
	u.node.boxKnown = false
	tg, err := t.aimAt(look, u.node, object, u.p)
	if err != nil {
		return false, t.staleNode(u.node, err)
	}
	if err := u.w.arm(look, u.frame); err != nil {
		return false, err
	}
	if err := t.inputFn(look, u.frame, "", "dropWatch", nil); err != nil {
		return false, err
	}
	data := &input.DragData{Items: []*input.DragDataItem{}, DragOperationsMask: 1}
	for _, f := range u.files {
		data.Files = append(data.Files, f.path)
	}
	event := func(kind input.DispatchDragEventType) error {
		return u.w.deliver(ctx, func(ctx context.Context) error {
			_, err := call(ctx, t.conn, input.DispatchDragEvent, input.DispatchDragEventParams{Type: kind, X: tg.at.x, Y: tg.at.y, Data: data})
			return err
		})
	}
	u.c.begin()
	u.w.inputAt()
	err = event(input.DispatchDragEventTypeDragEnter)
	if notAllowed(err) {
		u.c.noEffect()
		err := u.build(ctx, "uploadDrop", object, tg.ways[0].x, tg.ways[0].y)
		if errors.Is(err, errNotTaken) {
			u.out.Built = false
			return false, nil
		}
		return err == nil, err
	}
	if errors.Is(err, op.ErrNotDelivered) {
		u.c.noEffect()
		return false, fmt.Errorf("dragging the files: %w", err)
	}
	for range 2 {
		if err == nil {
			err = event(input.DispatchDragEventTypeDragOver)
		}
	}
	var seen struct {
		Accepted bool `json:"accepted"`
	}
	if err == nil {
		err = t.inputFn(look, u.frame, "", "dropSeen", &seen)
	}
	kind := input.DispatchDragEventTypeDrop
	if err != nil || !seen.Accepted {
		kind = input.DispatchDragEventTypeDragCancel
	}
	if err != nil && !errors.Is(err, errDialog) {
		_ = t.letGo(ctx, u.w, func(ctx context.Context) error {
			_, err := call(ctx, t.conn, input.DispatchDragEvent, input.DispatchDragEventParams{Type: kind, X: tg.at.x, Y: tg.at.y, Data: data})
			return err
		})
	} else if err == nil {
		err = event(kind)
	}
	if err != nil && !errors.Is(err, errDialog) && !u.w.gone(err) {
		return false, fmt.Errorf("dropping the files: %w", cleared(err))
	}
	return seen.Accepted || err != nil, nil
}

// chooser is a file chooser that the page asked for.
type chooser struct {
	frame   cdp.FrameID
	backend cdp.BackendNodeID
}

// choose clicks the element and answers the file chooser that this opens.
func (u *uploadRun) choose(ctx context.Context, object runtime.RemoteObjectID) error {
	t := u.t
	opened := make(chan chooser, 1)
	defer t.watch(func(ev op.Event) {
		if ev.Method != page.FileChooserOpened.Method {
			return
		}
		if e, ok := decode[page.EventFileChooserOpened](ev); ok {
			select {
			case opened <- chooser{e.FrameID, e.BackendNodeID}:
			default:
			}
		}
	})()
	look, done := u.w.guard(ctx)
	defer done()
	defer func() {
		off := func(ctx context.Context) error { return u.intercept(ctx, false) }
		if t.letGo(ctx, u.w, off) != nil && !u.w.over() {
			_ = t.letGo(ctx, u.w, off) // a person's own file chooser would not open
		}
	}()
	if err := u.intercept(look, true); err != nil {
		return fmt.Errorf("preparing for a file chooser: %w", err)
	}
	if _, err := t.clickObject(ctx, u.c, u.w, u.node, object, ClickIn{Button: "left", Clicks: 1}, u.p); err != nil {
		return err
	}
	if u.w.over() {
		return nil
	}
	timer := time.NewTimer(chooserLimit)
	defer timer.Stop()
	var asked chooser
	id := t.conn.Key().TabID
	select {
	case asked = <-opened:
	case <-u.w.blocked:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return op.Unknown(op.InvalidActionTarget, "%s on tab %d was clicked and opened no file chooser within %s; no file was uploaded", u.node, id, chooserLimit).
			WithHint("name the input for files itself; a snapshot shows it with [upload]").WithDetail("reason", "no-chooser").WithDetail("url", t.url())
	}
	if asked.backend == 0 {
		return op.Unknown(op.Unsupported, "%s on tab %d was clicked and asked for files with showOpenFilePicker, which takes them from a person only; no file was uploaded", u.node, id).
			WithHint("drop the files on the page's drop zone, where it has one").WithDetail("url", t.url())
	}
	f, ok := t.frameByID(asked.frame)
	if !ok {
		return op.Unknown(op.DocumentChanged, "the frame that asked for files on tab %d is gone; no file was uploaded", id).WithHint("take a snapshot and look")
	}
	u.frame = f
	chosen, err := t.resolve(look, f, asked.backend)
	if err == nil {
		err = t.inputFn(look, f, chosen, "uploadInput", &u.into)
	}
	if err != nil {
		return fmt.Errorf("answering the file chooser: %w", err)
	}
	u.out.Tag = u.into.Tag
	err = u.give(ctx)
	if e, ok := errors.AsType[*op.Error](err); ok && e.Kind == op.Rejected {
		e.Kind = op.OutcomeUnknown // the click was made
		e.Message = fmt.Sprintf("%s was clicked and opened a file chooser, which was closed again: %s", u.node, e.Message)
		return e
	}
	return err
}

// intercept has file choosers handed over instead of shown.
func (u *uploadRun) intercept(ctx context.Context, on bool) error {
	sessions := map[string]cdp.Session{"": u.t.conn, u.node.frame.session: u.node.frame.s}
	var fns []func() error
	for _, s := range sessions {
		fns = append(fns, func() error {
			_, err := call(ctx, s, page.SetInterceptFileChooserDialog, page.SetInterceptFileChooserDialogParams{Enabled: on})
			return err
		})
	}
	return together(fns...)
}

// end has the pages forget the upload.
func (u *uploadRun) end(ctx context.Context) {
	if u.w.over() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseBound)
	defer cancel()
	if err := u.t.inputFn(ctx, u.frame, "", "uploadStop", nil); err != nil {
		u.t.log.Debug("ending an upload", "error", err)
	}
	u.t.releaseTarget(ctx, u.frame)
	if u.frame.session != u.node.frame.session {
		u.t.releaseTarget(ctx, u.node.frame)
	}
}

// tell adds the lines for a reader.
func (u *uploadRun) tell() {
	o := &u.out
	o.withoutOwnValue()
	files := plural(len(o.Uploaded)+o.More, "file")
	add := func(format string, args ...any) { o.notes = append(o.notes, fmt.Sprintf(format, args...)) }
	switch o.How {
	case uploadByDrop:
		add("%s dropped", files)
	case uploadByChooser:
		add("%s given to the file chooser that the click opened", files)
	default:
		add("%s given to %s", files, u.into.Called)
	}
	if o.How != uploadByDrop && o.Holds == 0 && !u.w.over() {
		add("the page took them and emptied the input")
	}
	if o.Built {
		if u.into.Directory {
			add("the files were built in the page: the browser lists a directory for a person only")
		} else {
			add("the files were built in the page: \"Allow access to file URLs\" is off for the extension")
		}
	}
}
