package driver

import (
	"context"
	"encoding/json"
	goflag "flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"pi-chrome/driver/direct"
	"pi-chrome/driver/drivertest"
	"pi-chrome/driver/op"
	"pi-chrome/driver/pagecases"
)

var _ Conn = (*direct.Page)(nil)
var _ Conn = (*drivertest.Recorder)(nil)

func TestMain(m *testing.M) { drivertest.Main(m) }

// laneDrivers has the driver of each tab of a direct lane.
var laneDrivers sync.Map // of drivertest.Conn, *Driver

// directLane runs cases over the pipe, with a driver of its own. A tab of the
// lane is recorded: its Conn is a *drivertest.Recorder.
func directLane(t testing.TB) drivertest.Lane {
	d := New(nil)
	t.Cleanup(d.Close)
	return drivertest.Lane{
		Name: "direct",
		Open: func(t testing.TB) drivertest.Conn {
			c := drivertest.Record(t, drivertest.Page(t))
			laneDrivers.Store(c, d)
			t.Cleanup(func() { laneDrivers.Delete(c) })
			return c
		},
		Run: func(ctx context.Context, c drivertest.Conn, operation string, input json.RawMessage) (op.Result, error) {
			return d.Run(ctx, operation, &Call{ID: "test", Session: op.Session{Key: fmt.Sprint("test-", c.Key().TabID)}, Conn: c}, input)
		},
	}
}

// start opens a hidden tab on the direct lane and loads the fixture, if any.
func start(t testing.TB, page string) *drivertest.Scenario {
	t.Helper()
	s := drivertest.Start(t, directLane(t), "unnamed--case")
	if page != "" {
		s.Goto(page)
	}
	return s
}

// recorded is the recorder of a scenario of the direct lane.
func recorded(s *drivertest.Scenario) *drivertest.Recorder { return s.Conn.(*drivertest.Recorder) }

// whole reports whether all tests run, in their short form.
func whole() bool { return goflag.Lookup("test.run").Value.String() == "" && !thorough() }

// TestCases runs what must hold on every lane. A run of all tests leaves every
// second case to the relay's lane, which runs each of them: make test would
// take too long otherwise.
func TestCases(t *testing.T) {
	cases := pagecases.All()
	if whole() {
		n := 0
		cases = slices.DeleteFunc(cases, func(c drivertest.Case) bool {
			if slices.Contains(pagecases.DirectOnly, c.Name) || strings.HasPrefix(c.Name, "evaluate--") { // some have goldens here
				return false
			}
			n++
			return n%2 == 0
		})
	}
	drivertest.RunCases(t, directLane(t), cases)
}
