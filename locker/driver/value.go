package driver

// A Value is a reply of the server, one of:
//
//	nil           no value (RESP2 null bulk or null array, RESP3 null)
//	int64         an integer
//	string        a simple or bulk string, any bytes
//	[]any         an array of these, possibly nested
//
// A driver that speaks RESP3 maps its other types to these, so that a script's
// reply looks the same through every client: a boolean becomes 1 or 0, a double,
// big number or verbatim string its text, a set an array, a map an array of
// alternating keys and values.
//
// A Value is the caller's: nothing that the connection reads later changes it.
//
// An error reply of a whole command is never a Value but the error of Do. An
// error nested in an array is a [*ServerError] in its place.
type Value any
