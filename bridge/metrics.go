package bridge

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime/metrics"
	"strings"
	"time"

	"pi-chrome/cdpmodel"
)

// metricsFile holds the token that GET /metrics wants, readable by the user
// only, as a scraper reads it from a file.
const metricsFile = "metrics-token"

// maxProfileLabels bounds how many profiles have numbers of their own; what is
// beyond is summed under "other".
const maxProfileLabels = 32

// metricsToken is made from the owner credential, so that it lasts as long as
// that does. It opens the numbers and nothing else: the credential cannot be
// found from it.
func metricsToken(credential string) string {
	mac := hmac.New(sha256.New, []byte(credential))
	mac.Write([]byte("pi-chrome metrics v1"))
	return hex.EncodeToString(mac.Sum(nil))
}

// writeMetricsToken stores the token, unless it is there already.
func writeMetricsToken(dir, token string) error {
	path := filepath.Join(dir, metricsFile)
	if b, err := os.ReadFile(path); err == nil && string(b) == token+"\n" {
		return nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return writeAtomic(path, []byte(token+"\n"))
}

// serveMetrics answers with numbers in the text format of Prometheus. Even
// numbers tell another user of the machine when and how somebody works, so they
// are for whoever may read the state folder.
func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request) {
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	// Of hashes, so that the time does not tell the length either.
	got, want := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(metricsToken(s.secret)))
	if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, http.StatusUnauthorized, "send the token of the file "+metricsFile+" in the owner's state folder: Authorization: Bearer TOKEN")
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if _, err := w.Write(s.metricsText()); err != nil {
		s.log.Debug("writing metrics", "err", err)
	}
}

// promWriter writes families of the text format. Every sample of a family
// follows its head.
type promWriter struct{ bytes.Buffer }

var promEscape = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func (w *promWriter) family(name, kind, help string) {
	w.WriteString("# HELP " + name + " " + help + "\n# TYPE " + name + " " + kind + "\n")
}

// sample writes one line; labels are names and values in turn.
func (w *promWriter) sample(name string, v float64, labels ...string) {
	w.WriteString(name)
	for i := 0; i+1 < len(labels); i += 2 {
		sep := ","
		if i == 0 {
			sep = "{"
		}
		w.WriteString(sep + labels[i] + `="` + promEscape.Replace(labels[i+1]) + `"`)
	}
	if len(labels) > 1 {
		w.WriteString("}")
	}
	w.WriteString(" " + formatNumber(v) + "\n")
}

func (w *promWriter) one(name, kind, help string, v float64) {
	w.family(name, kind, help)
	w.sample(name, v)
}

// counters writes a family of counters; a label without a name is left out.
func (w *promWriter) counters(name, help string, c *counters, first, second string) {
	w.family(name, "counter", help)
	for _, s := range c.all() {
		labels := []string{first, s.key[0]}
		if second != "" {
			labels = append(labels, second, s.key[1])
		}
		w.sample(name, float64(s.n), labels...)
	}
}

func (w *promWriter) histograms(name, help string, h *histograms, label string) {
	w.family(name, "histogram", help)
	for _, one := range h.all() {
		var labels []string
		if label != "" {
			labels = []string{label, one.label}
		}
		total := uint64(0)
		for i, n := range one.buckets {
			total += n
			le := "+Inf"
			if i < len(secondBuckets) {
				le = formatNumber(secondBuckets[i])
			}
			w.sample(name+"_bucket", float64(total), append(labels[:len(labels):len(labels)], "le", le)...)
		}
		w.sample(name+"_sum", one.sum.Seconds(), labels...)
		w.sample(name+"_count", float64(total), labels...)
	}
}

// profileNumbers are what is shown of one profile.
type profileNumbers struct {
	label                               string
	queued, executing, waiting, pending int
	live, connections                   int
	leases                              map[string]int
}

// profileLabel names a profile without telling its name or its id.
func profileLabel(id string) string {
	h := sha256.Sum256([]byte(id))
	return hex.EncodeToString(h[:4])
}

// leaseStates are those that a lease is shown in; a free one is not shown.
var leaseStates = []cdpmodel.LeaseState{cdpmodel.LeaseAttaching, cdpmodel.LeaseHeld, cdpmodel.LeaseLeft, cdpmodel.LeaseLost, cdpmodel.LeaseBusy, cdpmodel.LeaseRevoked, cdpmodel.LeaseQuarantined}

// profileNumbers counts what stands in each profile now. Commands without one
// are under "none".
func (s *Server) profileNumbers() []*profileNumbers {
	var list []*profileNumbers
	at := map[string]*profileNumbers{}
	of := func(id string) *profileNumbers {
		label := "none"
		if id != "" {
			label = profileLabel(id)
		}
		if at[label] == nil && len(list) >= maxProfileLabels {
			label = "other"
		}
		if at[label] == nil {
			at[label] = &profileNumbers{label: label, leases: map[string]int{}}
			list = append(list, at[label])
		}
		return at[label]
	}
	of("")
	if s.relay != nil {
		for _, c := range s.relay.Connectors() {
			i, n := c.Info(), of(c.ID())
			n.pending += i.PendingCalls
			n.connections += i.Generation
			if i.Live {
				n.live++
			}
			for _, l := range i.Leases {
				n.leases[l.State]++
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	boxes := map[*mailbox]string{}
	for id, box := range s.boxes {
		boxes[box] = id
		for _, lane := range box.lanes {
			of(id).waiting += len(lane.waiting)
		}
	}
	for _, c := range s.commands {
		n := of(boxes[c.box])
		if c.state == stateQueued {
			n.queued++
		} else {
			n.executing++
		}
	}
	return list
}

// metricsText is everything that is measured. Its labels are of fixed sets: no
// name of a session, no label of a profile and no address is among them.
func (s *Server) metricsText() []byte {
	m, w := s.meter, &promWriter{}
	w.family("pi_chrome_owner_info", "gauge", "The owner's version.")
	w.sample("pi_chrome_owner_info", 1, "version", s.info.Version)
	w.one("pi_chrome_owner_uptime_seconds", "gauge", "Time since the owner began.", time.Since(s.info.StartedAt).Seconds())

	w.counters("pi_chrome_commands_total", "Commands that are over, by operation and kind of outcome.", &m.commands, "operation", "outcome")
	w.counters("pi_chrome_command_errors_total", "Commands that failed, by kind and code.", &m.failures, "kind", "code")
	w.histograms("pi_chrome_command_seconds", "From a command's entry to its outcome.", &m.took, "operation")
	w.histograms("pi_chrome_command_wait_seconds", "From a command's entry to its start.", &m.waited, "")

	profiles := s.profileNumbers()
	gauge := func(name, help string, v func(*profileNumbers) int) {
		w.family(name, "gauge", help)
		for _, p := range profiles {
			w.sample(name, float64(v(p)), "profile", p.label)
		}
	}
	w.family("pi_chrome_queue_commands", "gauge", "Commands that are not over, by profile and state.")
	for _, p := range profiles {
		w.sample("pi_chrome_queue_commands", float64(p.queued), "profile", p.label, "state", "queued")
		w.sample("pi_chrome_queue_commands", float64(p.executing), "profile", p.label, "state", "executing")
	}
	gauge("pi_chrome_lane_waiting", "Commands that wait for another one of their tab.", func(p *profileNumbers) int { return p.waiting })
	gauge("pi_chrome_pending_calls", "Calls to the extension without a reply yet.", func(p *profileNumbers) int { return p.pending })
	gauge("pi_chrome_profile_live", "1 while the profile is connected.", func(p *profileNumbers) int { return p.live })
	w.family("pi_chrome_profile_connections_total", "counter", "Connections of the profile to this owner; all but the first are reconnects.")
	for _, p := range profiles {
		w.sample("pi_chrome_profile_connections_total", float64(p.connections), "profile", p.label)
	}
	w.family("pi_chrome_leases", "gauge", "Tabs by the state of their debugger lease.")
	for _, p := range profiles {
		for _, st := range leaseStates {
			w.sample("pi_chrome_leases", float64(p.leases[string(st)]), "profile", p.label, "state", string(st))
		}
	}
	w.counters("pi_chrome_attaches_total", "Attempts to attach a debugger, by what came of them.", &m.attaches, "outcome", "")
	w.counters("pi_chrome_resets_total", "Times at which events may have been lost, by reason.", &m.resets, "reason", "")
	w.counters("pi_chrome_handshakes_refused_total", "Refused handshakes, by path and code.", &m.refusals, "path", "code")

	w.histograms("pi_chrome_journal_write_seconds", "Durable writes of the journal.", &m.journal, "")
	w.one("pi_chrome_journal_errors_total", "counter", "Writes of the journal that failed.", float64(m.journalErrors.Load()))
	w.one("pi_chrome_audit_lines_total", "counter", "Lines written to the audit log.", float64(m.auditLines.Load()))
	w.one("pi_chrome_audit_errors_total", "counter", "Lines that the audit log did not take.", float64(m.auditErrors.Load()))

	loops := []struct {
		name string
		l    *loopMeter
	}{{"tab", &m.tabLoop}, {"reader", &m.readLoop}, {"hooks", &m.hookLoop}}
	w.family("pi_chrome_loops", "gauge", "Goroutines that own an order: of tabs, readers of profiles, and their hooks.")
	for _, x := range loops {
		w.sample("pi_chrome_loops", float64(x.l.running.Load()), "loop", x.name)
	}
	w.family("pi_chrome_loop_busy_seconds_total", "counter", "Time that those goroutines worked; its rate, by pi_chrome_loops, is their saturation.")
	for _, x := range loops {
		w.sample("pi_chrome_loop_busy_seconds_total", time.Duration(x.l.busy.Load()).Seconds(), "loop", x.name)
	}
	w.family("pi_chrome_loop_turns_total", "counter", "Frames, events and replies that those goroutines handled.")
	for _, x := range loops {
		w.sample("pi_chrome_loop_turns_total", float64(x.l.turns.Load()), "loop", x.name)
	}
	s.holdings(w)
	return w.Bytes()
}

// holdings writes what the owner holds now.
func (s *Server) holdings(w *promWriter) {
	sessions := map[AuthorizationMode]int{}
	tabs := map[targetState]int{}
	s.mu.Lock()
	clients := len(s.clients)
	for key := range s.sessions {
		sessions[s.modeLocked(key, time.Now())]++
	}
	for _, r := range s.records {
		tabs[r.State]++
	}
	s.mu.Unlock()
	w.family("pi_chrome_sessions", "gauge", "Known sessions by authorization.")
	for _, mode := range []AuthorizationMode{Locked, AuthorizedUntil, AuthorizedIndefinite} {
		w.sample("pi_chrome_sessions", float64(sessions[mode]), "authorization", string(mode))
	}
	w.family("pi_chrome_session_tabs", "gauge", "Tabs of sessions by the state of their record.")
	for _, st := range []targetState{targetAllocating, targetOwned, targetStale} {
		w.sample("pi_chrome_session_tabs", float64(tabs[st]), "state", string(st))
	}
	w.one("pi_chrome_clients", "gauge", "Connected programs.", float64(clients))

	own := []metrics.Sample{{Name: "/sched/goroutines:goroutines"}, {Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(own)
	for i, name := range []string{"pi_chrome_goroutines", "pi_chrome_heap_bytes"} {
		if own[i].Value.Kind() == metrics.KindUint64 {
			w.one(name, "gauge", "Of the owner's process.", float64(own[i].Value.Uint64()))
		}
	}
}
