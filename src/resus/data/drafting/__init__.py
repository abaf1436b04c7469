"""A first schema for a table that has none, from the names and the values of its columns."""
