package conformance

import "github.com/golocker/golocker/locker/driver"

var capabilityCases = []testCase{
	{name: "Capabilities/Declared", run: func(k *kit) {
		conn := k.open()
		var found Capabilities
		_, found.Batcher = conn.(driver.Batcher)
		_, found.Subscriber = conn.(driver.Subscriber)
		_, found.Describer = conn.(driver.Describer)
		if found != k.h.Capabilities {
			k.Errorf("the Conn has %+v; Harness.Capabilities says %+v", found, k.h.Capabilities)
		}
	}},
}
