"""Scores for users whom nobody trained on: a table of what they did, a table of what to score."""
