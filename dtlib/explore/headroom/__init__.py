"""How much each resource has to spare: `headroom`."""
