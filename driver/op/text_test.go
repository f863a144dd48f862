package op

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"gotest.tools/v3/assert"
)

func TestCleanJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":"b"}`:                       `{"a":"b"}`,
		`"\ud800x"`:                       `"\ufffdx"`,
		`"\uD83D\uDE00"`:                  `"\uD83D\uDE00"`,
		`"\uDE00\uD83D"`:                  `"\ufffd\ufffd"`,
		`"\\ud800"`:                       `"\\ud800"`,
		`"\\\ud800"`:                      `"\\\ufffd"`,
		`"\ud83d\ud83d\ude00"`:            `"\ufffd\ud83d\ude00"`,
		`"\ud83d`:                         `"\ufffd`,
		`"\n\u0041\`:                      `"\n\u0041\`,
		"\"\xff\"":                        "\"\uFFFD\"",
		`"\u12"`:                          `"\u12"`,
		"\"\xed\xa0\x80\" and \"\u00e4\"": "\"\uFFFD\" and \"\u00e4\"",
	} {
		assert.Equal(t, string(CleanJSON([]byte(in))), want)
	}
}

func FuzzCleanJSON(f *testing.F) {
	for _, seed := range []string{`"\ud800"`, `{"a":"\uD83D\uDE00"}`, "\"\xff\\ud8\"", `"\\\\ud800\ud8"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		valid := json.Valid(b)
		got := CleanJSON(append([]byte(nil), b...))
		assert.Assert(t, utf8.Valid(got))
		if valid && utf8.Valid(b) {
			assert.Assert(t, json.Valid(got))
			assert.Equal(t, len(got), len(b))
		}
		assert.Equal(t, string(CleanJSON(append([]byte(nil), got...))), string(got))
	})
}
