// Package relaytest drives real pages over the whole path, as an agent does:
// program, owner, relay, extension, tab. Its tests run in two lanes: a headless
// browser, and one with windows on a display with a window manager, since
// focus, hidden, occluded and minimized windows exist only there.
package relaytest
