// Package pagecases holds the tests of the page operations as values: what
// must hold on a fixture, whichever way the tab is reached. The driver's tests
// run them over the pipe, those of the relay through the extension; the
// results must be equal.
package pagecases

import "pi-chrome/driver/drivertest"

// DirectOnly are the cases that cannot hold over the relay. Each has a test of
// the relay's own for what holds instead.
var DirectOnly = []string{
	"navigate--data-and-blank", // Chrome lets no extension open a data: address: dataAddress
}

// All is every case.
func All() []drivertest.Case {
	var all []drivertest.Case
	for _, cases := range [][]drivertest.Case{navigateCases, waitCases, dialogCases, regressCases, evaluateCases, screenshotCases,
		clickCases, fillCases, pressCases, refCases, receiptCases, typeCases, pointerCases, scrollCases, uploadCases, selectCases, inputFindCases, consoleCases, networkCases, appCases, appFaultCases,
		findCases, readCases, inspectCases, historyCases, crashCases, doCases} {
		all = append(all, cases...)
	}
	return all
}
