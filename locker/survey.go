package locker

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

const (
	// surveyTime bounds what the server is asked for warnings.
	surveyTime = 5 * time.Second
	// surveyPause lies between surveys in vain, growing to surveyLimit: a server that is busy
	// will tell soon, and a proxy that knows no INFO and breaks the connection never.
	surveyPause = time.Second
	surveyLimit = time.Minute
)

// surveySections are those of INFO that warnings are made of. They are asked for one by one,
// as servers before 7.0 want it; all of them would be some kilobytes.
var surveySections = []string{"memory", "persistence", "replication"}

// survey looks at how the server of a node is set up, beside the requests that follow its
// first reply, and warns of what endangers locks. Where the server cannot tell just now it is
// done again, after a pause and the next reply. One that does not tell is no reason for a warning.
func (c *Client) survey(node int, l *link, conn driver.Conn) {
	if c.enter() != nil {
		return
	}
	go func() {
		defer c.leave()
		ctx, cancel := context.WithTimeout(c.ctx, surveyTime)
		defer cancel()
		info := map[string]string{}
		for _, section := range surveySections {
			v, err := conn.Do(ctx, driver.Command{Args: []string{"INFO", section}})
			if err != nil {
				if transient(err) && c.sleep(c.ctx, min(surveyPause<<min(l.failed, 10), surveyLimit)) == nil {
					l.failed++
					l.met.Store(false)
				}
				return
			}
			text, _ := v.(string)
			parseInfo(text, info)
		}
		if c.quorum != nil && volatile(info) && !snapshots(info) {
			info["save"] = saves(ctx, conn)
		}
		for _, w := range warnings(info, l.cluster.Load(), c.quorum != nil) {
			w.Node = node
			c.observers.warning(w)
		}
		if c.quorum != nil && volatile(info) && !snapshots(info) {
			c.quorum.diskless.add(node)
		}
	}()
}

// parseInfo adds the fields of an INFO reply.
func parseInfo(text string, fields map[string]string) {
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
}

// saves is when the server makes snapshots, as it is set up; empty if never, or if that is
// not told.
func saves(ctx context.Context, conn driver.Conn) string {
	v, err := conn.Do(ctx, driver.Command{Args: []string{"CONFIG", "GET", "save"}})
	reply, ok := v.([]any)
	if err != nil || !ok || len(reply) != 2 {
		return ""
	}
	when, _ := reply[1].(string)
	return when
}

// volatile reports whether the server has no append-only file.
func volatile(info map[string]string) bool { return info["aof_enabled"] == "0" }

// snapshots reports whether the server has made a snapshot since its start, or will.
// Before Redis 7.0 a server does not count them, but tells how long the last one took.
func snapshots(info map[string]string) bool {
	if made, ok := info["rdb_saves"]; ok && made != "0" {
		return true
	} else if took, old := info["rdb_last_bgsave_time_sec"]; !ok && old && took != "-1" {
		return true
	}
	return info["save"] != ""
}

// warnings are about what INFO tells of a server: of any one of them in a Cluster.
func warnings(info map[string]string, cluster, quorum bool) []Warning {
	var found []Warning
	warn := func(kind, format string, args ...any) {
		found = append(found, Warning{Kind: kind, Text: fmt.Sprintf(format, args...)})
	}
	switch policy := info["maxmemory_policy"]; {
	case policy == "" || policy == "noeviction":
	case info["maxmemory"] == "0":
		warn("eviction", "the server's maxmemory-policy is %s, which may evict locks as soon as a maxmemory is set; use noeviction", policy)
	default:
		warn("eviction", "the server's maxmemory-policy is %s: when memory is short it may evict locks that are held, and others get them; use noeviction", policy)
	}
	if role := info["role"]; !cluster && (role == "slave" || role == "replica") {
		warn("replica", "the address leads to a replica: it refuses locks, or keeps them where nobody else sees them if it is writable; use the primary's address, or Sentinels")
	}
	if quorum && volatile(info) && snapshots(info) {
		warn("persistence", "the node keeps snapshots without an append-only file: a restart brings it back to an older state, in which leases are missing that are held, and no quarantine notices; use appendonly yes, or no persistence at all")
	}
	return found
}

func disklessWarning(node int) Warning {
	return Warning{Kind: "persistence", Node: node, Text: "the node keeps no append-only file: if most nodes lose their data at once, fencing tokens go on from the clocks, and are larger than earlier ones only if these are right; use appendonly yes where that may not be"}
}
