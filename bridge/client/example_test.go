package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"time"

	"pi-chrome/bridge"
	"pi-chrome/bridge/client"
	"pi-chrome/bridge/wire"
	"pi-chrome/driver/op"
)

// A program works in the user's browser as a session of its own. The owner
// runs already (any command of pi-chrome starts one), the profile is paired,
// and the user has allowed the session: pi-chrome authorize --session report.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dir, err := bridge.DefaultStateDir()
	if err != nil {
		log.Fatal(err)
	}
	c, err := client.Dial(ctx, client.Options{Port: bridge.DefaultPort, StateDir: dir, Name: "report 1.0"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	session := wire.Session{Key: "report", Title: "Report"}
	// The first operation on a page makes a tab that the session owns; the
	// others find it again. The tab in front of the user is never touched.
	for _, step := range []struct{ operation, input string }{
		{"page.navigate", `{"url":"https://example.com/","waitUntilLoad":true}`},
		{"page.snapshot", `{"mode":"interactive"}`},
	} {
		out, err := c.Command(ctx, wire.Command{Operation: step.operation, Session: session, Input: json.RawMessage(step.input)}, nil)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(out.Result.Text)
	}
	// The tabs of the session are closed. Without this they stay for the next
	// run.
	if err := c.Request(ctx, "cleanup", bridge.CleanupParams{Session: session.Key}, nil); err != nil {
		log.Fatal(err)
	}
}

// An error says whether there may have been an effect. A program that repeats
// what may have happened does it twice.
func ExampleClient_Command() {
	ctx := context.Background()
	var c *client.Client // of Dial

	id := client.NewID()
	press := wire.Command{ID: id, Operation: "input.click", Session: wire.Session{Key: "report"}, Input: json.RawMessage(`{"ref":"el-16"}`)}
	out, err := c.Command(ctx, press, func(done, total int, note string) { fmt.Printf("%d of %d: %s\n", done, total, note) })
	e, failed := errors.AsType[*op.Error](err)
	switch {
	case !failed:
		fmt.Println(out.Result.Text)
	case e.Kind == op.OutcomeUnknown:
		// It may have been done. The owner can be asked later, by the id.
		var known bridge.CommandOutcome
		if err := c.Request(ctx, "outcome", bridge.OutcomeParams{ID: id}, &known); err != nil {
			log.Fatal(err)
		}
		fmt.Println(known.State)
	default:
		// Nothing was done; the hint says what to do first.
		fmt.Println(e.Code, e.Message, e.Hint)
	}
}

// How the browsers and the session stand, without touching a page.
func ExampleClient_Request() {
	ctx := context.Background()
	var c *client.Client // of Dial

	var st bridge.Status
	if err := c.Request(ctx, "status", bridge.SessionParams{Session: "report"}, &st); err != nil {
		log.Fatal(err)
	}
	for _, p := range st.Profiles {
		fmt.Println(p.Label, p.Live)
	}
	for _, need := range st.Requirements {
		if !need.OK {
			fmt.Println(need.Mend)
		}
	}
}
