"""A user's events become a support (what we know) and queries (what we are asked)."""
