"""`make demo`: train, evaluate and report on a synthetic data set, with the commands that you would type."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path("runs/demo")
COMMANDS = (
    f"train planted --learner ridge --out {FOLDER}/ridge",
    f"train planted --learner nearest --predictor-from {FOLDER}/ridge --out {FOLDER}/nearest",
    f"train planted --learner plus --predictor-from {FOLDER}/ridge --out {FOLDER}/plus",
    f"evaluate {FOLDER}/ridge {FOLDER}/nearest {FOLDER}/plus --out {FOLDER}",
    f"report {FOLDER}",
)


def main() -> None:
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
