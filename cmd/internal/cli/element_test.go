package cli

import (
	"encoding/json"
	"testing"

	"github.com/spf13/pflag"
	"gotest.tools/v3/assert"

	"pi-chrome/cmd/internal/owner"
)

// TestElementsAreWrittenShort: an element is a ref, HOW=VALUE, or JSON.
func TestElementsAreWrittenShort(t *testing.T) {
	desc, err := owner.Find("inspect")
	assert.NilError(t, err)
	for _, tt := range []struct{ arg, want string }{
		{"el-3", `{"element":{"by":"uid","value":"el-3"}}`},
		{"@el-3", `{"element":{"by":"uid","value":"@el-3"}}`},
		{"uid=el-3", `{"element":{"by":"uid","value":"el-3"}}`},
		{"selector=a[href=x]", `{"element":{"by":"selector","value":"a[href=x]"}}`},
		{"label=Email", `{"element":{"by":"find","label":"Email"}}`},
		{`{"by":"find","role":"button","name":"Save","index":1}`, `{"element":{"by":"find","index":1,"name":"Save","role":"button"}}`},
	} {
		in := newInput(desc)
		set := pflag.NewFlagSet("test", pflag.ContinueOnError)
		in.register(set)
		assert.NilError(t, in.positional([]string{tt.arg}, nil), tt.arg)
		raw, err := in.build()
		assert.NilError(t, err)
		assert.Equal(t, string(raw), tt.want)
		assert.NilError(t, owner.Validate(desc.Name, raw), tt.arg)
	}
	for _, bad := range []string{"Save", "index=1", "by=find", `{"by":`} {
		in := newInput(desc)
		set := pflag.NewFlagSet("test", pflag.ContinueOnError)
		in.register(set)
		assert.Assert(t, in.positional([]string{bad}, nil) != nil, bad)
	}
}

// TestPointsAreWrittenShort: a point is coordinate=X,Y.
func TestPointsAreWrittenShort(t *testing.T) {
	desc, err := owner.Find("drag")
	assert.NilError(t, err)
	parse := func(args ...string) (json.RawMessage, error) {
		in := newInput(desc)
		set := pflag.NewFlagSet("test", pflag.ContinueOnError)
		in.register(set)
		if err := set.Parse(args); err != nil {
			return nil, err
		}
		return in.build()
	}
	raw, err := parse("--from", "el-1", "--to", "coordinate=300,-12.5")
	assert.NilError(t, err)
	assert.Equal(t, string(raw), `{"from":{"by":"uid","value":"el-1"},"to":{"by":"coordinate","x":300,"y":-12.5}}`)
	assert.NilError(t, owner.Validate(desc.Name, raw))
	for _, bad := range []string{"coordinate=", "coordinate=1", "coordinate=a,b", "coordinate=1,2,3"} {
		_, err := parse("--from", bad)
		assert.ErrorContains(t, err, "a point is X,Y", bad)
	}
}

func TestStepsAreJSON(t *testing.T) {
	desc, err := owner.Find("do")
	assert.NilError(t, err)
	in := newInput(desc)
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	in.register(set)
	assert.NilError(t, in.positional([]string{`[{"tool":"chrome_snapshot"},{"tool":"click","input":{"ref":"el-1"}}]`}, nil))
	raw, err := in.build()
	assert.NilError(t, err)
	var got struct{ Steps []struct{ Tool string } }
	assert.NilError(t, json.Unmarshal(raw, &got))
	assert.Equal(t, len(got.Steps), 2)
	assert.NilError(t, owner.Validate(desc.Name, raw))
}
