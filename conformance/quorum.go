package conformance

import (
	"context"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// Quorum runs the cases that are about locks, on a quorum of n embedded servers instead of one
// server: what holds for locks through this driver holds there, too. All ways to the nodes are
// on one wire, so that a fault is a fault of a majority. Cases that are about one server are
// skipped, and so is everything on a real server and where [Harness.TCPOnly] is set.
func Quorum(n int) Option { return func(o *options) { o.quorum = n } }

// notOnQuorum says why a case, or every case below that name, is not for a quorum.
var notOnQuorum = map[string]string{
	"Lock/Mutex/TwoCommands":              oneServer,
	"Lock/Mutex/LateRequest":              oneFault,
	"Lock/Mutex/GivenUpAttemptReleased":   oneFault,
	"Lock/Watchdog/StopsAfterUnlock":      oneFault,
	"Lock/Watchdog/Off":                   oneServer,
	"Lock/Watchdog/Batch":                 oneServer,
	"Lock/Loss/LateReply":                 oneFault,
	"Lock/WakeUp/PollOnly":                oneConnector,
	"Lock/WakeUp/OneConnection":           oneServer,
	"Lock/Queue":                          noOrder,
	"Lock/Line":                           noLine,
	"Lock/Mutex/UnreachableNotLocked":     votes,
	"Reentrant/SameOwner":                 oneServer,
	"Reentrant/Do":                        oneServer,
	"Reentrant/GivenUp":                   oneFault,
	"ReadWrite/TwoCommands":               oneServer,
	"ReadWrite/Tokens":                    noTokens,
	"ReadWrite/WriterReads":               noTokens,
	"ReadWrite/Downgrade":                 noTokens,
	"ReadWrite/Order":                     noOrder,
	"ReadWrite/NoStarvation":              noOrder,
	"ReadWrite/WakeTogether":              noOrder,
	"ReadWrite/WriteReleasedWhileReading": noOrder,
}

const (
	noOrder      = "a quorum keeps no order of arrival, and nobody is granted the lock by another's release"
	noLine       = "each goroutine of a client has a place of its own in the queues of a quorum"
	oneServer    = "the case counts the commands or connections to one server"
	oneFault     = "the fault befalls one request, and a majority answers without that node"
	oneConnector = "the case changes one connector"
	noTokens     = "those who read have no fencing token on a quorum"
	votes        = "what one node replied is among the votes that the error tells"
)

// unfitForQuorum returns why a case does not run on a quorum.
func (s *suite) unfitForQuorum(name string) string {
	if s.realTime() {
		return "a quorum is tested on embedded servers, in virtual time"
	}
	for clause, why := range notOnQuorum {
		if covers(clause, name) {
			return why
		}
	}
	return ""
}

type nodeKey struct{}

// onNode makes a dial, through whatever wire, lead to the i-th node.
func onNode(ctx context.Context, i int) context.Context {
	return context.WithValue(ctx, nodeKey{}, i)
}

func nodeOf(ctx context.Context) int {
	i, _ := ctx.Value(nodeKey{}).(int)
	return i
}

// addNodes makes s the first node of a quorum.
func (s *server) addNodes(suite *suite, n int) error {
	first := s.dial
	for len(s.others) < n-1 {
		other, err := startServer(suite, s.prefix, s.moved)
		if err != nil {
			return err
		}
		s.others = append(s.others, other)
	}
	s.dial = func(ctx context.Context) (net.Conn, error) {
		if i := nodeOf(ctx); i > 0 {
			return s.others[i-1].dial(ctx)
		}
		return first(ctx)
	}
	return nil
}

// nodes are all servers of the case.
func (s *server) nodes() []*server { return append([]*server{s}, s.others...) }

// agreed is what a majority of nodes says: a number that is no larger than the numbers of
// a majority, a text that is equal on a majority, or a record that has the same id on a
// majority; or all that is in the lists of all nodes.
func agreed(replies []driver.Value) driver.Value {
	need := len(replies)/2 + 1
	var numbers []int64
	var lists []any
	isList := false
	count := map[string]int{}
	for _, v := range replies {
		switch v := v.(type) {
		case int64:
			numbers = append(numbers, v)
		case string:
			same := v
			if f := strings.SplitN(v, "|", 4); len(f) == 4 && f[0] == "gl1" {
				same = strings.Join(f[:3], "|") // the token that each node has drawn may differ
			}
			if count[same]++; count[same] == need {
				return v
			}
		case []any:
			lists, isList = append(lists, v...), true
		}
	}
	switch {
	case isList:
		return lists
	case len(numbers) < need:
		return nil
	}
	slices.Sort(numbers)
	return numbers[len(numbers)-need]
}

// A nodesConnector is what opens the clients of a case on a quorum. Only clientOn
// knows that it stands for several connectors.
type nodesConnector struct {
	driver.Connector
	nodes []driver.Connector
}

// connector is the connector of the kit, or on a quorum those of all nodes.
func (k *lockKit) connector(edit ...func(*driver.Config)) driver.Connector {
	if k.o.quorum == 0 {
		return k.kit.connector(edit...)
	}
	var c nodesConnector
	for i := range k.o.quorum {
		c.nodes = append(c.nodes, k.kit.connector(append(edit, func(cfg *driver.Config) {
			dial := cfg.Dial
			cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				return dial(onNode(ctx, i), network, addr)
			}
		})...))
	}
	c.Connector = c.nodes[0]
	return c
}

// newClient makes a client of what connector has returned.
func (k *lockKit) newClient(c driver.Connector, opts []locker.ClientOption) (*locker.Client, error) {
	if k.o.quorum == 0 {
		return locker.New(c, opts...)
	}
	q, ok := c.(nodesConnector)
	if !ok {
		k.Fatalf("the case opens a %T; on a quorum it has to be skipped", c)
	}
	return locker.NewQuorum(q.nodes, append(opts, locker.QuorumConfig{Bootstrap: true, LongestTTL: 24 * time.Hour})...)
}

// bootstrap sees to it that the nodes are new no more, by a way to them that no case sees.
func (k *lockKit) bootstrap() {
	w := wire.New(k.server.dial)
	defer w.Close()
	c, err := k.newClient(k.connector(k.via(w)), nil)
	if err != nil {
		k.Fatalf("locker.NewQuorum: %v", err)
	}
	defer c.Close()
	l := k.take(c.Mutex("conformance"))
	k.unlock(l)
}
