"""The service under load, kills and bad requests: `python -m benchmarks.service.load`, `.kills`, `.fuzz`."""
