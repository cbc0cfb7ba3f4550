// Package integration has no code but tests: they hold the locks of package
// locker, through every driver, to the project's invariants and bars, against
// real servers and through lines that fail. It is written for the contributor who
// changes the core or a driver and wants to know what that broke.
//
// Everything goes through the public API, as an application would. A test that
// is about one driver alone belongs to that driver, one that every driver's
// author should run belongs to package conformance.
//
// With -short the tests that repeat a scenario many times repeat it less often.
package integration
