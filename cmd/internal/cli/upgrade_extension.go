package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"pi-chrome/bridge"
	"pi-chrome/bridge/client"
	"pi-chrome/cmd/internal/install"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/op"
)

func upgradeExtensionCommand() *command {
	return &command{
		name: "upgrade-extension", group: groupSetup, args: "[--folder DIR] [--force] [PROFILE]", summary: "Refresh the extension's folder and have the browsers load it anew.",
		doc: "Use it after pi-chrome itself was updated: no visit to chrome://extensions is needed. It writes what differs in the folder, has the extension of each connected profile " +
			"(or of PROFILE, by label or id) start again from its folder, and waits until it is connected with the release of this program (--timeout, default 45s). " +
			"Tabs and pairings stay; a profile with commands under way is refused. A profile whose extension is refused as one of another release starts it anew by itself once the folder is right. " +
			"Where neither folder nor browser is behind, nothing is done; --force reloads all the same.",
		prepare: func(a *app, set *pflag.FlagSet) runFunc {
			dir := set.String("folder", "", "`folder` that the browser has loaded (default extension/ of the state folder)")
			force := set.Bool("force", false, "reload even where nothing is to change")
			return func(ctx context.Context, args []string) (output, error) {
				if len(args) > 1 {
					return output{}, usageError("upgrade-extension", "pi-chrome upgrade-extension takes one profile, but got %q too", args[1])
				}
				folder := install.Default(a.globals.stateDir)
				folder.Progress = a.progress
				if *dir != "" {
					folder.Dir = absolute(a.env.Dir, *dir)
				}
				u := upgrade{folder: folder, port: a.globals.portNumber, only: strings.Join(args, ""), force: *force, note: a.note}
				if u.only == "" {
					u.only = a.globals.browser
				}
				// What can be refused without an owner starts none.
				if err := u.checkFolder(); err != nil {
					return output{}, err
				}
				ctx, cancel := a.bounded(ctx, upgradeLimit)
				defer cancel()
				c, err := a.dial(ctx)
				if err != nil {
					return output{}, err
				}
				defer c.Close()
				u.owner = upgradeOwner{client: c, session: a.globals.session}
				r, err := u.run(ctx)
				if err != nil {
					return output{}, err
				}
				return output{value: r, text: r.text()}, nil
			}
		},
	}
}

const (
	upgradeLimit = 45 * time.Second
	// upgradeSearch is how long a profile may take to be there: an owner that
	// was just started has none yet.
	upgradeSearch = 10 * time.Second
	upgradePoll   = 200 * time.Millisecond
	// upgradeSettle is how long a connection of another release is taken for
	// one that the old worker made before it ended.
	upgradeSettle = 2 * time.Second
)

// upgraded is what was done.
type upgraded struct {
	Folder   install.Report    `json:"folder"`
	Changed  bool              `json:"changed"` // of the folder
	Profiles []upgradedProfile `json:"profiles"`
}

type upgradedProfile struct {
	ID     string `json:"id"`
	Label  string `json:"label"`
	Before string `json:"before"` // version that was connected, or refused
	Now    string `json:"now"`
	// Reloaded is false where nothing was to change.
	Reloaded bool `json:"reloaded"`
	// Proved is whether the version tells that the folder is the one that the
	// browser has loaded: it does where it has changed.
	Proved bool `json:"proved"`
}

func (u upgraded) text() string {
	var b strings.Builder
	if u.Changed {
		fmt.Fprintf(&b, "extension %s in %s: %d files written, %d removed\n", u.Folder.Version, u.Folder.Dir, u.Folder.Written, u.Folder.Removed)
	} else {
		fmt.Fprintf(&b, "extension %s in %s: nothing to change\n", u.Folder.Version, u.Folder.Dir)
	}
	for _, p := range u.Profiles {
		switch {
		case !p.Reloaded:
			fmt.Fprintf(&b, "%s runs %s: nothing to change; --force reloads it all the same\n", p.Label, p.Now)
		case p.Proved:
			fmt.Fprintf(&b, "%s reloaded and is connected: %s, before %s\n", p.Label, p.Now, p.Before)
		default:
			fmt.Fprintf(&b, "%s reloaded and is connected: %s as before, so the version does not tell whether this is the folder that it has loaded\n", p.Label, p.Now)
		}
	}
	return b.String()
}

// upgradeBridge is what an upgrade asks of the owner.
type upgradeBridge interface {
	Profiles(ctx context.Context) ([]bridge.ProfileStatus, error)
	Reload(ctx context.Context, profile string) error
}

type upgradeOwner struct {
	client  *client.Client
	session string
}

func (o upgradeOwner) Profiles(ctx context.Context) ([]bridge.ProfileStatus, error) {
	st, err := owner.Status(ctx, o.client, o.session)
	return st.Profiles, err
}

func (o upgradeOwner) Reload(ctx context.Context, profile string) error {
	_, err := owner.ReloadExtension(ctx, o.client, profile)
	return err
}

type upgrade struct {
	owner  upgradeBridge
	folder install.Folder
	port   int    // of the owner
	only   string // label or id of a profile; "" for all
	force  bool
	note   func(format string, args ...any)
}

// checkFolder refuses a folder that cannot be the one that a profile of this
// owner has loaded.
func (u upgrade) checkFolder() error {
	info, err := u.folder.Info()
	if err != nil {
		return err
	}
	if !info.Installed {
		return op.Reject(op.InvalidInput, "the folder %s does not hold the extension; nothing was done", u.folder.Dir).
			WithDetail("dir", u.folder.Dir).WithHint("name the folder that chrome://extensions shows: pi-chrome upgrade-extension --folder DIR; pi-chrome onboard sets up the first one")
	}
	if info.Port != u.port {
		return op.Reject(op.InvalidInput, "the folder %s is for port %d and the owner is on port %d, so it is not the folder that a browser of this owner has loaded; nothing was done", u.folder.Dir, info.Port, u.port).
			WithDetail("dir", u.folder.Dir).WithHint("give the port with --port %d, or the right folder with --folder", info.Port)
	}
	return nil
}

func (u upgrade) run(ctx context.Context) (upgraded, error) {
	var r upgraded
	targets, err := u.targets(ctx)
	if err != nil {
		return r, err
	}
	if r.Folder, err = u.folder.Write(u.port); err != nil {
		return r, err
	}
	r.Changed = r.Folder.Written > 0 || r.Folder.Removed > 0
	if len(targets) == 0 {
		state := "held this release already"
		if r.Changed {
			state = "was refreshed"
		}
		return r, op.NotAvailable(op.ConnectorOffline, "no paired browser is connected, so nothing was reloaded; the folder %s %s", u.folder.Dir, state).
			WithDetail("folderChanged", r.Changed).WithHint("open the browser: it loads the folder anew when it starts; pi-chrome doctor says why one that is open is not connected")
	}
	for _, p := range targets {
		done := upgradedProfile{ID: p.ID, Label: p.Label, Before: p.DisplayVersion, Now: p.DisplayVersion}
		if refused(p) {
			done.Before = p.Refused.DisplayVersion
		} else if !r.Changed && p.DisplayVersion == r.Folder.Version && !u.force {
			r.Profiles = append(r.Profiles, done)
			continue
		} else if err := u.owner.Reload(ctx, p.ID); err != nil {
			return r, err
		}
		u.note("waiting for the extension of %q", p.Label)
		now, err := u.connected(ctx, p, r.Folder.Version)
		if err != nil {
			return r, err
		}
		done.Now, done.Reloaded, done.Proved = now, true, now != done.Before
		r.Profiles = append(r.Profiles, done)
	}
	return r, nil
}

// refused is whether the extension is there and of another release: then the
// owner cannot reach it, and it reloads by itself when its folder is replaced.
func refused(p bridge.ProfileStatus) bool { return !p.Live && !p.Compatible && p.Refused != nil }

// targets waits until a profile is there, and returns those to reload. None
// came in time: an empty list.
func (u upgrade) targets(ctx context.Context) ([]bridge.ProfileStatus, error) {
	ticks := time.NewTicker(upgradePoll)
	defer ticks.Stop()
	limit := time.NewTimer(upgradeSearch)
	defer limit.Stop()
	for told := false; ; {
		all, err := u.owner.Profiles(ctx)
		if err != nil {
			return nil, err
		}
		if len(all) == 0 {
			return nil, op.NotAvailable(op.ConnectorNotBound, "no browser profile is paired; nothing was done").WithHint("pi-chrome onboard pairs one")
		}
		var hits, there []bridge.ProfileStatus
		for _, p := range all {
			if u.only != "" && p.ID != u.only && !strings.EqualFold(p.Label, u.only) {
				continue
			}
			hits = append(hits, p)
			if p.Live || refused(p) {
				there = append(there, p)
			}
		}
		if len(hits) == 0 {
			return nil, op.Reject(op.BrowserRequired, "no paired browser is called %q; nothing was done", u.only).WithHint("pi-chrome status lists them")
		}
		for _, p := range there {
			if p.AdmittedCount > 0 {
				return nil, op.Reject(op.ConnectorBusy, "%d commands are under way in %q, and a reload would cut them off; nothing was done", p.AdmittedCount, p.Label).
					WithHint("wait for them or revoke their sessions, and try again")
			}
		}
		if len(there) > 0 {
			return there, nil
		}
		if !told {
			u.note("waiting for a paired browser")
			told = true
		}
		select {
		case <-ticks.C:
		case <-limit.C:
			return nil, nil
		case <-ctx.Done():
			return nil, op.NotAvailable(op.ConnectorOffline, "no paired browser was connected in time; nothing was done").
				WithHint("open the browser, or give more time with --timeout").WithCause(ctx.Err())
		}
	}
}

// connected waits for the connection after before's and returns its version.
func (u upgrade) connected(ctx context.Context, before bridge.ProfileStatus, want string) (string, error) {
	ticks := time.NewTicker(upgradePoll)
	defer ticks.Stop()
	var other, since time.Time // a connection of another release: when it was made, and first seen
	for {
		all, err := u.owner.Profiles(ctx)
		if err != nil && ctx.Err() == nil {
			return "", op.Unknown(op.AsError(err).Code, "the extension of %q was told to reload, and the owner no longer says whether it came back: %s", before.Label, err).
				WithHint("look at pi-chrome status")
		}
		for _, p := range all {
			if p.ID != before.ID || !p.Live || p.ConnectedAt.Equal(before.ConnectedAt) {
				continue
			}
			if p.DisplayVersion == want {
				return want, nil
			}
			if !p.ConnectedAt.Equal(other) {
				other, since = p.ConnectedAt, time.Now()
			}
			if time.Since(since) >= upgradeSettle {
				return "", u.elsewhere(before, p.DisplayVersion, want)
			}
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			if refused(before) {
				return "", u.elsewhere(before, before.Refused.DisplayVersion, want)
			}
			return "", op.Unknown(op.DeadlineExceeded, "the extension of %q was told to reload and has not connected again", before.Label).WithCause(ctx.Err()).
				WithHint("look in chrome://extensions whether Developer mode is on, without which Chrome leaves it off, whether it is switched on and whether errors are shown there; pi-chrome status says when it is back")
		}
	}
}

// elsewhere is the error of a profile that still runs another release although
// the folder is right.
func (u upgrade) elsewhere(p bridge.ProfileStatus, has, want string) error {
	return op.Reject(op.VersionMismatch, "%q still runs extension %s although %s holds %s: the browser has loaded another folder", p.Label, has, u.folder.Dir, want).
		WithDetail("dir", u.folder.Dir).WithDetail("version", has).
		WithHint("chrome://extensions names the folder under Loaded from; repeat with --folder and that one, or load this one there")
}
