package mcp

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"pi-chrome/bridge/client"
	"pi-chrome/cmd/internal/artifact"
	"pi-chrome/driver/op"
)

// The resources. Pictures have a number behind shotPrefix.
const (
	tabsURI     = "pi-chrome://tabs"
	snapshotURI = "pi-chrome://snapshot"
	shotPrefix  = "pi-chrome://screenshot/"
)

// tabsOperation lists the tabs.
const tabsOperation = "tab.list"

// Bounds of the pictures in one result. Clients put them into the model's
// context, and some refuse results of more than a few megabytes.
const (
	maxPictures     = 12
	maxPictureBytes = 8 << 20
)

// Bounds of the pictures that are kept as resources.
const (
	maxShots     = 8
	maxShotBytes = 32 << 20
)

// shots are the latest pictures of a connection, by rising number.
type shots struct {
	last int
	kept []shot
}

type shot struct {
	n int
	artifact.Picture
}

// add keeps a picture and returns its number and those that it pushed out.
func (s *shots) add(p artifact.Picture) (int, []int) {
	s.last++
	s.kept = append(s.kept, shot{s.last, p})
	size := 0
	for _, k := range s.kept {
		size += len(k.Data)
	}
	var out []int
	for len(s.kept) > 1 && (len(s.kept) > maxShots || size > maxShotBytes) {
		size -= len(s.kept[0].Data)
		out = append(out, s.kept[0].n)
		s.kept = s.kept[1:]
	}
	return s.last, out
}

func shotURI(n int) string { return shotPrefix + strconv.Itoa(n) }

// addResources adds what a client may read. What comes from a tool is there
// when the tool is.
func (f *face) addResources() {
	if _, ok := f.find(tabsOperation); ok {
		f.server.AddResource(&sdk.Resource{URI: tabsURI, Name: "tabs", Title: "Tabs", MIMEType: "application/json",
			Description: "the tabs of the browser; owned ones belong to this session"}, f.readTabs)
	}
	if _, ok := f.find(snapshotTool); ok {
		f.server.AddResource(&sdk.Resource{URI: snapshotURI, Name: "snapshot", Title: "Last snapshot", MIMEType: "text/markdown",
			Description: "the text of the latest " + snapshotTool + " of this connection"}, f.readSnapshot)
	}
}

// known refuses a subscription to what is no resource.
func (f *face) known(uri string) error {
	switch {
	case uri == tabsURI, uri == snapshotURI, strings.HasPrefix(uri, shotPrefix):
		return nil
	}
	return sdk.ResourceNotFoundError(uri)
}

func (f *face) readTabs(ctx context.Context, _ *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	d, ok := f.find(tabsOperation)
	if !ok {
		return nil, sdk.ResourceNotFoundError(tabsURI)
	}
	out, err := f.command(ctx, client.NewID(), d, []byte("{}"), nil)
	if err != nil {
		return nil, fmt.Errorf("%s", op.AsError(err).Text())
	}
	return contents(&sdk.ResourceContents{URI: tabsURI, MIMEType: "application/json", Text: string(out.Result.Value)}), nil
}

func (f *face) readSnapshot(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	f.mu.Lock()
	text := f.snapshot
	f.mu.Unlock()
	if text == "" {
		text = "No snapshot has been taken on this connection: " + snapshotTool + " takes one."
	}
	return contents(&sdk.ResourceContents{URI: snapshotURI, MIMEType: "text/markdown", Text: text}), nil
}

func contents(c *sdk.ResourceContents) *sdk.ReadResourceResult {
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{c}}
}

// keepSnapshot keeps the text of a snapshot and tells who watches it.
func (f *face) keepSnapshot(ctx context.Context, text string) {
	f.mu.Lock()
	f.snapshot = text
	f.mu.Unlock()
	// A watcher that has gone does not want to know.
	_ = f.server.ResourceUpdated(ctx, &sdk.ResourceUpdatedNotificationParams{URI: snapshotURI})
}

// keepShots makes resources of pictures; the oldest go when there are too many.
func (f *face) keepShots(pictures []artifact.Picture) {
	for _, p := range pictures {
		f.mu.Lock()
		n, gone := f.shots.add(p)
		f.mu.Unlock()
		for _, old := range gone {
			f.server.RemoveResources(shotURI(old))
		}
		size := int64(len(p.Data))
		f.server.AddResource(&sdk.Resource{URI: shotURI(n), Name: fmt.Sprintf("screenshot-%d", n), MIMEType: p.MIMEType, Size: size}, f.readShot)
	}
}

func (f *face) readShot(_ context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.shots.kept {
		if uri := shotURI(s.n); uri == req.Params.URI {
			return contents(&sdk.ResourceContents{URI: uri, MIMEType: s.MIMEType, Blob: s.Data}), nil
		}
	}
	return nil, sdk.ResourceNotFoundError(req.Params.URI)
}
