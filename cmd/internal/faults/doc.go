// Package faults holds the evidence that the bridge tells the truth when its
// parts fail: two real browsers with the real extension, an owner in a process
// of its own, real sockets, and a server that counts what every command did.
// Its tests break the worker, the sockets, the browsers, the owner and its disk
// while commands run, attack the owner's port, and put load on it.
package faults
