// Package drivertest is what the tests of the driver share: one browser a test
// binary, fixtures on several origins, a recorder that makes calls fail,
// goldens without orphans, pictures compared by pixels, and a table of cases
// that runs over any connection to a tab.
//
// It does not import the driver. A [Lane] brings the connection and the way to
// run an operation; the driver's tests bring a pipe, those of the relay the
// extension.
package drivertest
