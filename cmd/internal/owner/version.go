package owner

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"pi-chrome/bridge/wire"
	"pi-chrome/cmd/internal/near"
	"pi-chrome/driver"
	"pi-chrome/driver/op"
)

// Version is the version of this program.
const Version = "0.1.0"

// Name is how this program calls itself to an owner.
const Name = "pi-chrome " + Version

// stamp is the time of a release's commit, in RFC 3339. The linker of a release
// sets it, because a release has no version control data in it.
var stamp string

// Build is when this program was built: the time of its commit, or of its file
// where it was built from a changed tree. Between equal versions the later
// build is the newer.
var Build = sync.OnceValue(func() time.Time {
	if t, err := time.Parse(time.RFC3339, stamp); err == nil {
		return t
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		settings := map[string]string{}
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
		if t, err := time.Parse(time.RFC3339, settings["vcs.time"]); err == nil && settings["vcs.modified"] == "false" {
			return t
		}
	}
	exe, err := os.Executable()
	if err != nil {
		return time.Time{}
	}
	info, err := os.Stat(exe)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime().UTC()
})

// Descriptors returns every operation in the order of surfaces. An error is a
// mistake in the source of an operation.
var Descriptors = sync.OnceValues(func() ([]op.Descriptor, error) {
	ops := driver.Operations()
	out := make([]op.Descriptor, 0, len(ops))
	for _, o := range ops {
		d, err := o.Descriptor()
		if err != nil {
			return nil, fmt.Errorf("describing the operations: %w", err)
		}
		out = append(out, d)
	}
	return out, nil
})

// Profiles are those of [op.Profiles] that have a tool.
func Profiles() []string {
	list, err := Descriptors()
	if err != nil {
		return op.Profiles // who lists the tools tells the error
	}
	return slices.DeleteFunc(slices.Clone(op.Profiles), func(p string) bool {
		return !slices.ContainsFunc(list, func(d op.Descriptor) bool { return d.Profile == p })
	})
}

// Find returns the operation with that tool name, wire name or command name.
// The error is an *op.Error of kind invalid that names what was probably meant.
func Find(name string) (op.Descriptor, error) {
	list, err := Descriptors()
	if err != nil {
		return op.Descriptor{}, err
	}
	var tools []string
	for _, d := range list {
		if d.Tool == name || d.Name == name || d.Command() == name {
			return d, nil
		}
		tools = append(tools, d.Tool)
	}
	e := &op.Error{Kind: op.Invalid, Code: op.UnknownTool, Message: fmt.Sprintf("unknown tool %q; allowed: %s", name, strings.Join(tools, ", "))}
	e = e.WithDetail("tool", name).WithHint("pi-chrome operations describes them")
	plain := strings.ReplaceAll(name, "-", "_")
	if meant := cmp.Or(near.Of(plain, tools), near.Of("chrome_"+plain, tools)); meant != "" {
		e.Hint = "did you mean " + meant + "? " + e.Hint
	}
	return op.Descriptor{}, e
}

// unknown is the error for an operation that is none.
func unknown(name string) error {
	if _, err := Find(name); err != nil {
		return err
	}
	// A command line's name of an operation that there is.
	e := op.Invalidf("unknown operation %q", name)
	e.Code = op.UnknownTool
	return e
}

// Fingerprint is of the operation list: a client with another one is of
// another release.
var Fingerprint = sync.OnceValues(func() (string, error) {
	list, err := Descriptors()
	if err != nil {
		return "", err
	}
	return wire.FingerprintOf(list)
})

// EffectOf returns the class of one call, as the owner sees it: a list of calls
// only reads where each of them does. What is not known may have an effect.
func EffectOf(operation string, input json.RawMessage) op.Effect {
	if operation == op.DoName {
		return effectOfSteps(input)
	}
	o, err := named(operation)
	if err != nil {
		return op.MayMutate
	}
	return o.EffectOf(input)
}

func effectOfSteps(input json.RawMessage) op.Effect {
	list, err := Descriptors()
	if err != nil {
		return op.MayMutate
	}
	steps, descs, err := op.CheckSteps(input, func(name string) (op.Descriptor, bool) {
		for _, d := range list {
			if d.Name == name || d.Tool == name {
				return d, true
			}
		}
		return op.Descriptor{}, false
	}, Validate)
	if err != nil {
		return op.MayMutate
	}
	for i, s := range steps {
		if EffectOf(descs[i].Name, json.RawMessage(s.Input)) != op.ReadOnly {
			return op.MayMutate
		}
	}
	return op.ReadOnly
}

// Validate checks the input of the operation with that wire name as the owner
// does, so that bad input needs no owner. The error is an *op.Error of kind
// invalid.
func Validate(operation string, raw json.RawMessage) error {
	o, err := named(operation)
	if err != nil {
		return err
	}
	return o.Validate(raw)
}

// ValidateForm checks an input whose values are not all known: against the
// schema only. Its error is that of [Validate].
func ValidateForm(operation string, raw json.RawMessage) error {
	o, err := named(operation)
	if err != nil {
		return err
	}
	return o.ValidateForm(raw)
}

// named is the operation with that wire name.
func named(operation string) (op.Operation[*driver.Call], error) {
	for _, o := range driver.Operations() {
		if o.Name() == operation {
			return o, nil
		}
	}
	return op.Operation[*driver.Call]{}, unknown(operation)
}
