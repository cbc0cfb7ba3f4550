//go:build !unix

package wire

// reserve does nothing here: somebody else may be given the port.
func reserve(int) (release func(), err error) { return func() {}, nil }
