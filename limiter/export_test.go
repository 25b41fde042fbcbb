package limiter

// ClientsHeld is how many clients c holds.
func ClientsHeld(c *Clients) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.shared)
}

// FixedScriptHash names the script of a fixed window to EVALSHA.
func FixedScriptHash() string { return fixedScript.Hash() }
