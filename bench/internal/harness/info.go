package harness

import (
	"fmt"
	"strconv"
	"strings"
)

// Info are the counters of a server at an instant.
type Info struct {
	PID           int     // of the server
	CPU           float64 // seconds
	Calls         map[string]float64
	Reads         float64 // events on the sockets of clients
	NetIn, NetOut float64 // bytes
	Clients       float64
	UsedMemory    float64
}

// ReadInfo asks a server for its counters.
func ReadInfo(c *Conn) (Info, error) {
	reply, err := c.Do("INFO", "everything")
	if err != nil {
		return Info{}, err
	}
	text, _ := reply.(string)
	in := Info{Calls: map[string]float64{}}
	for line := range strings.SplitSeq(text, "\r\n") {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		if command, ok := strings.CutPrefix(name, "cmdstat_"); ok {
			calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
			in.Calls[command], _ = strconv.ParseFloat(calls, 64)
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue // a text
		}
		switch name {
		case "process_id":
			in.PID = int(v)
		case "used_cpu_sys", "used_cpu_user":
			in.CPU += v
		case "total_reads_processed":
			in.Reads = v
		case "total_net_input_bytes":
			in.NetIn = v
		case "total_net_output_bytes":
			in.NetOut = v
		case "connected_clients":
			in.Clients = v
		case "used_memory":
			in.UsedMemory = v
		}
	}
	return in, nil
}

// Info returns the counters of the server. Without them there is no measurement,
// so it panics if the server does not give them.
func (s *Server) Info() Info { return MustInfo(s.control) }

// MustInfo is ReadInfo for a server that has to answer.
func MustInfo(c *Conn) Info {
	in, err := ReadInfo(c)
	if err != nil {
		panic(fmt.Sprintf("bench: INFO: %v", err))
	}
	return in
}

// own are the commands that only the harness sends; they are not counted.
var own = map[string]bool{
	"info": true, "dbsize": true, "echo": true, "monitor": true, "flushall": true,
}

// Calls counts the commands that the server executed between two readings, without
// the harness's own. Redis includes those that scripts run: inScripts has the share of
// each command that scripts ran in a trace of the same workload, see [Server.Trace].
func Calls(from, to Info, inScripts map[string]float64) (sent, scripted float64) {
	for command, calls := range to.Calls {
		name, _, _ := strings.Cut(command, "|") // MONITOR does not tell subcommands apart
		if n := calls - from.Calls[command]; !own[name] {
			scripted += n * inScripts[name]
			sent += n * (1 - inScripts[name])
		}
	}
	return sent, scripted
}
