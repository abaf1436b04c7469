"""`make demo`: RESUS+ next to RESUS-RR, a user bias and the shared model on a synthetic data set.

It runs the commands that you would type.
"""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from resus.errors import ConfigError
from resus.extras import need

FOLDER = Path("runs/demo")
COMMANDS = (
    f"train planted --out {FOLDER}/plus",
    f"train planted --learner ridge --predictor-from {FOLDER}/plus --out {FOLDER}/ridge",
    f"evaluate {FOLDER}/plus {FOLDER}/ridge --out {FOLDER}",
    f"warm-up {FOLDER}/plus {FOLDER}/ridge --rivals user-bias --up-to 30 --out {FOLDER}",
    f"report {FOLDER}",
)


def main() -> None:
    try:
        need("report", "the demo")
    except ConfigError as error:
        sys.exit(f"resus: {error}")
    shutil.rmtree(FOLDER, ignore_errors=True)
    for command in COMMANDS:
        sys.stdout.write(f"\n$ resus {command}\n")
        sys.stdout.flush()
        resus = [sys.executable, "-c", "from resus.cli.main import main; main()"]
        one_thread = os.environ | {"OMP_NUM_THREADS": "1"}  # a second thread does not help networks this small
        words = [*resus, *shlex.split(command)]
        status = subprocess.run(words, check=False, env=one_thread).returncode  # noqa: S603  # our own command
        if status:
            sys.exit(status)


if __name__ == "__main__":
    main()
