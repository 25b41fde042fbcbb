package limiter

// ClientsHeld is how many clients c holds.
func ClientsHeld(c *Clients) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.redis)
}
