package cli

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/bridge"
	"pi-chrome/bridge/wire"
	"pi-chrome/cmd/internal/install"
	"pi-chrome/driver/op"
	"pi-chrome/extension"
)

const upgradePort = 4711

// fakeProfiles are browsers that come back with another version a time after
// they were told to reload, or never.
type fakeProfiles struct {
	list     []bridge.ProfileStatus
	becomes  string        // version after a reload
	takes    time.Duration // until it is connected again; negative for never
	reloaded []string      // ids, in order
	at       map[string]time.Time
	asked    func() // before each answer; nil for nothing
}

func (f *fakeProfiles) Profiles(ctx context.Context) ([]bridge.ProfileStatus, error) {
	if ctx.Err() != nil {
		return nil, op.NotAvailable(op.DeadlineExceeded, "the time is over")
	}
	if f.asked != nil {
		f.asked()
	}
	list := slices.Clone(f.list)
	for i := range list {
		at, told := f.at[list[i].ID]
		if !told {
			continue
		}
		back := at.Add(f.takes)
		if time.Since(at) < 100*time.Millisecond {
			continue // the old worker has not ended yet
		}
		if f.takes < 0 || time.Now().Before(back) {
			list[i].Live = false
			continue
		}
		list[i].Live, list[i].Compatible, list[i].Refused = true, true, nil
		list[i].ConnectedAt, list[i].DisplayVersion = back, f.becomes
	}
	return list, nil
}

func (f *fakeProfiles) Reload(_ context.Context, id string) error {
	f.reloaded = append(f.reloaded, id)
	f.restart(id)
	return nil
}

func (f *fakeProfiles) restart(id string) {
	if f.at == nil {
		f.at = map[string]time.Time{}
	}
	f.at[id] = time.Now()
}

func connectedProfile(id, version string) bridge.ProfileStatus {
	return bridge.ProfileStatus{
		ConnectorInfo: bridge.ConnectorInfo{ID: id, Label: "label-" + id, Live: true, DisplayVersion: version, ConnectedAt: time.Now().Add(-time.Hour)},
		Compatible:    true,
	}
}

// upgradeFolder is a folder that holds this release, or one with a file of an
// older one.
func upgradeFolder(t *testing.T, old bool) install.Folder {
	t.Helper()
	f := install.Folder{Dir: filepath.Join(t.TempDir(), "extension")}
	_, err := f.Write(upgradePort)
	assert.NilError(t, err)
	if old {
		assert.NilError(t, os.WriteFile(filepath.Join(f.Dir, "relay.js"), []byte("// older\n"), 0o600))
	}
	return f
}

func runUpgrade(t *testing.T, f *fakeProfiles, u upgrade) (upgraded, error) {
	t.Helper()
	u.owner, u.port, u.note = f, upgradePort, func(string, ...any) {}
	ctx, cancel := context.WithTimeout(t.Context(), upgradeLimit)
	defer cancel()
	if err := u.checkFolder(); err != nil {
		return upgraded{}, err
	}
	return u.run(ctx)
}

func TestUpgradeReloadsAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := upgradeFolder(t, true)
		f := &fakeProfiles{list: []bridge.ProfileStatus{connectedProfile("a", "0.0.1"), connectedProfile("b", "0.0.1")}, becomes: extension.Version(), takes: 3 * time.Second}
		began := time.Now()
		r, err := runUpgrade(t, f, upgrade{folder: folder})
		assert.NilError(t, err)
		assert.DeepEqual(t, f.reloaded, []string{"a", "b"})
		assert.Assert(t, time.Since(began) >= 6*time.Second && time.Since(began) < 8*time.Second, "%s", time.Since(began))
		assert.Assert(t, r.Changed && r.Folder.Written == 1)
		for _, p := range r.Profiles {
			assert.Assert(t, p.Reloaded && p.Proved && p.Before == "0.0.1" && p.Now == extension.Version())
		}
		info, err := folder.Info()
		assert.NilError(t, err)
		assert.Assert(t, info.Equal && info.Port == upgradePort)
		assert.Assert(t, strings.Contains(r.text(), "label-a reloaded and is connected: "+extension.Version()+", before 0.0.1"), r.text())
	})
}

func TestUpgradeWithNothingToChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := upgradeFolder(t, false)
		f := &fakeProfiles{list: []bridge.ProfileStatus{connectedProfile("a", extension.Version())}, becomes: extension.Version(), takes: time.Second}
		r, err := runUpgrade(t, f, upgrade{folder: folder})
		assert.NilError(t, err)
		assert.Equal(t, len(f.reloaded), 0)
		assert.Assert(t, strings.Contains(r.text(), "nothing to change") && strings.Contains(r.text(), "--force"), r.text())

		// By force: it is reloaded, and the version proves nothing.
		began := time.Now()
		r, err = runUpgrade(t, f, upgrade{folder: folder, force: true})
		assert.Assert(t, time.Since(began) >= time.Second, "it took the old worker for the new one")
		assert.NilError(t, err)
		assert.DeepEqual(t, f.reloaded, []string{"a"})
		assert.Assert(t, r.Profiles[0].Reloaded && !r.Profiles[0].Proved)
		assert.Assert(t, strings.Contains(r.text(), "does not tell"), r.text())
	})
}

// TestUpgradeOfAnOlderWorker: the folder is right already, and the browser has
// not loaded it anew.
func TestUpgradeOfAnOlderWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeProfiles{list: []bridge.ProfileStatus{connectedProfile("a", "0.0.1"), connectedProfile("b", "0.0.1")}, becomes: extension.Version(), takes: time.Second}
		r, err := runUpgrade(t, f, upgrade{folder: upgradeFolder(t, false), only: "LABEL-B"})
		assert.NilError(t, err)
		assert.DeepEqual(t, f.reloaded, []string{"b"})
		assert.Assert(t, !r.Changed && len(r.Profiles) == 1 && r.Profiles[0].Proved)
	})
}

func TestUpgradeOfARefusedRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connectedProfile("a", "")
		p.Live, p.Compatible = false, false
		p.Refused = &bridge.RefusalRecord{Code: wire.RefuseFingerprint, DisplayVersion: "0.0.1"}
		folder := upgradeFolder(t, true)
		f := &fakeProfiles{list: []bridge.ProfileStatus{p}, becomes: extension.Version(), takes: 5 * time.Second}
		// It sees by itself that its folder has changed.
		f.asked = func() {
			if info, err := folder.Info(); err == nil && info.Equal && f.at == nil {
				f.restart("a")
			}
		}
		r, err := runUpgrade(t, f, upgrade{folder: folder})
		assert.NilError(t, err)
		assert.Equal(t, len(f.reloaded), 0)
		assert.Assert(t, r.Profiles[0].Reloaded && r.Profiles[0].Before == "0.0.1" && r.Profiles[0].Proved)

		// Another folder is loaded: it stays refused.
		f.asked, f.at = nil, nil
		_, err = runUpgrade(t, f, upgrade{folder: folder})
		assert.ErrorIs(t, err, &op.Error{Code: op.VersionMismatch})
		assert.ErrorContains(t, err, "has loaded another folder")
	})
}

func TestUpgradeFailures(t *testing.T) {
	for _, tt := range []struct {
		name    string
		list    func() []bridge.ProfileStatus
		becomes string
		takes   time.Duration
		only    string
		code    op.Code
		kind    op.Kind
		says    string
		within  time.Duration
		writes  bool // the folder is refreshed all the same
	}{
		{name: "another folder is loaded", list: one(connectedProfile), becomes: "0.0.1", takes: time.Second,
			code: op.VersionMismatch, kind: op.Rejected, says: "has loaded another folder", within: 4 * time.Second, writes: true},
		{name: "it never comes back", list: one(connectedProfile), takes: -1,
			code: op.DeadlineExceeded, kind: op.OutcomeUnknown, says: "has not connected again", within: upgradeLimit, writes: true},
		{name: "no profile is live", list: one(offlineProfile),
			code: op.ConnectorOffline, kind: op.Unavailable, says: "nothing was reloaded; the folder", within: upgradeSearch, writes: true},
		{name: "none is paired", list: func() []bridge.ProfileStatus { return nil },
			code: op.ConnectorNotBound, kind: op.Unavailable, says: "nothing was done"},
		{name: "none is called so", list: one(connectedProfile), only: "work",
			code: op.BrowserRequired, kind: op.Rejected, says: `"work"; nothing was done`},
		{name: "commands are under way", list: one(busyProfile),
			code: op.ConnectorBusy, kind: op.Rejected, says: "2 commands are under way"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				folder := upgradeFolder(t, true)
				f := &fakeProfiles{list: tt.list(), becomes: tt.becomes, takes: tt.takes}
				began := time.Now()
				_, err := runUpgrade(t, f, upgrade{folder: folder, only: tt.only})
				assert.ErrorIs(t, err, &op.Error{Code: tt.code})
				assert.Equal(t, op.AsError(err).Kind, tt.kind)
				assert.ErrorContains(t, err, tt.says)
				assert.Assert(t, op.AsError(err).Hint != "")
				assert.Assert(t, time.Since(began) <= tt.within, "%s", time.Since(began))
				info, err := folder.Info()
				assert.NilError(t, err)
				assert.Equal(t, info.Equal, tt.writes)
			})
		})
	}
}

func one(make func(id, version string) bridge.ProfileStatus) func() []bridge.ProfileStatus {
	return func() []bridge.ProfileStatus { return []bridge.ProfileStatus{make("a", "0.0.1")} }
}

func offlineProfile(id, version string) bridge.ProfileStatus {
	p := connectedProfile(id, version)
	p.Live = false
	return p
}

func busyProfile(id, version string) bridge.ProfileStatus {
	p := connectedProfile(id, version)
	p.AdmittedCount = 2
	return p
}

func TestUpgradeRefusesAFolderThatCannotBeLoaded(t *testing.T) {
	f := &fakeProfiles{list: []bridge.ProfileStatus{connectedProfile("a", "0.0.1")}}
	empty := install.Folder{Dir: t.TempDir()}
	_, err := runUpgrade(t, f, upgrade{folder: empty})
	assert.ErrorContains(t, err, "does not hold the extension; nothing was done")
	other := install.Folder{Dir: filepath.Join(t.TempDir(), "extension")}
	_, err = other.Write(upgradePort + 1)
	assert.NilError(t, err)
	_, err = runUpgrade(t, f, upgrade{folder: other})
	assert.ErrorContains(t, err, "is for port 4712 and the owner is on port 4711")
	assert.Equal(t, len(f.reloaded), 0)
	entries, err := os.ReadDir(empty.Dir)
	assert.NilError(t, err)
	assert.Equal(t, len(entries), 0)
}
