"""A process that bends the folder of a model in random ways and loads it each time.

It prints the number of each trial before it loads, so that a crash names its trial. It ends with 1 if an exception
other than a ResusError comes up, if a bent model is served as if nothing were wrong, or if memory grows.
"""

import contextlib
import json
import os
import random
import resource
import shutil
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from resus.checked_folder import CheckedFolder, write_facts
from resus.errors import ResusError
from resus.serving.loaded import LoadedModel

ROOM = 400 << 20  # bytes by which all trials together may grow the process
ODD_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 3, 10**6, 10**9, 10**30, 1e300, -0.5, "", "x", "0", [], {}, [[]], [None], {"kind": []},
    ["x"] * 50, {"a": {"b": {}}},
)  # fmt: skip


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def flip(draw: random.Random, file: Path, others: list[Path]) -> None:
    content = bytearray(file.read_bytes())
    for _ in range(draw.choice([1, 1, 1, 4, 30])):
        place = draw.randrange(len(content)) if draw.random() < 0.6 else draw.randrange(min(300, len(content)))
        content[place] ^= 1 << draw.randrange(8)
    file.write_bytes(content)


def cut(draw: random.Random, file: Path, others: list[Path]) -> None:
    os.truncate(file, draw.randrange(file.stat().st_size))


def lengthen(draw: random.Random, file: Path, others: list[Path]) -> None:
    file.write_bytes(file.read_bytes() + draw.randbytes(draw.randrange(1, 100)))


def make_huge(draw: random.Random, file: Path, others: list[Path]) -> None:
    os.truncate(file, 1 << 38)


def swap(draw: random.Random, file: Path, others: list[Path]) -> None:
    other = draw.choice(others)
    content = other.read_bytes()
    if other.parent == file.parent:
        other.write_bytes(file.read_bytes())
    file.write_bytes(content)


def replace_by(make: Callable[[Path], object]) -> Callable[[random.Random, Path, list[Path]], None]:
    def replaced(draw: random.Random, file: Path, others: list[Path]) -> None:
        file.unlink()
        make(file)

    return replaced


BENDS = {
    "flip": flip,
    "cut": cut,
    "lengthen": lengthen,
    "huge": make_huge,
    "swap": swap,
    "missing": replace_by(lambda _: None),
    "pipe": replace_by(os.mkfifo),
    "device": replace_by(lambda file: file.symlink_to("/dev/zero")),
    "folder": replace_by(Path.mkdir),
    "empty": replace_by(Path.touch),
    "dangling link": replace_by(lambda file: file.symlink_to("nowhere")),
    "link to itself": replace_by(lambda file: file.symlink_to(file.name)),
}


def bend_facts(draw: random.Random, folder: Path) -> str:
    """Put an odd value at a random place of the facts."""
    opened = CheckedFolder.open(folder)
    facts = json.loads(json.dumps(dict(opened.facts)))
    section: Any = facts
    place: list[Any] = []
    while True:
        keys = list(section) if isinstance(section, dict) else list(range(len(section)))
        key = draw.choice(keys)
        place.append(key)
        if not isinstance(section[key], dict | list) or not section[key] or draw.random() < 0.15:
            break
        section = section[key]
    if isinstance(section, dict) and draw.random() < 0.1:
        del section[key]
    else:
        section[key] = draw.choice(ODD_VALUES)
    if place != ["format"]:
        write_facts(folder, facts, opened.files)
    return ".".join(map(str, place))


def bend_file(draw: random.Random, folder: Path) -> str:
    """Flip or cut bytes of a file and list the result, as somebody would who means harm."""
    opened = CheckedFolder.open(folder)
    name = draw.choice(sorted(opened.files))
    draw.choice([flip, cut, lengthen])(draw, folder / name, [])
    write_facts(folder, opened.facts, opened.files)
    return name


def damaged(draw: random.Random, folder: Path, other: Path) -> str:
    files = sorted(path for path in folder.iterdir())
    file, how = draw.choice(files), draw.choice(sorted(BENDS))
    BENDS[how](
        draw,
        file,
        [path for path in (*files, *sorted(other.iterdir())) if path.name != file.name or path.parent == other],
    )
    return f"{how} {file.name}"


def main(good: Path, other: Path, place: Path, kind: str, first: int, count: int) -> int:
    expected = _answers(LoadedModel.load(good))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found: Counter[str] = Counter()
    for seed in range(first, first + count):
        draw = random.Random(seed)
        folder = Path(shutil.copytree(good, place / str(seed)))
        what = damaged(draw, folder, other) if kind == "damaged" else draw.choice([bend_facts, bend_file])(draw, folder)
        say(f"{seed}: {what}")
        try:
            loaded = LoadedModel.load(folder)
            if kind == "damaged" and _answers(loaded) != expected:
                say("it serves other answers")
                return 1
            found["loaded"] += 1
        except ResusError as error:
            said = str(error)
            if "\n" in said or len(said) > 2000:
                say(f"not one sentence: {said}")
                return 1
            found["refused"] += 1
        except BaseException:
            traceback.print_exc(file=sys.stdout)
            return 1
        with contextlib.suppress(OSError):
            shutil.rmtree(folder)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
    say(f"{dict(found)}, {grown >> 10} MiB more")
    return int(grown << 10 > ROOM)


def _answers(loaded: LoadedModel) -> list[float]:
    rows = loaded.rows([{"item": str(item)} for item in range(1, 15)])
    answers: list[float] = loaded.live_user(3).score(rows).probability.tolist()
    return answers


if __name__ == "__main__":
    good, other, place, kind, first, count = sys.argv[1:]
    sys.exit(main(Path(good), Path(other), Path(place), kind, int(first), int(count)))
