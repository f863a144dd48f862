package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"pi-chrome/bridge/wire"
	"pi-chrome/cmd/internal/install"
	"pi-chrome/cmd/internal/near"
	"pi-chrome/extension"
)

func extensionCommand() *command {
	return &command{
		name: "extension", group: groupSetup, args: "install|path|info [DIR]", summary: "Write the extension's folder, or tell about it.",
		doc: "install writes the extension that this program holds into a folder, by default extension/ of the state folder, with a bridge.json that names the port (--port). " +
			"It changes only what differs and removes only files of an older release. Load the folder once: chrome://extensions, Developer mode, Load unpacked. " +
			"path prints the folder. info tells id, version, fingerprint, and whether the folder holds the same extension. Two owners need two folders.",
		prepare: func(a *app, _ *pflag.FlagSet) runFunc {
			return func(_ context.Context, args []string) (output, error) {
				actions := []string{"install", "path", "info"}
				if len(args) == 0 {
					return output{}, usageError("extension", "say what to do: %s", strings.Join(actions, ", "))
				}
				if len(args) > 2 {
					return output{}, usageError("extension", "pi-chrome extension %s takes one folder, but got %q too", args[0], args[2])
				}
				folder := install.Default(a.globals.stateDir)
				if len(args) == 2 {
					folder.Dir = absolute(a.env.Dir, args[1])
				}
				switch args[0] {
				case "install":
					return a.installExtension(folder)
				case "path":
					return output{value: map[string]any{"dir": folder.Dir}, text: folder.Dir}, nil
				case "info":
					return extensionInfo(folder)
				}
				e := usageError("extension", "%q is not something to do with the extension; allowed: %s", args[0], strings.Join(actions, ", "))
				if meant := near.Of(args[0], actions); meant != "" {
					e.Hint = "did you mean " + meant + "? " + e.Hint
				}
				return output{}, e
			}
		},
	}
}

func (a *app) installExtension(folder install.Folder) (output, error) {
	if a.globals.portNumber == 0 {
		return output{}, usageError("extension", "port is 0; an extension needs the port of its owner: 1 to 65535")
	}
	folder.Progress = a.progress
	r, err := folder.Write(a.globals.portNumber)
	if err != nil {
		return output{}, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "extension %s for port %d in %s\n", r.Version, r.Port, r.Dir)
	switch {
	case r.Written == 0 && r.Removed == 0:
		b.WriteString("nothing to change\n")
	default:
		fmt.Fprintf(&b, "%d files written, %d unchanged, %d removed\n", r.Written, r.Unchanged, r.Removed)
	}
	b.WriteString("load it once: chrome://extensions, Developer mode, Load unpacked, this folder; then pi-chrome onboard\n")
	return output{value: r, text: b.String()}, nil
}

func extensionInfo(folder install.Folder) (output, error) {
	info, err := folder.Info()
	if err != nil {
		return output{}, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "extension %s, id %s\ncontract %s\nfolder %s: ", extension.Version(), extension.ID, wire.Fingerprint(), folder.Dir)
	switch {
	case !info.Installed:
		b.WriteString("not installed; pi-chrome extension install writes it\n")
	case info.Equal:
		fmt.Fprintf(&b, "installed, equal, for port %d\n", info.Port)
	default:
		fmt.Fprintf(&b, "installed with version %s, but %d files differ; pi-chrome extension install mends it\n", info.Version, len(info.Differs))
	}
	value := map[string]any{"id": extension.ID, "version": extension.Version(), "fingerprint": wire.Fingerprint(), "folder": info}
	return output{value: value, text: b.String()}, nil
}
