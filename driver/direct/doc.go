// Package direct drives a throw-away Chromium over a pipe: it starts the
// browser, speaks the protocol with it and ends it. The sandbox, the demo and
// the tests use it; the user's own browser is reached through the extension
// only.
//
// A [Page] has the methods of driver.Conn, so every page operation runs over
// it as over the relay.
//
// # Concurrency
//
// One goroutine of a [Browser] reads the pipe. It calls the listeners of the
// pages itself, so a reply reaches its caller only after the listener has
// returned for every event before it. One goroutine writes. [Browser.Close]
// waits for both and for the browser's processes.
package direct
