"""The proving ground: RESUS+, its parts and its rivals on several real data sets (`python -m benchmarks.proving`)."""
