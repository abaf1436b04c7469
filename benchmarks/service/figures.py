"""Figures of a benchmark, in a file that is written with each new one: a run that ends early leaves some."""

import json
from pathlib import Path
from typing import Any

from resus.files import write_text

KEPT = Path(__file__).parent
SMOKE = Path("runs/benchmarks/service")


class Figures:
    """`benchmarks/service/NAME.json`, or a file under `runs/` for a smoke test."""

    def __init__(self, name: str, *, smoke: bool = False, **settings: Any) -> None:
        self._path = (SMOKE if smoke else KEPT) / f"{name}.json"
        self._found: dict[str, Any] = dict(settings)

    def note(self, name: str, value: Any) -> None:
        self._found[name] = value
        write_text(self._path, json.dumps(self._found, indent=2) + "\n")
