package plugins

import "time"

// SetLogClock gives the log of failures another clock: it logs once a second only.
func (p *Plugin) SetLogClock(now func() time.Time) { p.log.now = now }
