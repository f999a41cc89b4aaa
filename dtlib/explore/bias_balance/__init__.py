"""A run of a balancer: `bias_balance`."""
