"""Figures that we promise, each printed by the command that benchmarks/README.md names."""
