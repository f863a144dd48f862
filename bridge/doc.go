// Package bridge is the owner of one loopback port: it authenticates the
// extension and the programs of this machine, keeps sessions, the tabs they
// own and the journal of their commands, and carries every call of an
// operation to exactly one tab of one browser profile.
//
// The package never imports the driver. Operations arrive as a [Handler].
//
// # Trust
//
// Loopback is not trust. The extension proves its connector secret, a program
// proves the owner credential, and the owner proves both back; no secret
// crosses the socket. Every route checks Host, and Origin where there is one.
//
// # Path of a command
//
// A command enters through the socket /owner, is validated, authorized, bound
// to one connector and one tab, admitted to the connector's mailbox, written
// to the journal when it may mutate, run, and its result is durable before it
// is told. What was delivered is never sent again.
//
// # Concurrency
//
// Server.mu guards the maps of sessions, clients and mailboxes. It is never
// held over I/O, a call of the browser, a callback, or a transaction of
// state.db. Each session lets its commands enter one by one on a goroutine of
// its own; each tab's commands that may mutate run one by one on another; each
// program has a reader and a writer. All are counted in Server.wg and end when
// the server closes. The relay has its own: see [Relay].
package bridge
