package owner

import (
	"encoding/json"
	"testing"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

func TestEffectOf(t *testing.T) {
	for _, c := range []struct {
		operation, input string
		want             op.Effect
	}{
		{"page.snapshot", `{}`, op.ReadOnly},
		{"page.evaluate", `{"expression":"1"}`, op.MayMutate},
		{"page.wait", `{"condition":{"by":"text","value":"x"}}`, op.ReadOnly},
		{"page.wait", `{"condition":{"by":"expression","value":"x"}}`, op.MayMutate},
		{"do", `{"steps":[{"tool":"chrome_snapshot"},{"tool":"chrome_read","input":{}}]}`, op.ReadOnly},
		{"do", `{"steps":[{"tool":"chrome_snapshot"},{"tool":"chrome_evaluate","input":{"expression":"1"}}]}`, op.MayMutate},
		{"do", `{"steps":[{"tool":"chrome_nothing"}]}`, op.MayMutate},
		{"page.nothing", `{}`, op.MayMutate},
	} {
		assert.Equal(t, EffectOf(c.operation, json.RawMessage(c.input)), c.want, "%s %s", c.operation, c.input)
	}
}
