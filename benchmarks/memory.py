"""How long a command takes and how much memory it needs at its peak.

    python -m benchmarks.memory COMMAND ...

A child starts with its parent's peak on its account, so the command is started from this small process.
"""

import json
import resource
import subprocess
import sys
import time
from typing import NamedTuple


class Cost(NamedTuple):
    """Of one command."""

    seconds: float
    peak_bytes: int


def cost_of(*command: str) -> Cost:
    """Run a command that must succeed; what it says is shown only if it fails."""
    watched = [sys.executable, "-m", "benchmarks.memory", *command]
    return Cost(*json.loads(subprocess.run(watched, check=True, stdout=subprocess.PIPE, text=True).stdout))


def main(command: list[str]) -> None:
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    if done.returncode:
        sys.exit(done.stderr)
    print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024]))


if __name__ == "__main__":
    main(sys.argv[1:])
