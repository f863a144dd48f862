package pagecases

import (
	"slices"
	"strings"
	"time"

	"gotest.tools/v3/assert"

	"pi-chrome/driver/drivertest"
)

// appCases drive the four applications end to end, as an agent would. What was
// done is checked with the servers.
var appCases = []drivertest.Case{
	{Name: "apps--react", Do: func(s *drivertest.Scenario) {
		a := agent{s}
		a.open("react")
		a.await("Export invoices as CSV")
		boardSearch(a)
		boardTask(a)
		boardCreate(a)
		boardChange(a)
		boardActivity(a)
		var state boardState
		a.server("react", &state)
		// Each thing was done once: nothing was sent twice, nothing was lost.
		// How many reads that takes depends on how fast the keys come.
		assert.DeepEqual(s.T, state.Requests, map[string]int{
			"GET tasks": 1, "GET search": 1, "PATCH task": 7, "POST comment": 1, "GET people": state.Requests["GET people"], "POST tasks": 1, "GET activity": state.Requests["GET activity"],
		})
	}},
	{Name: "apps--vue", Do: func(s *drivertest.Scenario) {
		a := agent{s}
		a.open("vue")
		a.await("57 orders")
		officeOrders(a)
		officeSettings(a)
	}},
	{Name: "apps--grid", Do: func(s *drivertest.Scenario) {
		a := agent{s}
		a.open("grid")
		a.await("50,000 of 50,000 rows")
		gridCells(a)
		gridKeys(a)
	}},
	{Name: "apps--checkout", Do: func(s *drivertest.Scenario) {
		a := agent{s}
		a.open("checkout")
		a.await("€190.00")
		checkoutRefused(a)
		checkoutFilled(a)
		checkoutPaid(a)
	}},
}

type boardState struct {
	Tasks    []serverTask   `json:"tasks"`
	Requests map[string]int `json:"requests"`
}

type serverTask struct {
	Key, Title, Description, Status, Assignee, Priority, Due string
	Estimate                                                 int
	Labels, Comments                                         []string
	Archived                                                 bool
}

// task is what the server knows of a task.
func (b boardState) task(key string) serverTask {
	i := slices.IndexFunc(b.Tasks, func(t serverTask) bool { return t.Key == key })
	if i < 0 {
		return serverTask{}
	}
	return b.Tasks[i]
}

func boardSearch(a agent) {
	a.s.T.Helper()
	a.fill("searchbox", "Search tasks", "accents")
	a.await("NL-10 Search ignores accents")
	a.click("link", "NL-10 Search ignores accents")
	first, _ := a.all()
	assert.Equal(a.s.T, first.URL, a.s.Site.URL("apps/react/task/NL-10"))
	a.reads("# [Rename: Search ignores accents]")
}

// boardTask renames a task, moves it and comments on it.
func boardTask(a agent) {
	a.s.T.Helper()
	a.click("button", "Rename: Search ignores accents")
	a.fill("textbox", "Title", "Search folds accents: é is e")
	a.press("Enter")
	a.fill("combobox", "Status", "In review")
	assert.Assert(a.s.T, !a.has("button", "Comment"), "it is disabled while there is no text")
	a.fill("textbox", "Comment", "Two lines:\nsecond 🙂")
	a.click("button", "Comment")
	a.await("Comments (1)")
	assert.Equal(a.s.T, a.find("textbox", "Comment").State.Value, "")
	var state boardState
	a.server("react", &state)
	task := state.task("NL-10")
	assert.Equal(a.s.T, task.Title, "Search folds accents: é is e")
	assert.Equal(a.s.T, task.Status, "review")
	assert.DeepEqual(a.s.T, task.Comments, []string{"Two lines:\nsecond 🙂"})
	a.click("link", "← Board")
	first, _ := a.all()
	assert.Equal(a.s.T, first.URL, a.s.Site.URL("apps/react/"))
}

// boardCreate makes a task in the modal dialog. The list box is not inside it.
func boardCreate(a agent) {
	a.s.T.Helper()
	a.click("button", "New task")
	first, actions := a.all()
	assert.Assert(a.s.T, first.Modal != nil && first.Modal.Role == "dialog" && first.Modal.Label == "New task", "%v", first.Modal)
	assert.Assert(a.s.T, !slices.ContainsFunc(actions, func(action seen) bool { return action.Name == "Archive NL-1" }), "the board is inert while the dialog is open")
	a.click("button", "Create task")
	a.reads("A task needs a title.")
	assert.Assert(a.s.T, a.find("textbox", "Title").State.Invalid)
	a.fill("textbox", "Title", "Write the release notes")
	a.fill("textbox", "Description", "For version 4.2,\nin two languages.")
	a.fill("combobox", "Assignee", "marchetti")
	a.await("Lena Marchetti")
	a.click("option", "Lena Marchetti Lena Marchetti Support")
	assert.Equal(a.s.T, a.find("combobox", "Assignee").State.Value, "Lena Marchetti")
	a.fillAs("textbox", "Estimate in hours", "12 h", "12")
	a.fill("Date", "Due", "2030-05-06")
	a.click("radio", "Urgent")
	a.click("button", "Docs")
	a.click("button", "Research")
	assert.Equal(a.s.T, a.find("button", "Docs").State.Pressed, true)
	a.click("button", "Create task")
	a.await("NL-19 is created.")
	first, _ = a.all()
	assert.Assert(a.s.T, first.Modal == nil, "%v", first.Modal)
	var state boardState
	a.server("react", &state)
	made := state.Tasks[len(state.Tasks)-1]
	assert.Equal(a.s.T, made.Key, "NL-19")
	assert.Equal(a.s.T, made.Title, "Write the release notes")
	assert.Equal(a.s.T, made.Description, "For version 4.2,\nin two languages.")
	assert.Equal(a.s.T, made.Assignee+" "+made.Priority+" "+made.Due, "lena urgent 2030-05-06")
	assert.Equal(a.s.T, made.Estimate, 12)
	assert.DeepEqual(a.s.T, made.Labels, []string{"Docs", "Research"})
}

// boardChange ticks, archives and moves tasks; the server refuses one.
func boardChange(a agent) {
	a.s.T.Helper()
	a.click("checkbox", "NL-7 is done")
	a.await("NL-7 is locked until the release is out.")
	assert.Equal(a.s.T, a.find("checkbox", "NL-7 is done").State.Checked, false)
	a.click("checkbox", "NL-1 is done")
	assert.Equal(a.s.T, a.find("checkbox", "NL-1 is done").State.Checked, true)
	a.click("button", "Archive NL-5")
	a.await("NL-5 is archived.")
	a.click("button", "Undo") // at once: the app takes it away after 8 s
	assert.Assert(a.s.T, a.has("button", "Archive NL-5"))
	a.click("button", "Move NL-2")
	a.press("Space", "ArrowRight", "Space")
	a.await("NL-2 dropped in In review.")
	// The server has had its say when the board has shown it again.
	waitFor(a.s, "networkIdle", "", 5000)
	var state boardState
	a.server("react", &state)
	for key, want := range map[string]string{"NL-7": "review", "NL-1": "done", "NL-2": "review", "NL-5": "todo"} {
		assert.Equal(a.s.T, state.task(key).Status, want, key)
		assert.Assert(a.s.T, !state.task(key).Archived, key)
	}
}

// boardActivity filters and scrolls a list of which some rows are there.
func boardActivity(a agent) {
	a.s.T.Helper()
	a.click("link", "Activity")
	a.await("5,000 entries")
	a.reads("#5000")
	a.fill("searchbox", "Filter activity", "Kofi closed NL-67")
	a.await("1 entry")
	a.reads("closed NL-67 in build 94006")
	a.fill("searchbox", "Filter activity", "")
	a.await("5,000 entries")
	a.press("Tab", "End")
	a.await("in build 90001")
	assert.Assert(a.s.T, !strings.Contains(a.read(), "#5000"), "the first rows are gone from the document")
}

// officeOrders edits a row in place, which the server refuses once, and
// deletes another after the question.
func officeOrders(a agent) {
	a.s.T.Helper()
	a.click("button", "Page 6")
	a.await("HB-2003")
	assert.Equal(a.s.T, a.find("button", "Page 6").State.Current, "page")
	a.click("button", "Edit HB-2003")
	a.fill("spinbutton", "Quantity", "0")
	a.click("button", "Save")
	a.await("Quantity is 1 to 99.")
	assert.Assert(a.s.T, a.find("spinbutton", "Quantity").State.Invalid)
	a.fill("spinbutton", "Quantity", "7")
	a.fill("textbox", "Customer", "Zoë Ångström")
	a.s.Call("input.fill", map[string]any{"ref": a.officeRowStatus().ID, "text": "refunded"})
	a.fill("textbox", "Note", "Broken in transit")
	a.pressOn("textbox", "Note", "Enter")
	a.await("HB-2003 is saved.")
	assert.Assert(a.s.T, !a.has("button", "Save"))
	a.reads("Zoë Ångström")

	a.click("button", "Delete HB-2002")
	first, _ := a.all()
	assert.Assert(a.s.T, first.Modal != nil && first.Modal.Label == "Delete this order?", "%v", first.Modal)
	assert.Assert(a.s.T, !a.has("button", "Delete order"), "it is disabled until the number is typed")
	a.fill("textbox", "Type HB-2002 to go on", "HB-2002")
	a.click("button", "Delete order")
	a.await("HB-2002 is deleted.")
	a.awaitGone("Delete this order?")
	a.await("56 orders")

	a.fill("searchbox", "Find", "zoë brush")
	a.awaitGone("56 orders")
	a.await("0 orders")
	a.fill("searchbox", "Find", "zoë")
	a.await("1 order")
	var state officeState
	a.server("vue", &state)
	assert.Equal(a.s.T, len(state.Orders), 56)
	i := slices.IndexFunc(state.Orders, func(o serverOrder) bool { return o.ID == "HB-2003" })
	assert.DeepEqual(a.s.T, state.Orders[i], serverOrder{"HB-2003", "Zoë Ångström", "refunded", "Broken in transit", 7})
	assert.Equal(a.s.T, state.Requests["PATCH order"], 2)
	assert.Equal(a.s.T, state.Requests["DELETE order"], 1)
}

type serverOrder struct {
	ID, Customer, Status, Note string
	Quantity                   int
}

type officeState struct {
	Orders   []serverOrder  `json:"orders"`
	Settings map[string]any `json:"settings"`
	Requests map[string]int `json:"requests"`
}

// officeRowStatus is the status of the edited row. The filter above the table
// has the same role and name; the one that holds no "Any" is the row's.
func (a agent) officeRowStatus() seen {
	a.s.T.Helper()
	_, actions := a.all()
	i := slices.IndexFunc(actions, func(action seen) bool {
		return action.Role == "combobox" && action.Name == "Status" && action.State.Value != "Any"
	})
	assert.Assert(a.s.T, i >= 0, "%v", actions)
	return actions[i]
}

// officeSettings fills every kind of field on three tabs, and saves once.
func officeSettings(a agent) {
	a.s.T.Helper()
	a.click("link", "Settings")
	a.await("Shop name")
	assert.Assert(a.s.T, !a.has("button", "Save settings"), "it is disabled while nothing is changed")
	a.fill("textbox", "Shop name", "Tidal Goods")
	a.fill("textbox", "Handle", "harbor")
	a.await("“harbor” is taken.")
	assert.Assert(a.s.T, a.find("textbox", "Handle").State.Invalid)
	a.fill("textbox", "Handle", "tidal-goods")
	a.await("“tidal-goods” is free.")
	a.fill("textbox", "Email", "ahoy@tidal.example")
	a.fillAs("textbox", "Phone", "555 019 98 88", "(555) 019-9888")
	a.fill("textbox", "About", "Line one\nand line two")
	a.fill("combobox", "Currency", "Swedish krona")
	a.fill("Date", "Open since", "2021-12-24")
	a.fill("ColorWell", "Color", "#aa3300")

	// The tabs are moved through with the arrows; the panel slides in.
	a.click("tab", "Profile")
	a.press("ArrowRight")
	a.await("Tell me of")
	assert.Assert(a.s.T, a.find("tab", "Notifications").State.Focused)
	a.click("checkbox", "A refund")
	a.click("checkbox", "A new order")
	a.click("checkbox", "The digest is ready")
	a.click("radio", "Daily")
	a.click("switch", "Text messages")
	assert.Equal(a.s.T, a.find("switch", "Text messages").State.Checked, true)
	a.fill("InputTime", "From", "21:30")

	a.click("tab", "Shipping")
	a.await("Handling, days")
	a.fill("spinbutton", "Minimum order", "501")
	a.fill("slider", "Handling, days", "9")
	a.click("option", "Asia")
	a.click("button", "Save settings")
	a.await("The minimum is 0 to 500.")
	a.fill("spinbutton", "Minimum order", "40")
	a.click("button", "Save settings")
	a.await("Settings are saved.")
	a.await("All is saved")
	var state officeState
	a.server("vue", &state)
	assert.DeepEqual(a.s.T, state.Settings, map[string]any{
		"name": "Tidal Goods", "handle": "tidal-goods", "email": "ahoy@tidal.example", "phone": "(555) 019-9888", "about": "Line one\nand line two",
		"currency": "SEK", "opened": "2021-12-24", "color": "#aa3300", "events": []any{"refund", "digest"}, "digest": "daily", "texts": true,
		"quietFrom": "21:30", "quietTo": "07:00", "minimum": 40.0, "handling": 9.0, "regions": []any{"asia"},
	})
	assert.Equal(a.s.T, state.Requests["PUT settings"], 2)
	assert.Equal(a.s.T, state.Requests["GET handle"], 2)
}

type gridState struct {
	Cells map[string]map[string]string `json:"cells"`
	Edits []struct {
		Row    int    `json:"row"`
		Column string `json:"column"`
		Value  string `json:"value"`
	} `json:"edits"`
	Requests map[string]int `json:"requests"`
}

// gridCells filters, sorts and edits cells of the first row.
func gridCells(a agent) {
	a.s.T.Helper()
	a.fill("searchbox", "Filter", "ada moreau kiel open")
	a.await("5 of 50,000 rows")
	a.click("button", "Price")
	a.click("button", "Price ▲")
	a.reads("35768 | Ada Moreau | Kiel | Galley stove | 9 | €468.92 | Open |")

	a.click("gridcell", "35768")
	a.press("ArrowRight", "ArrowRight", "Enter")
	assert.Equal(a.s.T, a.find("textbox", "City").State.Value, "Kiel")
	a.fill("textbox", "City", "Kiel Süd")
	a.press("Enter")
	a.await("1 edited")
	// Enter goes on to the row below.
	assert.Assert(a.s.T, focusedCell(a, "Kiel"))
	a.press("ArrowUp", "ArrowRight", "ArrowRight", "Enter")
	a.fill("textbox", "Quantity", "0")
	a.press("Enter")
	a.await("Row 35768: Quantity must be a whole number from 1 to 9999.")
	a.press("ArrowUp", "Enter")
	a.fill("textbox", "Quantity", "17")
	a.press("Escape")
	a.press("ArrowRight", "ArrowRight", "F2")
	a.fill("combobox", "Status", "Sent")
	a.pressOn("combobox", "Status", "Enter")
	a.await("2 edited")
	a.reads("35768 | Ada Moreau | Kiel Süd | Galley stove | 9 | €468.92 | Sent |")
	a.press("ArrowUp")
	a.doubleClick("gridcell", "Sent")
	a.fill("combobox", "Status", "Returned")
	a.pressOn("combobox", "Status", "Enter")
	a.reads("€468.92 | Returned |")
	var state gridState
	// The grid shows a value before the server has it.
	a.serverUntil("grid", &state, func() bool { return state.Requests["PUT cell"] == 4 })
	assert.DeepEqual(a.s.T, state.Cells, map[string]map[string]string{"35768": {"city": "Kiel Süd", "status": "Returned"}})
}

// focusedCell reports whether the cell with the focus has the name.
func focusedCell(a agent, name string) bool {
	a.s.T.Helper()
	_, actions := a.all()
	return slices.ContainsFunc(actions, func(c seen) bool { return c.Role == "gridcell" && c.Name == name && c.State.Focused })
}

// gridKeys goes to the ends of 50,000 rows and selects there.
func gridKeys(a agent) {
	a.s.T.Helper()
	a.click("checkbox", "Select row 26044")
	a.await("1 selected")
	a.fill("searchbox", "Filter", "")
	a.await("50,000 of 50,000 rows")
	a.click("button", "No.")
	a.reads("| 1 | Hana Fontaine | Dresden |")
	var first look
	a.s.Value("page.snapshot", `{"role":"gridcell"}`, &first)
	// The one that can be tabbed to comes before those that the arrows reach.
	assert.Equal(a.s.T, first.Actions[0].Name, "Returned")
	a.s.Call("input.click", map[string]any{"ref": first.Actions[0].ID})
	a.press("Control+End")
	a.reads("| 50000 | Emil Kovacs | Esbjerg | Deck paint | 81 | €1.00 | Open |")
	assert.Assert(a.s.T, focusedCell(a, "Open"))
	a.press("Home", "Space")
	a.await("2 selected")
	assert.Equal(a.s.T, a.find("checkbox", "Select row 50000").State.Checked, true)
	a.press("PageUp", "PageUp")
	a.reads("| 49960 |")
	a.click("button", "Clear selection")
	a.awaitGone("selected")
	a.press("Control+Home")
}

// checkoutRefused tries to pay for nothing: what is wrong is listed, and its
// links go to the fields, that of the card into the provider's frame.
func checkoutRefused(a agent) {
	a.s.T.Helper()
	a.click("button", "Pay €190.00")
	a.await("Please check 9 things")
	a.reads("Choose a way of delivery.")
	a.reads("Your card number is incomplete.")
	a.click("link", "Enter your name.")
	name := a.find("textbox", "Full name")
	assert.Assert(a.s.T, name.State.Focused)
	assert.Assert(a.s.T, name.State.Invalid)
	a.click("link", "Your card number is incomplete.")
	// The page asks the frame of another site to take the focus, which it does
	// when it has heard of it.
	number := a.find("textbox", "Card number")
	for end := time.Now().Add(5 * time.Second); !number.State.Focused && time.Now().Before(end); {
		number = a.find("textbox", "Card number")
	}
	assert.Assert(a.s.T, number.State.Focused)
	assert.Assert(a.s.T, number.State.Invalid)
}

// checkoutFilled fills the form and the frame in it.
func checkoutFilled(a agent) {
	a.s.T.Helper()
	a.fill("textbox", "Email", "ada@example.com")
	a.click("checkbox", "Send me news and offers")
	a.fill("textbox", "Full name", "Ada Lovelace")
	a.fill("combobox", "Find your address", "12 an")
	a.await("12 Anchor Lane")
	assert.Equal(a.s.T, *a.find("combobox", "Find your address").State.Expanded, true)
	a.press("ArrowDown", "ArrowDown", "Enter")
	assert.Equal(a.s.T, *a.find("combobox", "Find your address").State.Expanded, false)
	assert.Equal(a.s.T, a.find("textbox", "Street and number").State.Value, "12 Anchor Lane")
	assert.Equal(a.s.T, a.find("combobox", "Country").State.Value, "United Kingdom")
	a.fill("combobox", "Find your address", "analytical")
	a.await("N1 9GU London, United Kingdom")
	a.click("option", "12 Analytical Way N1 9GU London, United Kingdom")
	assert.Equal(a.s.T, a.find("textbox", "Postcode").State.Value, "N1 9GU")
	a.click("radio", "Express the next day €12.90")
	a.await("€202.90")
	a.fill("textbox", "Promo code", "harbor10")
	a.click("button", "Apply")
	a.await("10% off with HARBOR10")
	a.await("€183.90")

	a.fill("textbox", "Card number", "4000 0027 6000 3184")
	a.fill("textbox", "Expires", "12 / 30")
	a.fill("textbox", "Security code", "737")
	assert.Assert(a.s.T, a.find("textbox", "Card number").State.Redacted)
	read := a.read()
	assert.Assert(a.s.T, !strings.Contains(read, "3184") && !strings.Contains(read, "737"), "a secret is told:\n%s", read)
	a.click("checkbox", "I have read the terms of sale and accept them")
	assert.Equal(a.s.T, a.find("checkbox", "I have read the terms of sale and accept them").State.Checked, true)
}

// checkoutPaid passes the bank's question, two frames deep, at the second try.
func checkoutPaid(a agent) {
	a.s.T.Helper()
	a.click("button", "Pay €183.90")
	a.await("Confirm €183.90 to Saltmarsh with the card ending in 3184.")
	first, actions := a.all()
	assert.Assert(a.s.T, first.Modal != nil && first.Modal.Label == "Card verification", "%v", first.Modal)
	assert.Assert(a.s.T, !slices.ContainsFunc(actions, func(action seen) bool { return action.Name == "Card number" || action.Name == "Email" }), "the checkout and its frame are inert: %v", actions)
	a.fill("textbox", "Code", "111111")
	a.click("button", "Confirm payment")
	a.await("That code is wrong. Tries left: 2.")
	a.fill("textbox", "Code", "246810")
	a.pressOn("textbox", "Code", "Enter")
	a.await("Thank you, Ada Lovelace")
	a.reads("Your order SP-3001 of €183.90 is paid with the card ending in 3184.")
	first, _ = a.all()
	assert.Equal(a.s.T, first.URL, a.s.Site.URL("apps/checkout/index.html?order=SP-3001"))

	var state struct {
		Orders     []map[string]any `json:"orders"`
		Challenges []map[string]any `json:"challenges"`
		Requests   map[string]int   `json:"requests"`
	}
	a.server("checkout", &state)
	assert.DeepEqual(a.s.T, state.Orders, []map[string]any{{
		"number": "SP-3001", "email": "ada@example.com", "name": "Ada Lovelace", "street": "12 Analytical Way", "postcode": "N1 9GU", "town": "London",
		"country": "United Kingdom", "delivery": "express", "promo": "HARBOR10", "terms": true, "newsletter": true, "cents": 18390.0, "card": "3184", "challenged": true,
	}})
	assert.DeepEqual(a.s.T, state.Challenges, []map[string]any{{"id": "ch-1", "cents": 18390.0, "card": "3184", "passed": true, "wrong": 1.0}})
	assert.Equal(a.s.T, state.Requests["POST orders"], 2, "asked once, and sent again after the bank's word")
	assert.Equal(a.s.T, state.Requests["POST tokens"], 1)
}
