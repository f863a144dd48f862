package bridge

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/op"
)

// readMetrics reads the text format strictly: each family has its head once and
// before its samples, no series comes twice, and histograms add up. It returns
// the samples by name and labels.
func readMetrics(text string) (map[string]float64, error) {
	head := regexp.MustCompile(`^# (HELP|TYPE) ([a-z_]+) (.+)$`)
	sample := regexp.MustCompile(`^([a-z_]+)(\{[a-z]+="(?:[^"\\\n]|\\["\\n])*"(?:,[a-z]+="(?:[^"\\\n]|\\["\\n])*")*\})? (\S+)$`)
	if !strings.HasSuffix(text, "\n") {
		return nil, fmt.Errorf("the last line has no end")
	}
	kinds, samples := map[string]string{}, map[string]float64{}
	family, helped := "", ""
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		bad := func(why string) (map[string]float64, error) {
			return nil, fmt.Errorf("line %d, %q: %s", i+1, line, why)
		}
		if m := head.FindStringSubmatch(line); m != nil {
			switch {
			case m[1] == "HELP" && kinds[m[2]] == "":
				helped = m[2]
			case m[1] == "TYPE" && helped == m[2] && kinds[m[2]] == "" && slices.Contains([]string{"counter", "gauge", "histogram"}, m[3]):
				family, kinds[m[2]] = m[2], m[3]
			default:
				return bad("a head out of place")
			}
			continue
		}
		m := sample.FindStringSubmatch(line)
		if m == nil {
			return bad("no sample")
		}
		name := m[1]
		if kinds[family] == "histogram" {
			name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
		}
		if name != family || helped != family {
			return bad("not of the family before it")
		}
		if kinds[family] == "counter" != strings.HasSuffix(family, "_total") {
			return bad("only counters end in _total")
		}
		v, err := strconv.ParseFloat(m[3], 64)
		if err != nil || v < 0 {
			return bad("no number that it can be")
		}
		if _, twice := samples[m[1]+m[2]]; twice {
			return bad("a series twice")
		}
		samples[m[1]+m[2]] = v
		if strings.Contains(m[2], `le="+Inf"`) {
			labels := strings.Replace(strings.Replace(m[2], `,le="+Inf"`, "", 1), `{le="+Inf"}`, "", 1)
			defer func() {
				if samples[name+"_count"+labels] != v {
					panic(fmt.Sprintf("%s%s: the last bucket is not the count", name, labels))
				}
			}()
		}
	}
	return samples, nil
}

func mustRead(t *testing.T, s *Server) map[string]float64 {
	t.Helper()
	m, err := readMetrics(string(s.metricsText()))
	assert.NilError(t, err)
	return m
}

// TestMetricsReaderIsStrict: the reader that the other tests trust refuses what
// a scraper would.
func TestMetricsReaderIsStrict(t *testing.T) {
	const good = "# HELP a_total b\n# TYPE a_total counter\na_total{x=\"1\"} 2\n"
	_, err := readMetrics(good)
	assert.NilError(t, err)
	for name, bad := range map[string]string{
		"no end":           strings.TrimSuffix(good, "\n"),
		"twice":            good + "a_total{x=\"1\"} 2\n",
		"no head":          good + "b 1\n",
		"an open quote":    good + "a_total{x=\"1} 2\n",
		"a raw quote":      good + "a_total{x=\"\"\"} 2\n",
		"no number":        good + "a_total{x=\"3\"} two\n",
		"another kind":     strings.Replace(good, " counter", " number", 1),
		"a gauge that is":  strings.Replace(good, " counter", " gauge", 1),
		"a head too often": good + good,
		"an empty line":    good + "\n",
	} {
		_, err := readMetrics(bad)
		assert.Assert(t, err != nil, name)
	}
}

func TestMetricsMove(t *testing.T) {
	withProgram(t, func(t *testing.T, r *rig, p *program) {
		before := mustRead(t, r.srv)
		assert.Equal(t, before[`pi_chrome_clients`], 1.0)
		assert.Equal(t, before[`pi_chrome_commands_total{operation="page.click",outcome="ok"}`], 0.0)

		wantOK(t, p.do(cmd("1", "page.click", `{}`)))
		wantOK(t, p.do(cmd("2", "page.click", `{}`)))
		wantError(t, p.do(cmd("3", "page.click", `{"bad":1}`)), op.Invalid, op.InvalidInput)
		wantError(t, p.do(by("mcp:secret-name", cmd("4", "page.click", `{}`))), op.Rejected, op.SessionLocked)
		wantError(t, p.do(cmd("5", "page.nonsense-of-a-caller", `{}`)), op.Invalid, op.UnknownTool)
		r.handler.run = func(ctx context.Context, _ *Call) (op.Result, error) {
			time.Sleep(3 * time.Second)
			return op.Result{}, nil
		}
		p.send(cmd("6", "page.click", `{}`))
		p.send(cmd("7", "page.click", `{}`))
		time.Sleep(time.Second)
		busy := mustRead(t, r.srv)
		profile := profileLabel(r.browser.id)
		assert.Equal(t, busy[`pi_chrome_queue_commands{profile="`+profile+`",state="executing"}`], 1.0)
		assert.Equal(t, busy[`pi_chrome_queue_commands{profile="`+profile+`",state="queued"}`], 1.0)
		assert.Equal(t, busy[`pi_chrome_lane_waiting{profile="`+profile+`"}`], 1.0)
		wantOK(t, p.wait("6", 1))
		wantOK(t, p.wait("7", 1))

		m := mustRead(t, r.srv)
		for series, want := range map[string]float64{
			`pi_chrome_commands_total{operation="page.click",outcome="ok"}`:         4,
			`pi_chrome_commands_total{operation="page.click",outcome="invalid"}`:    1,
			`pi_chrome_commands_total{operation="page.click",outcome="rejected"}`:   1,
			`pi_chrome_commands_total{operation="unknown",outcome="invalid"}`:       1,
			`pi_chrome_command_errors_total{kind="rejected",code="session-locked"}`: 1,
			`pi_chrome_command_seconds_count{operation="page.click"}`:               4,
			`pi_chrome_command_seconds_sum{operation="page.click"}`:                 9, // 3 s, and 6 s with the wait
			`pi_chrome_command_seconds_bucket{operation="page.click",le="2.5"}`:     2,
			`pi_chrome_command_seconds_bucket{operation="page.click",le="5"}`:       3,
			`pi_chrome_command_wait_seconds_sum`:                                    3,
			`pi_chrome_journal_write_seconds_count`:                                 8, // two a command
			`pi_chrome_journal_errors_total`:                                        0,
			`pi_chrome_session_tabs{state="owned"}`:                                 1,
			`pi_chrome_sessions{authorization="indefinite"}`:                        1,
			`pi_chrome_sessions{authorization="locked"}`:                            1,
			`pi_chrome_queue_commands{profile="` + profile + `",state="executing"}`: 0,
			`pi_chrome_owner_info{version="1.0.0"}`:                                 1,
		} {
			assert.Equal(t, m[series], want, series)
		}
		assert.Assert(t, m[`pi_chrome_audit_lines_total`] >= 5)

		// A disk that takes no journal.
		assert.NilError(t, r.srv.store.db.Close())
		assert.Assert(t, r.srv.store.begin(journalEntry{ID: "8"}) != nil)
		assert.Equal(t, mustRead(t, r.srv)[`pi_chrome_journal_errors_total`], 1.0)
		text := string(r.srv.metricsText())
		for _, private := range []string{"secret-name", "nonsense", "default", r.browser.id, "Work", r.secret, "test"} {
			assert.Assert(t, !strings.Contains(text, private), private)
		}
	})
}

// TestMetricsOfARelay: connections, resets, leases and loops.
func TestMetricsOfARelay(t *testing.T) {
	ownership(t, func(t *testing.T, o *owners) {
		m := o.relay.meter
		assert.Equal(t, m.resets.value("first", ""), uint64(1))
		assert.NilError(t, o.tab(1).Attach(t.Context()))
		synctest.Wait() // for the turns to be noted
		assert.Equal(t, m.attaches.value("attached", ""), uint64(1))
		assert.Assert(t, m.readLoop.turns.Load() > 0 && m.tabLoop.turns.Load() > 0 && m.hookLoop.turns.Load() > 0)
		assert.Equal(t, m.readLoop.running.Load(), int64(1))
	})
}

// TestSeriesAreBounded: whatever the labels are, their number is.
func TestSeriesAreBounded(t *testing.T) {
	m := &meter{}
	for i := range 2 * maxSeries {
		m.commands.add(fmt.Sprint(i), "ok")
		m.took.observe(fmt.Sprint(i), time.Second)
	}
	assert.Equal(t, len(m.commands.all()), maxSeries+1)
	assert.Equal(t, m.commands.value("other", "other"), uint64(maxSeries))
	assert.Equal(t, len(m.took.all()), maxSeries+1)
}

// TestMetricsWantTheirToken: not even the owner credential opens them, and the
// file that does is the user's only.
func TestMetricsWantTheirToken(t *testing.T) {
	dir := t.TempDir()
	_, addr := serve(t, Options{StateDir: dir})
	raw, err := os.ReadFile(filepath.Join(dir, metricsFile))
	assert.NilError(t, err)
	info, err := os.Stat(filepath.Join(dir, metricsFile))
	assert.NilError(t, err)
	assert.Equal(t, info.Mode().Perm(), os.FileMode(0o600))
	token := strings.TrimSpace(string(raw))
	secret, err := LoadCredential(dir)
	assert.NilError(t, err)
	for _, wrong := range []string{"", "Bearer", "Bearer ", "Bearer " + secret, "Basic " + token, "Bearer " + token[1:], "Bearer  " + token} {
		status, body := get(t, "GET", addr, "/metrics", http.Header{"Authorization": {wrong}}, "")
		assert.Equal(t, status, http.StatusUnauthorized, wrong)
		assert.Assert(t, !strings.Contains(body, "pi_chrome_") && !strings.Contains(body, token))
	}
	status, body := get(t, "GET", addr, "/metrics", http.Header{"Authorization": {"Bearer " + token}}, "")
	assert.Equal(t, status, http.StatusOK)
	m, err := readMetrics(body)
	assert.NilError(t, err)
	assert.Equal(t, m["pi_chrome_audit_lines_total"], 1.0) // that it started
	assert.Assert(t, len(slices.Collect(maps.Keys(m))) > 20)
	assert.Assert(t, !strings.Contains(body, token) && !strings.Contains(body, secret) && !strings.Contains(body, dir))
}
