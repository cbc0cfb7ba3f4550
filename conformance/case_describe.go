package conformance

import (
	"context"
	"fmt"
	"strings"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker/driver"
)

// describeCases: Describe tells what the server tells.
var describeCases = []testCase{
	{name: "Describe/Mode", needs: needs{describer: true}, run: func(k *kit) {
		if t := k.describe(k.open()); t.Mode != driver.ModeSingle {
			k.Errorf("Describe gave the mode %q; want %q", t.Mode, driver.ModeSingle)
		}
	}},
	{name: "Describe/RunID", needs: needs{describer: true}, run: func(k *kit) {
		// miniredis has no run id; then it is empty.
		conn := k.open()
		want := ""
		if info, ok := k.direct("INFO", "server").(string); ok {
			for line := range strings.Lines(info) {
				if id, ok := strings.CutPrefix(strings.TrimSpace(line), "run_id:"); ok {
					want = id
				}
			}
		}
		for range 3 {
			if t := k.describe(conn); t.RunID != want {
				k.Errorf("Describe gave the run id %q; the server says %q", t.RunID, want)
			}
		}
	}},
	{name: "Describe/Refused", needs: needs{describer: true}, run: func(k *kit) {
		conn := k.warm()
		for _, reply := range []string{
			"-NOPERM User default has no permissions to run the 'info' command\r\n",
			"-ERR unknown command 'INFO', with args beginning with: 'server'\r\n",
		} {
			for _, name := range []string{"INFO", "CLUSTER", "ROLE", "CONFIG"} {
				k.wire.On(wire.Match{Name: name}, wire.Answer(reply))
			}
			if t := k.describe(conn); t.RunID != "" {
				k.Errorf("Describe gave the run id %q although the server refused to tell", t.RunID)
			}
		}
	}},
	{name: "Describe/Restart", needs: needs{describer: true}, run: func(k *kit) {
		// A server that has restarted, or another one under its address, is not the one that was known.
		conn := k.warm()
		for _, id := range []string{"one", "two"} {
			text := "# Server\r\nrun_id:" + id + "\r\n"
			rule := k.wire.On(wire.Match{Name: "INFO", Times: -1}, wire.Answer(fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)))
			if t := k.describe(conn); t.RunID != id {
				k.Errorf("Describe gave the run id %q; the server says %q by now", t.RunID, id)
			}
			rule.Remove()
		}
	}},
	{name: "Describe/Unanswered", needs: needs{describer: true}, run: func(k *kit) {
		conn := k.warm()
		k.wire.On(wire.Match{Name: "INFO"}, wire.CutReply)
		k.notDescribed("its reply lost", conn)
		k.recovers(conn)
		k.wire.Refuse(true)
		k.wire.KillAll()
		for range 3 { // the first may be for a connection that is gone
			k.notDescribed("dials refused", conn)
		}
		k.wire.Refuse(false)
		k.recovers(conn)
		if k.credentials().password != "" {
			k.refuseHandshakes()
			k.wire.KillAll()
			for range 3 {
				k.notDescribed("AUTH refused", conn)
			}
		}
	}},
	{name: "Describe/NotNow", needs: needs{describer: true}, run: func(k *kit) {
		conn := k.warm()
		for _, reply := range []string{
			"-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n",
			"-LOADING Redis is loading the dataset in memory\r\n",
			"-ERR max number of clients reached\r\n",
		} {
			for _, name := range []string{"INFO", "CLUSTER", "ROLE", "CONFIG"} {
				k.wire.On(wire.Match{Name: name}, wire.Answer(reply))
			}
			if t, err := k.describer(conn).Describe(k.ctx); err == nil {
				k.Errorf("Describe gave %+v and no error although the server said %q; want an error", t, reply)
			}
		}
	}},
	{name: "Describe/Ctx", needs: needs{describer: true}, run: func(k *kit) {
		conn := k.warm()
		ended, cancel := k.cancellable()
		cancel()
		_, err := k.describer(conn).Describe(ended)
		k.is("Describe with an ended ctx", err, context.Canceled)

		k.wire.Partition()
		ctx, cancel := k.within(k.time.short)
		defer cancel()
		k.promptCall(ctx, "Describe in a partition", func() error {
			_, err := k.describer(conn).Describe(ctx)
			return err
		})
	}},
}

func (k *kit) describer(conn driver.Conn) driver.Describer {
	d, ok := conn.(driver.Describer)
	if !ok {
		k.Fatalf("the Conn is no driver.Describer; Harness.Capabilities says it is")
	}
	return d
}

// notDescribed checks that Describe says so when it could not ask.
func (k *kit) notDescribed(what string, conn driver.Conn) {
	ctx, cancel := k.within(k.time.bound)
	defer cancel()
	t, err := k.describer(conn).Describe(ctx)
	k.checkText(err)
	if err == nil {
		k.Errorf("Describe, %s, gave %+v and no error; want an error", what, t)
	}
}

func (k *kit) describe(conn driver.Conn) driver.Topology {
	ctx, cancel := k.within(k.time.bound)
	defer cancel()
	t, err := k.describer(conn).Describe(ctx)
	k.checkText(err)
	if err != nil {
		k.Fatalf("Describe gave %v; what the server does not tell is no error", err)
	}
	return t
}
