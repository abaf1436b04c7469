"""Opens a model file in another process first: where the library crashes, hangs or takes all memory, only that ends.

LightGBM, XGBoost, CatBoost and ONNX Runtime trust their files. A damaged one can end the process that reads it.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

from resus.errors import ConfigError
from resus.external.scoring_model import broken_file

SECONDS = 60  # and one more for each megabyte of the file
REFUSED = 3  # exit status of a child that prints why it refuses the file


def try_in_a_process(path: Path, content: bytes, title: str) -> None:
    """Raise ConfigError unless another process can open these bytes, and score some rows with them."""
    command = [sys.executable, "-m", "resus.external.trial_process", str(path)]
    search = os.pathsep.join(place for place in sys.path if place)
    seconds = SECONDS + len(content) / 1e6
    try:
        done = subprocess.run(  # noqa: S603  # this Python, and a module of ours
            command,
            input=content,
            capture_output=True,
            timeout=seconds,
            env={**os.environ, "PYTHONPATH": search},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise broken_file(path, title, f"the library does not answer within {seconds:.0f} seconds") from None
    if done.returncode == REFUSED:
        raise ConfigError(done.stdout.decode(errors="replace"))
    if done.returncode:
        raise broken_file(path, title, f"the library ends with {_ending(done.returncode)}")


def _ending(status: int) -> str:
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"status {status}"
