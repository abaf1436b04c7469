"""The time and the peak memory of a command.

    python -m benchmarks.memory COMMAND ...

A child process inherits the peak of its parent, so this small process starts the command.
"""

import json
import resource
import subprocess
import sys
import time
from typing import NamedTuple

SHOWN = "--shown"


class Cost(NamedTuple):
    """The cost of one command."""

    seconds: float
    peak_bytes: int


def cost_of(*command: str, shown: bool = False) -> Cost:
    """Run a command that must succeed. Its standard error is `shown`, or printed only if it fails."""
    watched = [sys.executable, "-m", "benchmarks.memory", *([SHOWN] if shown else []), *command]
    return Cost(*json.loads(subprocess.run(watched, check=True, stdout=subprocess.PIPE, text=True).stdout))


def main(command: list[str]) -> None:
    shown = command[0] == SHOWN
    began = time.perf_counter()
    errors = None if shown else subprocess.PIPE
    done = subprocess.run(command[shown:], stdout=subprocess.PIPE, stderr=errors, text=True, check=False)
    seconds = time.perf_counter() - began
    if done.returncode:
        sys.exit(done.stderr or done.stdout)
    print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024]))


if __name__ == "__main__":
    main(sys.argv[1:])
