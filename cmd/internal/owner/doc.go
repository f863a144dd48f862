// Package owner is the process that holds the port: it gives the bridge the
// driver as its handler, runs it, starts one in the background, and records
// what crosses a tab where a caller asked for a trace.
package owner
