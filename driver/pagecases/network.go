package pagecases

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
)

type networkRequest struct {
	ID                string          `json:"id"`
	Type              string          `json:"type"`
	Method            string          `json:"method"`
	URL               string          `json:"url"`
	StartedAt         int64           `json:"startedAt"`
	PageURL           string          `json:"pageUrl"`
	FrameURL          string          `json:"frameUrl"`
	WorkerURL         string          `json:"workerUrl"`
	Status            json.RawMessage `json:"status"`
	OK                *bool           `json:"ok"`
	DurationMs        *int64          `json:"durationMs"`
	ResponseHeaders   [][2]string     `json:"responseHeaders"`
	FromCache         string          `json:"fromCache"`
	FromServiceWorker bool            `json:"fromServiceWorker"`
	Error             string          `json:"error"`
	BlockedReason     string          `json:"blockedReason"`
	Canceled          bool            `json:"canceled"`
	RedirectedFrom    string          `json:"redirectedFrom"`
	RedirectedTo      string          `json:"redirectedTo"`
	FramesSent        int             `json:"framesSent"`
	FramesReceived    int             `json:"framesReceived"`
	HasResponseBody   *bool           `json:"hasResponseBody"`
}

type networkOut struct {
	Requests  []networkRequest `json:"requests"`
	Count     int              `json:"count"`
	Omitted   int              `json:"omitted"`
	Before    string           `json:"before"`
	Preserved int              `json:"preserved"`
	Enabled   bool             `json:"enabled"`
	Started   bool             `json:"started"`
	Since     int64            `json:"since"`
	Note      string           `json:"note"`
}

type networkGot struct {
	networkRequest
	RequestHeaders        [][2]string `json:"requestHeaders"`
	RequestBody           string      `json:"requestBody"`
	RequestBodyLength     int         `json:"requestBodyLength"`
	RequestBodyTruncated  bool        `json:"requestBodyTruncated"`
	RequestBodyError      string      `json:"requestBodyError"`
	ResponseBody          *string     `json:"responseBody"`
	ResponseBodyLength    int         `json:"responseBodyLength"`
	ResponseBodyTruncated bool        `json:"responseBodyTruncated"`
	ResponseBodyBase64    bool        `json:"responseBodyBase64"`
	ResponseBodyBytes     int         `json:"responseBodyBytes"`
	ResponseBodyError     string      `json:"responseBodyError"`
	Frames                []struct {
		Direction string `json:"direction"`
		Data      string `json:"data"`
		Length    int    `json:"length"`
		Binary    bool   `json:"binary"`
	} `json:"frames"`
	FramesOmitted int `json:"framesOmitted"`
}

func listRequests(s *drivertest.Scenario, input string) networkOut {
	s.T.Helper()
	var out networkOut
	res := s.Value("page.network-list", input, &out)
	assert.Equal(s.T, out.Count, len(out.Requests))
	var shown networkOut
	assert.NilError(s.T, json.Unmarshal([]byte(res.Text), &shown), "the text is not JSON: %.2000s", res.Text)
	assert.Assert(s.T, len([]rune(res.Text)) <= op.MaxText)
	assert.Equal(s.T, shown.Count+shown.Omitted, out.Count+out.Omitted, "what the text leaves out is not counted")
	return out
}

func getRequest(s *drivertest.Scenario, id string, offset int) networkGot {
	s.T.Helper()
	var out networkGot
	res := s.Value("page.network-get", map[string]any{"requestId": id, "bodyOffset": offset}, &out)
	assert.Assert(s.T, json.Valid([]byte(res.Text)), "the text is not JSON: %.2000s", res.Text)
	assert.Assert(s.T, len([]rune(res.Text)) <= op.MaxText)
	return out
}

// find is the first request whose address, made neutral, begins so.
func (o networkOut) find(s *drivertest.Scenario, prefix string) networkRequest {
	s.T.Helper()
	i := slices.IndexFunc(o.Requests, func(r networkRequest) bool { return strings.HasPrefix(s.Site.Neutral(r.URL), prefix) })
	if i < 0 {
		var all []string
		for _, r := range o.Requests {
			all = append(all, s.Site.Neutral(r.URL))
		}
		s.T.Fatalf("no request of %s:\n%s", prefix, strings.Join(all, "\n"))
	}
	return o.Requests[i]
}

// settledRequests waits until no request is on its way but those that stay
// open.
func settledRequests(s *drivertest.Scenario, input string, enough func(o networkOut) bool) networkOut {
	s.T.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		if out := listRequests(s, input); enough(out) {
			return out
		}
		time.Sleep(20 * time.Millisecond)
	}
	s.T.Fatalf("it never came so far: %s", s.Call("page.network-list", input).Text)
	return networkOut{}
}

func header(list [][2]string, name string) string {
	for _, h := range list {
		if strings.EqualFold(h[0], name) {
			return h[1]
		}
	}
	return ""
}

// captured turns the capture on and loads the page.
func captured(s *drivertest.Scenario, page, done string) {
	s.T.Helper()
	out := listRequests(s, `{}`)
	assert.Assert(s.T, out.Started && out.Enabled && out.Since > 0 && out.Note != "")
	s.Goto(page)
	until(s, done)
}

var networkCases = []drivertest.Case{
	{Name: "network--kinds", Do: func(s *drivertest.Scenario) {
		captured(s, "network/kinds.html", "document.title === 'Kinds: done'")
		out := settledRequests(s, `{}`, func(o networkOut) bool {
			n := 0
			for _, r := range o.Requests {
				if r.DurationMs != nil || r.Type == "websocket" || r.Type == "eventsource" {
					n++
				}
			}
			return n >= 10 && n == len(o.Requests)
		})
		for prefix, kind := range map[string]string{
			"http://site/network/kinds.html": "document", "http://site/lib/slow.css": "stylesheet", "http://site/lib/log.js": "script", "http://site/_/slow": "image",
			"http://site/_/frame": "document", "http://site/_/json": "fetch", "http://site/_/plain": "xhr", "http://site/_/echo": "ping", "http://site/_/events": "eventsource",
		} {
			r := out.find(s, prefix)
			assert.Equal(s.T, r.Type, kind, prefix)
			assert.Equal(s.T, string(r.Status), "200", prefix)
			assert.Assert(s.T, r.OK != nil && *r.OK && r.StartedAt > 1e12 && r.PageURL == s.Site.URL("network/kinds.html"), prefix)
			assert.Assert(s.T, header(r.ResponseHeaders, "content-type") != "", prefix)
		}
		i := slices.IndexFunc(out.Requests, func(r networkRequest) bool { return r.Type == "websocket" })
		assert.Assert(s.T, i >= 0)
		assert.Equal(s.T, string(out.Requests[i].Status), "101")
		assert.Equal(s.T, out.find(s, "http://site/_/frame").FrameURL, s.Site.URL("_/frame?text=kinds"))
		only := listRequests(s, `{"type":"fetch"}`)
		assert.Equal(s.T, len(only.Requests), 1)
		assert.Equal(s.T, len(listRequests(s, `{"urlIncludes":"/lib/"}`).Requests), 2)
		assert.Assert(s.T, !listRequests(s, `{}`).Started)
		got := getRequest(s, out.find(s, "http://site/_/echo").ID, 0)
		assert.Equal(s.T, got.Method, "POST")
		assert.Equal(s.T, got.RequestBody, "beacon=1")
	}},
	{Name: "network--redirects", Do: func(s *drivertest.Scenario) {
		captured(s, "network/redirects.html", "document.title === 'Redirects: done'")
		out := listRequests(s, `{}`)
		first := out.find(s, "http://site/_/redirect?n=2")
		second := out.find(s, "http://site/_/redirect?n=1")
		last := out.find(s, "http://site/_/json")
		assert.Equal(s.T, fmt.Sprint(string(first.Status), string(second.Status), string(last.Status)), "302302200")
		assert.DeepEqual(s.T, []string{first.RedirectedTo, second.RedirectedFrom, second.RedirectedTo, last.RedirectedFrom, last.RedirectedTo},
			[]string{second.ID, first.ID, last.ID, second.ID, ""})
		for _, r := range []networkRequest{first, second} {
			assert.Assert(s.T, strings.HasPrefix(header(r.ResponseHeaders, "location"), "/_/"), "%v", r.ResponseHeaders)
			got := getRequest(s, r.ID, 0)
			assert.Assert(s.T, got.ResponseBody == nil && strings.Contains(got.ResponseBodyError, "redirect"), got.ResponseBodyError)
		}
		assert.Assert(s.T, header(last.ResponseHeaders, "location") == "" && header(last.ResponseHeaders, "content-type") == "application/json", "%v", last.ResponseHeaders)
	}},
	// What was sent is told in parts like an answer.
	{Name: "network--sent-long", Do: func(s *drivertest.Scenario) {
		captured(s, "network/bodies.html", "document.title === 'Bodies: done'")
		s.Eval(`fetch("/_/echo?long", {method: "POST", body: JSON.stringify({password: "pw-of-ada", text: "0123456789".repeat(2000)})}).then((r) => r.text())`)
		id := listRequests(s, `{"type":"fetch"}`).find(s, "http://site/_/echo?long").ID
		all, n := "", 0
		for more := true; more; n++ {
			var got networkGot
			s.Value("page.network-get", map[string]any{"requestId": id, "requestBodyOffset": len(all)}, &got)
			all, more = all+got.RequestBody, got.RequestBodyTruncated
			assert.Assert(s.T, got.RequestBodyLength > 20000 && len(got.RequestBody) <= 8000, "%d of %d", len(got.RequestBody), got.RequestBodyLength)
		}
		assert.Equal(s.T, n, 3)
		assert.Equal(s.T, all, `{"password":"[redacted]","text":"`+strings.Repeat("0123456789", 2000)+`"}`)
		s.Fail("page.network-get", map[string]any{"requestId": id, "requestBodyOffset": len(all)}, op.Invalid, op.InvalidInput)
	}},
	{Name: "network--failures", Do: func(s *drivertest.Scenario) {
		captured(s, "network/failures.html", "document.title === 'Failures: done'")
		// Of an answer that CORS keeps from the page Chrome tells the status on
		// another way, which may be the longer one.
		out := listRequests(s, `{"failed":true}`)
		for end := time.Now().Add(5 * time.Second); string(out.find(s, "http://cross/_/json?cors").Status) != "200" && time.Now().Before(end); {
			out = listRequests(s, `{"failed":true}`)
		}
		for prefix, want := range map[string][2]string{
			"http://site/network/missing.json": {"404", ""}, "http://site/_/status?code=500": {"500", ""},
			"http://site/_/close": {"0", "net::ERR_EMPTY_RESPONSE"}, "http://site/_/slow?ms=30000": {"0", "net::ERR_ABORTED"}, "http://cross/_/json?cors": {"200", "CORS"},
		} {
			r := out.find(s, prefix)
			assert.Equal(s.T, string(r.Status), want[0], prefix)
			assert.Assert(s.T, strings.Contains(r.Error, want[1]), "%s: %s", prefix, r.Error)
			assert.Assert(s.T, r.OK != nil && !*r.OK, prefix)
		}
		assert.Assert(s.T, out.find(s, "http://site/_/slow?ms=30000").Canceled)
		refused := out.find(s, "http://cross/_/slow?ms=0&type=gif")
		assert.Equal(s.T, refused.BlockedReason, "csp")
		assert.Assert(s.T, !slices.ContainsFunc(out.Requests, func(r networkRequest) bool { return r.Type == "document" }))
	}},
	{Name: "network--secrets", Do: func(s *drivertest.Scenario) {
		captured(s, "network/secrets.html", "document.title === 'Secrets: done'")
		list := s.Call("page.network-list", `{"type":"fetch"}`)
		texts := []string{string(list.Value), list.Text}
		out := listRequests(s, `{"type":"fetch"}`)
		var posts []string
		for _, r := range out.Requests {
			res := s.Call("page.network-get", map[string]any{"requestId": r.ID})
			texts = append(texts, string(res.Value), res.Text)
			posts = append(posts, getRequest(s, r.ID, 0).RequestBody)
		}
		for _, text := range texts {
			for _, secret := range []string{"at-of-ada", "it-of-ada", "bt-of-ada", "ak-of-ada", "pw-of-ada", "fw-of-ada", "mw-of-ada", "123456", "key-of-the-server", "visit=ck-of-ada"} {
				assert.Assert(s.T, !strings.Contains(text, secret), "%s is told: %s", secret, text)
			}
		}
		all := strings.Join(posts, "\n")
		for _, part := range []string{`"user":"ada","password":"[redacted]","nested":{"otp":"[redacted]"}`, "user=ada&passwd=[redacted]", "name=\"user\"\r\n\r\nada"} {
			assert.Assert(s.T, strings.Contains(all, part), "%s: %s", part, all)
		}
		assert.Equal(s.T, header(out.find(s, "http://site/_/cookie").ResponseHeaders, "set-cookie"), "visit=[redacted]; Path=/_/; HttpOnly")
		sent := getRequest(s, out.find(s, "http://site/_/sent").ID, 0)
		assert.Equal(s.T, s.Site.Neutral(sent.URL), "http://site/_/sent?access_token=[redacted]&page=2#id_token=[redacted]")
		assert.Equal(s.T, header(sent.RequestHeaders, "authorization"), "Bearer [redacted]")
		assert.Equal(s.T, header(sent.RequestHeaders, "x-api-key"), "[redacted]")
		assert.Equal(s.T, header(sent.RequestHeaders, "x-plain"), "plain")
		assert.Equal(s.T, header(sent.RequestHeaders, "cookie"), "visit=[redacted]")
	}},
	{Name: "network--bodies", Do: func(s *drivertest.Scenario) {
		captured(s, "network/bodies.html", "document.title === 'Bodies: done'")
		out := listRequests(s, `{}`)
		short := getRequest(s, out.find(s, "http://site/_/plain?n=100").ID, 0)
		assert.Equal(s.T, *short.ResponseBody, strings.Repeat("0123456789", 10))
		assert.Assert(s.T, !short.ResponseBodyTruncated)
		for _, n := range []int{20_000, 200_000} {
			id := out.find(s, fmt.Sprintf("http://site/_/plain?n=%d", n)).ID
			if n == 20_000 {
				assert.Assert(s.T, strings.HasPrefix(s.Site.Neutral(out.find(s, "http://site/_/plain?n=20000").URL), "http://site/_/plain?n=20000"))
			}
			whole := ""
			for {
				part := getRequest(s, id, len(whole))
				assert.Assert(s.T, len(*part.ResponseBody) <= 8000 && part.ResponseBodyLength == n, "%d of %d", len(*part.ResponseBody), part.ResponseBodyLength)
				whole += *part.ResponseBody
				if !part.ResponseBodyTruncated {
					break
				}
			}
			assert.Equal(s.T, len(whole), n)
			s.Fail("page.network-get", map[string]any{"requestId": id, "bodyOffset": n}, op.Invalid, op.InvalidInput)
		}
		binary := getRequest(s, out.find(s, "http://site/_/bytes").ID, 0)
		assert.Assert(s.T, binary.ResponseBody == nil && binary.ResponseBodyBase64 && binary.ResponseBodyBytes == 64 && binary.ResponseBodyError != "", "%+v", binary)
		empty := getRequest(s, out.find(s, "http://site/_/plain?n=0").ID, 0)
		assert.Assert(s.T, empty.ResponseBody != nil && *empty.ResponseBody == "" && empty.ResponseBodyError == "", "%+v", empty)
		none := getRequest(s, out.find(s, "http://site/_/204").ID, 0)
		assert.Assert(s.T, none.ResponseBody == nil && none.ResponseBodyError != "", "%+v", none)
	}},
	{Name: "network--unread-and-pending", Page: "navigate/plain.html", Do: func(s *drivertest.Scenario) {
		listRequests(s, `{}`)
		s.Eval("void (fetch('/_/slow?ms=20000'), fetch('/_/plain?n=500').then((r) => { window.unread = r; document.title = 'unread'; }))")
		until(s, "document.title === 'unread'")
		out := settledRequests(s, `{"type":"fetch"}`, func(o networkOut) bool {
			return slices.ContainsFunc(o.Requests, func(r networkRequest) bool { return strings.Contains(r.URL, "n=500") && string(r.Status) == "200" })
		})
		slow := getRequest(s, out.find(s, "http://site/_/slow").ID, 0)
		assert.Equal(s.T, string(slow.Status), `"pending"`)
		assert.Assert(s.T, slow.DurationMs == nil && strings.Contains(slow.ResponseBodyError, "pending"))
		unread := getRequest(s, out.find(s, "http://site/_/plain?n=500").ID, 0)
		assert.Assert(s.T, unread.ResponseBody == nil && strings.Contains(unread.ResponseBodyError, "has not read it"), unread.ResponseBodyError)
	}},
	{Name: "network--unknown-id-changes-nothing", Do: func(s *drivertest.Scenario) {
		e := s.Fail("page.network-get", `{"requestId":"req-1"}`, op.Rejected, op.RequestNotFound)
		assert.Assert(s.T, strings.Contains(e.Message, "not captured yet"), e.Message)
		listRequests(s, `{}`)
		for _, id := range []string{"req-1", "req-999", "nonsense", "req-", "req--1"} {
			e := s.Fail("page.network-get", map[string]any{"requestId": id}, op.Rejected, op.RequestNotFound)
			assert.Equal(s.T, e.Details["requestId"], id)
			assert.Assert(s.T, e.Hint != "")
		}
		s.Fail("page.network-get", `{}`, op.Invalid, op.InvalidInput)
		s.Fail("page.network-get", `{"requestId":" "}`, op.Invalid, op.InvalidInput)
	}},
	{Name: "network--kept-past-a-navigation", Do: func(s *drivertest.Scenario) {
		captured(s, "network/leaves.html", "document.title === 'Leaves: fetched'")
		before := settledRequests(s, `{}`, func(o networkOut) bool {
			return slices.ContainsFunc(o.Requests, func(r networkRequest) bool { return r.Type == "fetch" && r.DurationMs != nil })
		})
		fetched := before.find(s, "http://site/_/json")
		getRequest(s, before.find(s, "http://site/network/leaves.html").ID, 0)
		s.Call("page.navigate", map[string]any{"url": s.Site.Cross + "/navigate/plain.html", "waitUntilLoad": true})
		now := listRequests(s, `{}`)
		assert.Assert(s.T, !slices.ContainsFunc(now.Requests, func(r networkRequest) bool { return r.ID == fetched.ID }))
		assert.Assert(s.T, now.Preserved >= 2, "%d preserved", now.Preserved)
		assert.Equal(s.T, now.find(s, "http://cross/navigate/plain.html").Type, "document")
		all := listRequests(s, `{"includePreserved":true}`)
		assert.Equal(s.T, all.find(s, "http://site/_/json").PageURL, s.Site.URL("network/leaves.html"))
		got := getRequest(s, fetched.ID, 0)
		assert.Assert(s.T, got.ResponseBody != nil && strings.Contains(*got.ResponseBody, `"numbers":[0,1,2,3,4]`), "%+v", got)
		page := getRequest(s, all.find(s, "http://site/network/leaves.html").ID, 0)
		assert.Assert(s.T, page.ResponseBody != nil && strings.Contains(*page.ResponseBody, "<h1>Leaves</h1>"), page.ResponseBodyError)
	}},
	{Name: "network--history-within-the-document", Page: "network/leaves.html", Do: func(s *drivertest.Scenario) {
		listRequests(s, `{}`)
		s.Eval("fetch('/_/plain?n=11').then((r) => r.text()).then(() => history.pushState(null, '', '?pushed'))")
		// A new address of the same document hides nothing.
		listRequests(s, `{}`).find(s, "http://site/_/plain?n=11")
	}},
	{Name: "network--event-source-is-not-starved", Do: func(s *drivertest.Scenario) {
		captured(s, "network/events.html", "document.getElementById('count').textContent === '60'")
		out := settledRequests(s, `{"type":"eventsource"}`, func(o networkOut) bool { return len(o.Requests) == 1 && o.Requests[0].FramesReceived == 60 })
		got := getRequest(s, out.Requests[0].ID, 0)
		assert.Equal(s.T, len(got.Frames), 20)
		assert.Equal(s.T, got.FramesOmitted, 40)
		last := got.Frames[19]
		assert.Assert(s.T, strings.HasPrefix(last.Data, "60...") && last.Length == 20002 && len([]rune(last.Data)) <= 501, "%.20s %d", last.Data, last.Length)
	}},
	{Name: "network--web-socket", Do: func(s *drivertest.Scenario) {
		captured(s, "network/socket.html", "document.title === 'Socket: done'")
		out := settledRequests(s, `{"type":"websocket"}`, func(o networkOut) bool {
			return len(o.Requests) == 1 && o.Requests[0].FramesSent == 27 && o.Requests[0].FramesReceived == 28
		})
		got := getRequest(s, out.Requests[0].ID, 0)
		assert.Equal(s.T, string(got.Status), "101")
		assert.Assert(s.T, strings.HasSuffix(got.URL, "/_/socket?token=[redacted]"), got.URL)
		assert.Equal(s.T, len(got.Frames), 20)
		assert.Equal(s.T, got.FramesOmitted, 35)
		last := got.Frames[19]
		assert.Assert(s.T, last.Direction == "received" && last.Binary && last.Length == 3 && last.Data == "", "%+v", last)
		text := s.Call("page.network-get", map[string]any{"requestId": got.ID}).Text
		assert.Assert(s.T, strings.Contains(text, `{\"password\":\"[redacted]\",\"user\":\"ada\"}`) && !strings.Contains(text, "wp-of-ada"), text)
		s.Eval("socket.close()")
		settledRequests(s, `{"type":"websocket"}`, func(o networkOut) bool { return o.Requests[0].DurationMs != nil })
	}},
	{Name: "network--workers", Do: func(s *drivertest.Scenario) {
		captured(s, "network/workers.html", "document.title === 'Workers: done'")
		// Chrome tells a page of every service worker of its host, also of another case's.
		out := settledRequests(s, `{"type":"fetch","urlIncludes":"n=30&worker="}`, func(o networkOut) bool { return len(o.Requests) == 2 && o.Requests[1].DurationMs != nil })
		for _, name := range []string{"first", "nested"} {
			r := out.find(s, "http://site/_/plain?n=30&worker="+name)
			assert.Equal(s.T, r.WorkerURL, s.Site.URL("lib/network-worker.js"))
			assert.Equal(s.T, *getRequest(s, r.ID, 0).ResponseBody, strings.Repeat("0123456789", 3))
		}
	}},
	{Name: "network--frames", Do: func(s *drivertest.Scenario) {
		listRequests(s, `{}`)
		s.Goto("network/frames.html")
		out := settledRequests(s, `{}`, func(o networkOut) bool {
			return slices.ContainsFunc(o.Requests, func(r networkRequest) bool { return r.Type == "fetch" && r.DurationMs != nil })
		})
		r := out.find(s, "http://cross/_/plain?n=40&from=frame")
		assert.Equal(s.T, r.FrameURL, s.Site.Cross+"/network/fetches.html?frame")
		assert.Equal(s.T, r.PageURL, s.Site.URL("network/frames.html"))
		assert.Equal(s.T, len(*getRequest(s, r.ID, 0).ResponseBody), 40)
		assert.Equal(s.T, out.find(s, "http://cross/network/fetches.html").Type, "document")
		// The frame is usable: it was let go.
		got, _ := waitFor(s, "textContains", "Fetched", 5000)
		assert.Assert(s.T, got.Satisfied)
	}},
	{Name: "network--frame-added-later", Page: "navigate/plain.html", Do: func(s *drivertest.Scenario) {
		listRequests(s, `{}`)
		s.Eval(`document.body.insertAdjacentHTML("beforeend", '<iframe title="Late" src="` + s.Site.Third + `/network/fetches.html?late"></iframe>')`)
		settledRequests(s, `{}`, func(o networkOut) bool {
			return slices.ContainsFunc(o.Requests, func(r networkRequest) bool {
				return strings.Contains(r.URL, "from=late") && r.DurationMs != nil
			})
		})
	}},
	{Name: "network--service-worker", Do: func(s *drivertest.Scenario) {
		captured(s, "network/service-worker.html", "document.title === 'Service worker: made'")
		out := listRequests(s, `{}`)
		assert.Assert(s.T, out.find(s, "http://site/_/made-by-worker").FromServiceWorker)
		assert.Equal(s.T, out.find(s, "http://site/_/plain?n=50&worker=service").WorkerURL, s.Site.URL("network/service-worker.js"))
	}},
	{Name: "network--cache", Do: func(s *drivertest.Scenario) {
		captured(s, "network/cached.html", "document.title === 'Cached: done'")
		out := settledRequests(s, `{"urlIncludes":"/_/cached"}`, func(o networkOut) bool {
			return slices.ContainsFunc(o.Requests, func(r networkRequest) bool { return r.Type == "fetch" && r.DurationMs != nil })
		})
		i := slices.IndexFunc(out.Requests, func(r networkRequest) bool { return r.Type == "fetch" })
		assert.Equal(s.T, out.Requests[i].FromCache, "disk")
	}},
	{Name: "network--clear-pages-and-off", Do: func(s *drivertest.Scenario) {
		captured(s, "network/bodies.html", "document.title === 'Bodies: done'")
		all := listRequests(s, `{}`)
		two := listRequests(s, `{"limit":2}`)
		assert.Equal(s.T, two.Omitted, len(all.Requests)-2)
		older := listRequests(s, `{"before":"`+two.Before+`"}`)
		assert.Equal(s.T, len(older.Requests), two.Omitted)
		assert.Equal(s.T, len(listRequests(s, `{"clear":true}`).Requests), len(all.Requests))
		assert.Equal(s.T, len(listRequests(s, `{"includePreserved":true,"urlIncludes":"/_/"}`).Requests), 0)
		e := s.Fail("page.network-get", map[string]any{"requestId": all.Requests[0].ID}, op.Rejected, op.RequestNotFound)
		assert.Assert(s.T, strings.Contains(e.Message, "cleared or dropped"), e.Message)
		off := listRequests(s, `{"enable":false}`)
		assert.Assert(s.T, !off.Enabled)
		s.Eval("fetch('/_/plain?n=12').then((r) => r.text())")
		on := listRequests(s, `{}`)
		assert.Assert(s.T, on.Started && !slices.ContainsFunc(on.Requests, func(r networkRequest) bool { return strings.Contains(r.URL, "n=12") }))
		s.Eval("fetch('/_/plain?n=13').then((r) => r.text())")
		listRequests(s, `{}`).find(s, "http://site/_/plain?n=13")
	}},
	{Name: "network--after-a-detach", Page: "network/bodies.html", Do: func(s *drivertest.Scenario) {
		listRequests(s, `{}`)
		s.Eval("void fetch('/_/slow?ms=20000')")
		settledRequests(s, `{}`, func(o networkOut) bool { return len(o.Requests) > 0 })
		assert.NilError(s.T, s.Conn.Detach(s.T.Context()))
		out := listRequests(s, `{}`)
		assert.Assert(s.T, out.Enabled && !out.Started)
		assert.Assert(s.T, strings.Contains(out.find(s, "http://site/_/slow").Error, "not known"))
		s.Eval("fetch('/_/plain?n=14').then((r) => r.text())")
		listRequests(s, `{}`).find(s, "http://site/_/plain?n=14")
	}},
	{Name: "network--the-page-cannot-notice", Page: "navigate/plain.html", Do: func(s *drivertest.Scenario) {
		const probe = `[fetch, XMLHttpRequest.prototype.open, XMLHttpRequest.prototype.send, WebSocket, EventSource, console.log, navigator.sendBeacon].every((f) => Function.prototype.toString.call(f).includes("[native code]")) + " " + Object.getOwnPropertyNames(window).length`
		before := s.Eval(probe)
		listRequests(s, `{}`)
		s.Call("page.console", `{}`)
		assert.Equal(s.T, s.Eval(probe), before, "the capture has changed the page")
	}},
}
