package conformance

import "slices"

// allCases returns every case in the order in which they run. A new group of
// cases is a new file with a list of its own, added here.
func allCases() []testCase {
	return slices.Concat(
		capabilityCases,
		connectorCases,
		silentCases,
		replyCases,
		errorCases,
		argsCases,
		onceCases,
		ctxCases,
		recoverCases,
		stallCases,
		closeCases,
		batchCases,
		subscribeCases,
		subscribeCtxCases,
		subscribeFaultCases,
		listenCases,
		describeCases,
		lockCases,
		reentrantCases,
		readWriteCases,
	)
}
