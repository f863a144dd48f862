// Package wire holds the frames of the sockets of a bridge owner: /connector
// and /pairing for the extension, /owner for programs on this machine.
//
// It has the types of every frame, their strict decoders and fast encoders,
// the [Contract] that both sides must agree on with its fingerprint, and the
// HMAC messages with which both sides prove that they hold a secret. It opens
// no socket and reads no clock: time is an argument.
//
// docs/protocol.md describes the conversation. The golden frames in
// fixtures/wire are read by the tests of this package and by those of the
// extension.
package wire
