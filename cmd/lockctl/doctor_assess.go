package main

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// assess says what the facts mean for locks.
func (f facts) assess(quorum bool) []finding {
	if f.down != nil {
		means := "No lock can be taken here; those that are held are lost when their time is over."
		if quorum {
			means = "Locks go on as long as a majority of the servers answers."
		}
		return []finding{{"connection", problem, f.down.Error(), means}}
	}
	if f.info["redis_mode"] == "sentinel" || f.info["server_mode"] == "sentinel" { // the latter is Valkey's
		return []finding{{"connection", problem, "a Sentinel", "It keeps no locks, and knows none of their commands. Give mode=sentinel&master=… with the addresses of the Sentinels, or the master's own address."}}
	}
	answers := "answers"
	if f.timeErr == nil { // trip is measured by TIME
		answers += " in " + roughly(f.trip)
	}
	return append([]finding{
		{Check: "connection", Level: fine, Found: answers},
		f.version(), f.eviction(), f.persistence(quorum), f.replication(quorum), f.clock(),
	}, f.permissions()...)
}

// known returns a value from INFO, or from CONFIG by its name there.
func (f facts) known(info, config string) (string, bool) {
	if v, ok := f.info[info]; ok && info != "" {
		return v, true
	}
	v, ok := f.config[config]
	return v, ok && config != ""
}

// hidden is the finding about what the server does not tell.
func (f facts) hidden(check, means string) finding {
	found := "INFO and CONFIG do not tell"
	if f.infoErr != nil && driver.OutcomeOf(f.infoErr) != driver.OutcomeReplied { // INFO and CONFIG may be allowed
		found = "INFO: " + f.infoErr.Error()
	}
	return finding{check, unseen, found, means}
}

func (f facts) version() finding {
	name, version := "Redis", f.info["redis_version"]
	if v, ok := f.info["valkey_version"]; ok {
		name, version = "Valkey", v
	}
	if version == "" {
		return f.hidden("version", "Locks do not need INFO. The oldest server supported is Redis 6.0.")
	}
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	if err == nil && name == "Redis" && n < 6 {
		return finding{"version", problem, name + " " + version, "The oldest server supported is Redis 6.0."}
	}
	return finding{Check: "version", Level: fine, Found: name + " " + version}
}

func (f facts) eviction() finding {
	policy, ok := f.known("maxmemory_policy", "maxmemory-policy")
	if !ok {
		return f.hidden("eviction", "With any policy but noeviction a server whose memory is full deletes locks that are held.")
	}
	limit, _ := f.known("maxmemory", "maxmemory")
	found := "maxmemory-policy " + policy
	switch limit {
	case "", "0":
		found += ", no maxmemory"
	default:
		found += ", maxmemory " + limit
	}
	switch {
	case policy == "noeviction":
		return finding{Check: "eviction", Level: fine, Found: found}
	case limit == "" || limit == "0":
		return finding{"eviction", note, found, "Nothing is evicted without a limit. With one, locks would be: set noeviction before maxmemory."}
	}
	return finding{"eviction", problem, found, "When its memory is full the server deletes locks that are held, also with volatile-* policies, as all of them expire. Set maxmemory-policy noeviction, or keep locks on a server of their own."}
}

func (f facts) persistence(quorum bool) finding {
	const check = "persistence"
	aof, ok := f.info["aof_enabled"]
	if !ok {
		return f.hidden(check, "A server that forgets its locks when it is restarted lets others take locks that are held.")
	}
	if quorum {
		return f.nodePersistence(aof == "1")
	}
	sync := cmp.Or(f.config["appendfsync"], "unknown")
	found := "append-only file off"
	means := "After a restart the server has forgotten which locks are held, or has an old state, and others can take them. Their holders learn of it with their next renewal. Use fencing tokens where that matters, or appendonly yes and appendfsync always."
	if aof == "1" {
		found = "append-only file on, appendfsync " + sync
		means = "After a crash the server may have forgotten the locks of " + lossBy(sync, "the last second") + ". Use fencing tokens where that matters, or appendfsync always."
	}
	switch {
	case aof == "1" && sync == "always":
		return finding{Check: check, Level: fine, Found: found}
	case aof == "1" && sync == "unknown":
		return finding{check, note, found, "CONFIG is forbidden. With anything but appendfsync always, a crash may lose the latest locks."}
	}
	return finding{check, warning, found, means}
}

// lossBy is how much of an append-only file is lost by a crash of the host: with appendfsync no, what
// the system has not yet written by itself.
func lossBy(sync, everysec string) string {
	if sync == "no" {
		return "half a minute"
	}
	return everysec
}

// nodePersistence is the finding about a node of a quorum. A node may come back empty, which is noticed,
// or with everything, but must not come back in an older state.
func (f facts) nodePersistence(aof bool) finding {
	const (
		check  = "persistence"
		forgot = "A node that comes back without the latest locks is not recognized and counts at once, so that others may get locks that are held. "
		remedy = "Set appendonly yes and appendfsync always, or keep nothing at all: save \"\", appendonly no, and no dump.rdb left."
	)
	sync, told := f.config["appendfsync"]
	if aof {
		found := "append-only file on, appendfsync " + cmp.Or(sync, "unknown")
		switch {
		case sync == "always":
			return finding{Check: check, Level: fine, Found: found}
		case !told:
			return finding{check, note, found, "CONFIG does not tell. With anything but appendfsync always, a crash of the host may lose the latest locks. " + forgot + remedy}
		}
		return finding{check, warning, found, "A crash of the host loses up to " + lossBy(sync, "two seconds") + ". " + forgot + remedy}
	}
	save, told := f.config["save"]
	saves := cmp.Or(f.info["rdb_saves"], "0") // which Redis before 7 does not tell
	switch {
	case save != "":
		return finding{check, problem, "append-only file off, save " + save, "After a restart the node has the locks of its last snapshot. " + forgot + remedy}
	case saves != "0":
		return finding{check, problem, "append-only file off, snapshots written: " + saves, "After a restart the node has the locks of its last snapshot, also where save is empty. " + forgot + remedy}
	case !told:
		return finding{check, note, "append-only file off, save unknown", "CONFIG does not tell. If the node writes snapshots, it has the locks of the last one after a restart. " + forgot + remedy}
	}
	return finding{check, fine, "append-only file off, no snapshots", "A node that has lost its data takes no part until the longest TTL has passed. If most nodes lose it at once, fencing tokens go on from the clocks."}
}

func (f facts) replication(quorum bool) finding {
	const check = "replication"
	role, ok := f.info["role"]
	if !ok {
		return f.hidden(check, "A failover may forget the latest locks, as replication is asynchronous.")
	}
	replicas, _ := strconv.Atoi(f.info["connected_slaves"])
	found := fmt.Sprintf("%s, %d replicas", role, replicas)
	least, _ := strconv.Atoi(f.config["min-replicas-to-write"])
	if f.config["min-replicas-max-lag"] == "0" {
		least = 0 // min-replicas-to-write means nothing then
	}
	if least > 0 {
		found += fmt.Sprintf(", min-replicas-to-write %d", least)
	}
	switch {
	case role != "master":
		return finding{check, problem, "a replica of " + f.info["master_host"] + ":" + f.info["master_port"], "A replica refuses to write, so that no lock can be taken. Give the master's address, or mode=sentinel."}
	case replicas < least:
		return finding{check, problem, found, "With fewer replicas than that the server refuses to write, so that no lock can be taken. Bring the replicas back, or lower the number."}
	case replicas == 0 || quorum:
		return finding{Check: check, Level: fine, Found: found}
	}
	return finding{check, warning, found, "Replication is asynchronous: a failover may forget the latest locks, whatever the settings. Use fencing tokens where that matters, or a quorum of independent servers."}
}

// clockTolerance is how much clocks may differ without a remark.
const clockTolerance = time.Second

func (f facts) clock() finding {
	if f.timeErr != nil {
		const means = "Scripts of fenced, reentrant and read-write locks, and the queue, need TIME."
		if reply, ok := errors.AsType[*driver.ServerError](f.timeErr); ok && reply.Code == "NOPERM" {
			return finding{"clock", problem, f.timeErr.Error(), means}
		}
		return finding{"clock", unseen, f.timeErr.Error(), means + " They have it behind a proxy that knows no TIME; the locks that are taken below show that."}
	}
	found := fmt.Sprintf("%s, within %s", offset(f.offset, "this machine"), roughly(f.trip/2))
	if f.offset.Abs()-f.trip/2 <= clockTolerance {
		return finding{Check: "clock", Level: fine, Found: found}
	}
	return finding{"clock", note, found, "No lock depends on this machine's clock. But one of the two is wrong: a server's clock that is set forward ends leases early, and one that is set back may give a fencing token again once its data is lost. Have the time set by NTP, which slews."}
}

func offset(d time.Duration, than string) string {
	if d < 0 {
		return roughly(-d) + " behind " + than
	}
	return roughly(d) + " ahead of " + than
}

func roughly(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return d.Round(100 * time.Millisecond).String()
}

func (f facts) permissions() []finding {
	var all []finding
	for _, p := range []struct {
		check, command string
		err            error
		level          level
		means          string
	}{
		{"subscribing", "SUBSCRIBE", f.subscribeErr, warning, "Who waits for a lock asks again and again instead of being told, about eight times a second."},
		{"publishing", "PUBLISH", f.publishErr, warning, "Nobody tells those who wait that the lock is free; they find out within a second."},
		{"listing", "SCAN", f.scanErr, note, "lockctl ls and watch cannot be used. Locks do not need it."},
	} {
		if p.err != nil {
			all = append(all, finding{p.check, p.level, p.err.Error(), p.means})
			continue
		}
		all = append(all, finding{Check: p.check, Level: fine, Found: p.command + " is allowed"})
	}
	return all
}

// tokenTolerance is how much the clocks of a quorum may differ: the slack with which its
// nodes agree on tokens.
const tokenTolerance = 5 * time.Second

// assessClocks compares the servers' clocks with each other.
func assessClocks(servers []facts, quorum bool) []finding {
	var low, high *facts
	for i := range servers {
		f := &servers[i]
		if f.down != nil || f.timeErr != nil {
			continue
		}
		if low == nil || f.offset < low.offset {
			low = f
		}
		if high == nil || f.offset > high.offset {
			high = f
		}
	}
	if low == nil || low == high {
		return nil
	}
	apart := high.offset - low.offset
	found := fmt.Sprintf("%s is %s", high.server, offset(apart, low.server))
	switch apart -= (high.trip + low.trip) / 2; {
	case quorum && apart > tokenTolerance:
		return []finding{{"clocks", problem, found, "Fencing tokens of a quorum stay in order after a loss of data only if the clocks of its servers differ by less than that. Have the time set by NTP."}}
	case apart > clockTolerance:
		return []finding{{"clocks", warning, found, "A promoted replica, or a server that has lost its data, may give smaller fencing tokens than before. Have the time set by NTP."}}
	}
	return []finding{{Check: "clocks", Level: fine, Found: "at most " + roughly(max(high.offset-low.offset, 0)) + " apart"}}
}

// assessGuardian is the finding about this machine.
func assessGuardian(guarded bool, lacking error) finding {
	switch {
	case lacking != nil:
		return finding{"lockctl run", problem, "runs nothing here", lacking.Error()}
	case guarded:
		return finding{Check: "lockctl run", Level: fine, Found: "has a guardian on this system"}
	}
	return finding{"lockctl run", warning, "has no guardian on this system", "A command outlives a lockctl that is killed or stopped, and may run beside the next holder's. Use fencing tokens where that matters."}
}
