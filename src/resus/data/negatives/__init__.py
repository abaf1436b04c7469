"""Drawn negatives, for logs that hold positive events only: clicks, plays, purchases."""
