"""Tables that are larger than memory become logs: read in blocks, staged as numbers, sorted out of core, encoded."""
