"""Every cold-start method of the paper's comparison, on one protocol."""
