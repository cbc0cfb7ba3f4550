package driver

import (
	"cmp"
	"errors"
	"regexp"
	"strings"
	"sync"
)

var (
	// ErrClosed is the error of every call on a closed Conn or Subscription, or through a
	// client that the application has closed. That a network connection is closed is no reason
	// for it: a caller that gets ErrClosed does not try again.
	ErrClosed = errors.New("driver: closed")

	// ErrUnsupported marks what a driver cannot do at all, however often one tries: a
	// mode or setting of a Config, a client that it cannot wrap (nil is one), or
	// subscribing through a client that has no pub/sub.
	ErrUnsupported = errors.New("driver: not supported")

	// ErrGap is what [Subscription.Receive] returns when messages may have been
	// missed, above all after every reconnect. The Subscription is alive and
	// all its channels are subscribed again.
	ErrGap = errors.New("driver: messages may have been missed")
)

// An Outcome says what is known about the execution of a command whose Do
// returned an error. The zero Outcome is the one that assumes nothing.
type Outcome int

const (
	// OutcomeUnknown: the server may have executed the command, may still do
	// so, or may never have seen it.
	OutcomeUnknown Outcome = iota
	// OutcomeNotSent: the command never left this process.
	OutcomeNotSent
	// OutcomeReplied: the server answered with an error, a [*ServerError]. (The ServerError of
	// a proxy that has had no answer itself is OutcomeUnknown.)
	OutcomeReplied
)

// String returns "unknown", "not sent" or "replied".
func (o Outcome) String() string {
	switch o {
	case OutcomeNotSent:
		return "not sent"
	case OutcomeReplied:
		return "replied"
	default:
		return "unknown"
	}
}

// OutcomeOf returns the outcome that err tells of. Every error that is neither
// a [*ServerError] nor marked by [NotSent] is [OutcomeUnknown], and so is nil:
// a success has no error to ask about. So is a ServerError in which a proxy (twemproxy, Envoy, predixy
// or Codis) says that its server has not answered: the server may have executed the command all the same.
func OutcomeOf(err error) Outcome {
	if _, ok := errors.AsType[*notSentError](err); ok {
		return OutcomeNotSent
	}
	if reply, ok := errors.AsType[*ServerError](err); ok && !unanswered().MatchString(reply.Message) {
		return OutcomeReplied
	}
	return OutcomeUnknown
}

// unanswered finds the replies by which a proxy says that it has no reply from the server. They are those of
// twemproxy (the system's words for what became of the connection, "unknown" where it was closed), Envoy, predixy
// and Codis.
var unanswered = pattern(`^(?:` +
	`ERR (?:Connection (?:timed out|refused|reset by peer)|Broken pipe|No route to host|Host is (?:down|unreachable)|Network is unreachable|unknown)` +
	`|(?:ERR )?(?:no upstream host|upstream failure|upstream protocol error)` +
	`|ERR (?:no server (?:connection )?ava(?:il|li)able|server connection close|deliver request fail)` +
	`|ERR handle response, .*)$`)

// pattern is compiled at its first use: many programs that begin never see such an error.
func pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// NotSent marks err: the command provably never left this process. Its text and
// everything errors.Is and errors.As find in it stay the same. NotSent(nil) is nil.
func NotSent(err error) error {
	if err == nil {
		return nil
	}
	return &notSentError{err}
}

type notSentError struct{ err error }

func (e *notSentError) Error() string { return e.err.Error() }
func (e *notSentError) Unwrap() error { return e.err }

// A ServerError is an error reply: the server received the command and said no. Only a proxy
// may have said so without the server, see [OutcomeOf].
type ServerError struct {
	// Code is the first word of the reply: "ERR", "NOSCRIPT", "READONLY", … Where a script has
	// met an error, it is that error's code; see [NewServerError].
	Code string
	// Message is the whole reply, with the code. See [NewServerError] for the exceptions.
	Message string
}

// NewServerError makes a ServerError from the text of an error reply, without
// the leading "-" of the protocol. If your client strips the code "ERR" from
// the text, put it back first.
//
// A server that does not know a command quotes what the command was sent with: the password, or
// the id of a lease and its metadata. That is left out. Nothing else is, even if a password is
// a word of the reply: what the reply says would be lost, and the password would be told by
// what is missing.
//
// Before Redis 7.0, the error that a command of a script has met stands in the middle of the
// script's own error, as in "@user_script: 7: -OOM command not allowed", behind "ERR Error
// running script …" where the script did not catch it. Code is OOM all the same; a refusal that
// has no code of its own there is an ERR.
//
// When a command of a script is refused because the Cluster is down, the node says so without
// the code that it has for other commands. Code is CLUSTERDOWN all the same.
//
// From a client that has given no password, a server that wants one takes neither many
// arguments nor a long one, as scripts have them: "ERR Protocol error: unauthenticated
// multibulk length". That is told as the NOAUTH with which a smaller command is answered.
func NewServerError(reply string) *ServerError {
	if problem, ok := strings.CutPrefix(reply, "ERR Protocol error: unauthenticated "); ok {
		reply = "NOAUTH Authentication required (unauthenticated " + problem + ")"
	}
	code, _, _ := strings.Cut(reply, " ")
	if inner := inScript().FindStringSubmatch(reply); inner != nil {
		code = cmp.Or(inner[1], "ERR")
	}
	if code == "ERR" && downInScript().MatchString(reply) {
		code = "CLUSTERDOWN"
	}
	reply, _, _ = strings.Cut(reply, ", with args beginning with")
	return &ServerError{Code: code, Message: reply}
}

// inScript finds the code of the error that a script has met, behind the last position in the script that is named.
var inScript = pattern(`^(?:ERR Error running script .*)?@user_script: ?\d+: (?:-?([A-Z][A-Z0-9]+) )?`)

// downInScript finds the reply of a node of a Cluster that is down to a command of a script.
// Before Redis 7.0 it calls the script a Lua script; Valkey 9.1 has the words that elsewhere are for a module's
// commands.
var downInScript = pattern(`^(?:ERR |(?:ERR Error running script .*)?@user_script: ?\d+: )(?:(?:Lua s|S)cript attempted to|Can not) execute a (?:write )?command (?:'[^']*' )?while the cluster is down`)

// Error returns the whole reply.
func (e *ServerError) Error() string { return e.Message }
