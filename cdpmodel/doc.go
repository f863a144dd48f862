// Package cdpmodel holds the decisions of pi-chrome as pure values and
// transitions: navigation generations, debugger leases, screenshot tiles,
// evaluation markers.
//
// Pure means: no goroutine, no clock, no input or output. Time and ids are
// arguments, effects are returned. What a type needs to know of Chrome it is
// told in events.
package cdpmodel
