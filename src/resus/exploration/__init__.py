"""What exploring buys: simulated users of a planted world, and estimates from logs with propensities."""
