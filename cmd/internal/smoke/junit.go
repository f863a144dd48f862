package smoke

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitFailure `xml:"failure,omitempty"`
	Skipped *struct{}     `xml:"skipped,omitempty"`
	Out     string        `xml:"system-out,omitempty"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes the reports as CI systems read them: a suite a browser, a
// case a step.
func WriteJUnit(w io.Writer, reports []Report) error {
	all := junitSuites{Name: "pi-chrome smoke"}
	for _, r := range reports {
		name := r.Browser
		if r.Product != "" {
			name = r.Product + " (" + r.Browser + ")"
		}
		suite := junitSuite{Name: name, Tests: len(r.Steps), Time: seconds(r.ElapsedMs)}
		for _, s := range r.Steps {
			c := junitCase{Class: "pi-chrome.smoke", Name: fmt.Sprintf("%02d %s", s.Number, s.Name), Time: seconds(s.ElapsedMs), Out: strings.Join(s.Proved, "\n")}
			switch {
			case s.Failure != nil:
				f := s.Failure
				lines := append([]string{"while " + f.While, f.Message}, evidenceOf(f)...)
				c.Failure = &junitFailure{Message: one(f.Message), Text: strings.Join(lines, "\n")}
				suite.Failures++
			case s.State == NotRun:
				c.Skipped = &struct{}{}
				suite.Skipped++
			}
			suite.Cases = append(suite.Cases, c)
		}
		all.Tests += suite.Tests
		all.Failures += suite.Failures
		all.Suites = append(all.Suites, suite)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(all); err != nil {
		return fmt.Errorf("encoding the report: %w", err)
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func seconds(ms int64) string { return fmt.Sprintf("%.3f", float64(ms)/1000) }

// evidenceOf lists what was kept of a failure.
func evidenceOf(f *Failure) []string {
	var lines []string
	for _, p := range f.Pictures {
		lines = append(lines, "picture "+p)
	}
	if f.Trace != "" {
		lines = append(lines, "trace "+f.Trace)
	}
	if f.Tabs != "" {
		lines = append(lines, "trace "+f.Tabs)
	}
	if f.Log != "" {
		lines = append(lines, "log "+f.Log)
	}
	return lines
}
