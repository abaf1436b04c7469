"""The command line. Commands import heavy modules themselves, so that `--help` is instant."""
