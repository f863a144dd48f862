package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// TestMCPPolicy: the policy is read before anything is served, goes only with
// --authorize, and stands in a client's configuration by its whole path.
func TestMCPPolicy(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"without --authorize", []string{"mcp", "--policy", "good.json"}, "--policy is for sessions that --authorize unlocks"},
		{"no such file", []string{"mcp", "--authorize", "--policy", "none.json"}, "the policy cannot be read"},
		{"no policy", []string{"mcp", "--authorize", "--policy", "bad.json"}, "policy"},
		{"in a configuration", []string{"mcp", "config", "zed", "--authorize", "--policy", "bad.json"}, "policy"},
	} {
		env, out, errs := testEnv(t, nil)
		assert.NilError(t, os.WriteFile(filepath.Join(env.Dir, "good.json"), []byte(`{"version":1,"readOnly":true}`), 0o600))
		assert.NilError(t, os.WriteFile(filepath.Join(env.Dir, "bad.json"), []byte(`{"version":1,"readonly":1}`), 0o600))
		assert.Equal(t, Run(t.Context(), env, c.args), exitUsage, c.name)
		assert.Equal(t, out.String(), "", c.name)
		assert.Assert(t, strings.Contains(errs.String(), c.want), "%s: %s", c.name, errs)
	}
	env, out, _ := testEnv(t, nil)
	good := filepath.Join(env.Dir, "good.json")
	assert.NilError(t, os.WriteFile(good, []byte(`{"version":1,"readOnly":true}`), 0o600))
	assert.Equal(t, Run(t.Context(), env, []string{"mcp", "config", "claude-code", "--authorize=30m", "--policy", "good.json"}), exitDone)
	assert.Assert(t, strings.Contains(out.String(), "--authorize=30m --policy="+good), out)
	o, err := (&app{env: env, stderr: env.Stderr}).mcpOptions(mcpFlags{profiles: "core", authorize: "30m", policy: good})
	assert.NilError(t, err)
	assert.Equal(t, o.Authorize.Minutes, 30)
	assert.Equal(t, string(o.Authorize.Policy), `{"version":1,"readOnly":true}`)
}
