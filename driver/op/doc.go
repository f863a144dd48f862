// Package op says what an operation is: its name, profile, deadline, effect
// class, input and result schema, examples and error codes, and the one error
// type that crosses every surface.
//
// The package knows neither a browser nor a socket. The driver defines
// operations with [Define]; the bridge and the surfaces see only the
// [Descriptor] of each, and the small shared values of this package ([Tab],
// [Event], [TabKey]).
package op
