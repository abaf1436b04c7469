"""Split a user's events into a support (what is known) and queries (what to predict)."""
