package bridge

import "pi-chrome/driver/op"

// refusedAttach notes that Chrome did not attach the debugger.
func (c *Connector) refusedAttach(_ int, why *op.Error) {
	c.relay.meter.attaches.add(string(why.Code), "")
}
