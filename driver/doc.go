// Package driver holds the page logic of pi-chrome: one file an operation, on
// typed cdproto commands over a [Conn].
//
// A Conn is one debugged tab, behind the extension's relay or behind a pipe;
// the driver cannot tell them apart. [Operations] is the one list of what the
// driver can do, [Driver.Run] the one way in.
//
// # Concurrency
//
// A [Conn] calls the tab's listener on one goroutine, in the order of the
// events, and hands a reply to its caller only after the listener has returned
// for every event before it. The listener therefore applies the pure reducers
// of cdpmodel under the tab's mutex, never blocks and never calls Chrome; what
// an event makes necessary (a child session to set up) is done by the tab's
// one loop goroutine, which Close waits for. No lock is held across a call to
// Chrome. Commands that may change a tab come one at a time; the bridge sees
// to it.
package driver
