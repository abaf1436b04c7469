"""The service under load, killed and fuzzed: `python -m benchmarks.service.load`, `.kills`, `.fuzz`."""
