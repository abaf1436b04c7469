"""Print what the service needs: the core without torch, and some extras. `service_requirements.py serve,redis`"""

import re
import sys
import tomllib
from pathlib import Path

TRAINING = {"torch"}  # no part of a service: `resus export` and `resus train` need it
SMALLER = {"xgboost": "xgboost-cpu"}  # which brings no CUDA


def requirements(extras: list[str]) -> list[str]:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    known = project["optional-dependencies"]
    unknown = [extra for extra in extras if extra not in known]
    if unknown:
        raise SystemExit(f"there is no extra '{unknown[0]}': choose some of {', '.join(known)}")
    core = [wanted for wanted in project["dependencies"] if name_of(wanted) not in TRAINING]
    wanted = [*core, *(wanted for extra in extras for wanted in known[extra])]
    return [SMALLER.get(name_of(each), name_of(each)) + each.removeprefix(name_of(each)) for each in wanted]


def name_of(requirement: str) -> str:
    return re.split(r"[<>=~!\[; ]", requirement, maxsplit=1)[0]


if __name__ == "__main__":
    sys.stdout.write("\n".join(requirements(sys.argv[1].split(","))) + "\n")
