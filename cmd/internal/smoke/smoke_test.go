package smoke_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"image/png"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"gotest.tools/v3/assert"

	"pi-chrome/cmd/internal/cli"
	"pi-chrome/cmd/internal/owner"
	"pi-chrome/cmd/internal/smoke"
	"pi-chrome/fixtures"
)

// The binary of the tests is the owner too.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"pi-chrome": func() { os.Exit(cli.Main()) }})
}

func try(t *testing.T, o smoke.Options) smoke.Report {
	t.Helper()
	exe, err := owner.Executable()
	assert.NilError(t, err)
	o.Executable, o.Dir = exe, t.ArtifactDir()
	o.End = func(s smoke.Step) {
		t.Logf("%2d %s: %s, %d ms", s.Number, s.Name, s.State, s.ElapsedMs)
		for _, line := range s.Proved {
			t.Log("     " + line)
		}
		if s.Failure != nil {
			t.Logf("     failed while %s: %s", s.Failure.While, s.Failure.Message)
		}
	}
	report, err := smoke.Run(t.Context(), o)
	assert.NilError(t, err)
	return report
}

// TestRealBrowserPasses tries the browser of the tests: every step passes and
// says what it proved.
func TestRealBrowserPasses(t *testing.T) {
	t.Parallel()
	report := try(t, smoke.Options{})
	assert.Assert(t, report.Passed)
	for _, s := range report.Steps {
		assert.Check(t, s.State == smoke.Passed && len(s.Proved) > 0, "%+v", s)
	}
	var junit bytes.Buffer
	assert.NilError(t, smoke.WriteJUnit(&junit, []smoke.Report{report}))
	suites := parseJUnit(t, junit.Bytes())
	assert.Equal(t, suites.Tests, len(report.Steps))
	assert.Equal(t, suites.Failures, 0)
	assert.Check(t, strings.Contains(suites.Suites[0].Name, "Chrome/"), suites.Suites[0].Name)
}

// TestRealFailureIsShown counts a click that nobody made, as a page that was
// clicked twice would: the step fails, keeps what shows how things stood, and
// nothing after it is run.
func TestRealFailureIsShown(t *testing.T) {
	t.Parallel()
	report := try(t, smoke.Break(smoke.Options{}, "click", func(_ *fixtures.Server, base string) error {
		res, err := http.Post(base+"/count/clicked/hit", "", nil)
		if err != nil {
			return err
		}
		return res.Body.Close()
	}))
	assert.Assert(t, !report.Passed)
	var failed smoke.Step
	after := 0
	for _, s := range report.Steps {
		switch {
		case s.State == smoke.Failed:
			failed = s
		case failed.Number == 0:
			assert.Equal(t, s.State, smoke.Passed, s.Name)
		default:
			assert.Equal(t, s.State, smoke.NotRun, s.Name)
			after++
		}
	}
	assert.Equal(t, failed.Name, "click")
	assert.Assert(t, after > 3)
	f := failed.Failure
	assert.Check(t, strings.HasPrefix(f.While, "clicking @el-") || strings.HasPrefix(f.While, "clicking el-"), f.While)
	assert.Equal(t, f.Message, "the server counted 2 clicks, not 1")

	t.Run("pictures", func(t *testing.T) {
		assert.Assert(t, len(f.Pictures) >= 2, "%v", f.Pictures)
		for _, name := range f.Pictures {
			file, err := os.Open(name)
			assert.NilError(t, err)
			shot, err := png.Decode(file)
			assert.Check(t, err)
			assert.NilError(t, file.Close())
			assert.Check(t, shot.Bounds().Dx() > 400, name)
		}
	})
	t.Run("traces", func(t *testing.T) {
		for name, want := range map[string]string{f.Trace: `"mouseReleased"`, f.Tabs: "Input.dispatchMouseEvent"} {
			data, err := os.ReadFile(name)
			assert.NilError(t, err)
			assert.Check(t, bytes.Contains(data, []byte(want)), name)
			for line := range bytes.Lines(data) {
				assert.Assert(t, json.Valid(line), "%s: %s", name, line)
			}
		}
		log, err := os.ReadFile(f.Log)
		assert.NilError(t, err)
		assert.Check(t, bytes.Contains(log, []byte("msg=connected")))
	})
	t.Run("JUnit", func(t *testing.T) {
		var junit bytes.Buffer
		assert.NilError(t, smoke.WriteJUnit(&junit, []smoke.Report{report}))
		suites := parseJUnit(t, junit.Bytes())
		assert.Equal(t, suites.Failures, 1)
		assert.Equal(t, suites.Suites[0].Skipped, after)
		assert.Equal(t, suites.Suites[0].Cases[failed.Number-1].Failure.Message, f.Message)
	})
}

type suites struct {
	Tests    int `xml:"tests,attr"`
	Failures int `xml:"failures,attr"`
	Suites   []struct {
		Name    string `xml:"name,attr"`
		Skipped int    `xml:"skipped,attr"`
		Cases   []struct {
			Failure struct {
				Message string `xml:"message,attr"`
			} `xml:"failure"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

func parseJUnit(t *testing.T, data []byte) suites {
	t.Helper()
	var s suites
	assert.NilError(t, xml.Unmarshal(data, &s), string(data))
	assert.Equal(t, len(s.Suites), 1)
	return s
}
