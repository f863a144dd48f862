// Package cli is the command line of pi-chrome: one command for each operation
// of the driver, made from its descriptor, and the commands around them.
//
// Rules of its output. Results go to stdout. With --json stdout holds exactly
// one object, whether the command succeeded or not. Without it, errors go to
// stderr as
//
//	pi-chrome: error: what failed
//	pi-chrome: hint: what to do next
//	pi-chrome: code: stale-action-ref (see pi-chrome help stale-action-ref)
//
// and progress goes to stderr only when that is a terminal and --quiet was not
// given. --output puts the result, never an error, into a file. Exit codes: 0 done,
// 2 usage or invalid input, 3 rejected, 4 outcome unknown, 5 owner or connector
// unavailable, 130 interrupted.
package cli
