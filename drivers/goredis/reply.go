package goredis

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/aside"
)

// errNested tells of a reply that go-redis has not read to its end: an array that contains an
// error reply for which go-redis has a type. It returns that error as the
// command's, and takes the rest of the array for the next replies. See command.SetErr.
var errNested = errors.New("go-redis cannot read an array with this error in it")

// errReplaced tells of a node of a Cluster that redirects commands to its own address: another node has that by now, as
// when a managed service replaces a node under its name, and the present connections lead to the former one.
// go-redis closes a connection that has brought such a reply, unless it was to a pipeline. It does close
// one that it cannot write to.
var errReplaced = errors.New("the connection led to a node that was replaced by another one under its address")

// errUnasked tells of a command that has no error, though go-redis has not begun to write it: no
// server has answered. It comes from a hook that lets the application go on without Redis, or from a cache.
var errUnasked = errors.New("a hook of the client has answered in the place of the server")

// errHidden tells of a command that go-redis may have written, and that has neither a reply nor
// an error. go-redis itself leaves no command so: a nil reply has the error redis.Nil.
var errHidden = errors.New("a hook of the client has hidden the error, or that the reply was nil")

// result returns what go-redis made of the reply. A nil reply is an error to go-redis, and hooks of
// the application wrap it like any other. But where the command was not begun, the nil is that of a
// Sentinel that does not know the master, or stands in the place of the address of a Cluster's node.
func (c *command) result() (any, error) {
	v, err := c.Val(), c.err
	switch begun := c.begun.Load(); {
	case begun && errors.Is(err, redis.Nil):
		return nil, nil
	case !begun && err == nil:
		return nil, errUnasked
	case err == nil && v == nil:
		return nil, errHidden
	}
	return v, err
}

// toValue converts what go-redis makes of a reply.
func toValue(v any) driver.Value {
	switch v := v.(type) {
	case []any:
		for i, element := range v {
			v[i] = toValue(element)
		}
		return v
	case map[any]any:
		flat := make([]any, 0, 2*len(v))
		for key, element := range v {
			flat = append(flat, toValue(key), toValue(element))
		}
		return flat
	case bool:
		if v {
			return int64(1)
		}
		return int64(0)
	case float64:
		text := strings.ToLower(strconv.FormatFloat(v, 'g', -1, 64))
		return strings.TrimPrefix(text, "+") // inf, -inf and nan as RESP3 has them
	case *big.Int:
		return v.String()
	case error:
		return driver.NewServerError(v.Error())
	default: // nil, int64, string
		return v
	}
}

// commandFailure converts the error of rc. If go-redis has not begun to write the command, an error
// reply answers something else: what sets up a connection, or asks a Sentinel
// for the master or a Cluster for its slots. If it has begun, nothing
// proves that the command was not sent: the error may be that of another client, which a hook has used, or in
// a pipeline that of a later command, where the connection broke.
//
// In a Cluster there is a pipeline for each node, and an error that is no reply proves nothing: when
// go-redis maps commands to nodes again, after a redirection or because it had no connection to
// a node, and then loses the connection to the new node, some commands keep their
// former error.
func (c *conn) commandFailure(ctx context.Context, e *exchange, rc *command, err error) error {
	begun := rc.begun.Load()
	reply, refused := serverError(err)
	unsure := c.mode == driver.ModeCluster && len(e.commands) > 1 && (!refused || reply.Code == "MOVED" || reply.Code == "ASK")
	switch {
	case unsure, begun && !refused:
		return c.unknownFailure(ctx, err)
	case refused && !begun:
		return driver.NotSent(fmt.Errorf("goredis: no connection: %w", reply))
	case !begun && c.dialer != nil: // the connection broke while it was set up, and no hook has sent something else
		return driver.NotSent(c.failure(ctx, err))
	}
	return c.failure(ctx, err)
}

// failure converts an error of go-redis that is not that of a command which it has begun to
// write. Since go-redis sends a command once only, an error from before the sending is its last one.
func (c *conn) failure(ctx context.Context, err error) error {
	if reply, ok := serverError(err); ok {
		if unserving[reply.Code] {
			c.nodes.ask(c.life)
		}
		return reply
	}
	switch nothing := errors.Is(err, redis.Nil); { // not the reply to the command, see result
	case nothing && c.mode == driver.ModeCluster:
		return driver.NotSent(errors.New("goredis: the nodes of the Cluster do not tell their addresses, without which go-redis cannot use it: set their cluster-preferred-endpoint-type to ip, or to hostname and the cluster-announce-hostname of each"))
	case nothing && c.mode == driver.ModeSingle:
		return fmt.Errorf("goredis: %w was no reply: a hook of the client, its OnConnect or its credentials brought it", err)
	case nothing:
		return driver.NotSent(fmt.Errorf("goredis: no Sentinel knows the master's name: %w", err))
	}
	if away, ok := errors.AsType[*turnedAway](err); ok {
		return driver.NotSent(fmt.Errorf("goredis: no connection: %w", away.reply))
	}
	if errors.Is(err, redis.ErrClosed) {
		return driver.NotSent(fmt.Errorf("goredis: %w: %w", driver.ErrClosed, err))
	}
	unknown := c.unknownFailure(ctx, err)
	op, ok := errors.AsType[*net.OpError](err)
	if ok && op.Op == "dial" || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) {
		return driver.NotSent(unknown)
	}
	return unknown
}

// unserving are the codes of a node that the others may have replaced by another, and that redirects nobody to it:
// it is cut off from them, loads its data after a restart, or is busy with a script. A replica does
// redirect, but not where a ClusterClient is used with servers that are no Cluster, as by NewFailoverClusterClient.
var unserving = map[string]bool{"CLUSTERDOWN": true, "LOADING": true, "BUSY": true, "READONLY": true}

// unknownFailure lets err also match the end of the Conn or ctx that caused
// it. err is no reply: in a Cluster, another node may be the master by now.
func (c *conn) unknownFailure(ctx context.Context, err error) error {
	c.nodes.ask(c.life)
	ended := aside.Ended(ctx) // go-redis' sockets have the same deadline, and may be first
	err = c.dialer.Redact(err)
	switch {
	case c.life.Err() != nil:
		return fmt.Errorf("goredis: %w: %w", driver.ErrClosed, err)
	case ended != nil:
		return fmt.Errorf("goredis: %w: %w", ended, err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		// A dial of go-redis has a ctx of its own, whose end is not the caller's.
		return fmt.Errorf("goredis: %v, of the client and not of the caller", err)
	}
	return fmt.Errorf("goredis: %w", err)
}

// serverError finds an error reply, even if a hook has wrapped it. redis.Nil is none.
func serverError(err error) (*driver.ServerError, bool) {
	reply, ok := errors.AsType[redis.Error](err)
	if !ok || reply == redis.Nil {
		return nil, false
	}
	return driver.NewServerError(reply.Error()), true
}
