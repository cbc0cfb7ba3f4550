package conformance

import "github.com/golocker/golocker/locker/driver"

// capabilityCases are what runs first: without a Conn, or with one that leads elsewhere, no
// other case can tell anything.
var capabilityCases = []testCase{
	{name: "Capabilities/Declared", run: func(k *kit) {
		ctx, cancel := k.within(k.time.bound)
		defer cancel()
		conn, err := k.connector().Connect(ctx)
		k.checkText(err)
		if err != nil {
			k.reachable("Connect", err)
			k.stop("Connect gave %v with a server that answers", err)
		}
		if conn == nil {
			k.stop("Connect gave neither a Conn nor an error")
		}
		k.closeLater(conn)
		var found Capabilities
		_, found.Batcher = conn.(driver.Batcher)
		_, found.Subscriber = conn.(driver.Subscriber)
		_, found.Describer = conn.(driver.Describer)
		c := k.startDo(ctx, conn, plain("ECHO", k.prefix))
		k.wait(c, k.time.bound+k.time.slack, "the first command")
		if !c.panicked {
			k.reachable("the first command", c.err)
		}
		if found.Subscriber {
			found.Listener = k.h.Capabilities.Listener // unless a Subscription shows otherwise
			if sub, err := k.subscription(ctx, conn); err == nil {
				_, found.Listener = sub.(driver.Listener)
			}
		}
		if found != k.h.Capabilities {
			k.Errorf("the Conn has %+v; Harness.Capabilities says %+v", found, k.h.Capabilities)
		}
	}},
}

// reachable stops the suite if the driver makes its connections by itself.
func (k *kit) reachable(what string, err error) {
	if !k.realTime() && k.wire.Dials() == 0 {
		k.stop("%s gave the error %v, and Config.Dial was never called: use Config.Dial, or set Harness.TCPOnly if the client takes no dialer", what, err)
	}
}
