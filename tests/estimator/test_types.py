"""A type checker knows what a call gives, and refuses a wrong one.

mypy runs with the settings and the cache of `make check`, without which the first run takes half a minute.
"""

import re
import sys
from pathlib import Path

from mypy import api

ROOT = Path(__file__).parents[2]
SNIPPETS = Path(__file__).parent / "snippets"
IGNORED = re.compile(r"  # type: ignore\[([\w-]+)\]")


def checked(file: Path) -> dict[int, str]:
    """What mypy says about a file: by line, the kind of the error."""
    settings = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    limit = sys.getrecursionlimit()
    try:
        said, trouble, _ = api.run([*settings, str(file)])
    finally:
        sys.setrecursionlimit(limit)  # mypy raises it, and tests of deeply nested files may run later
    assert not trouble
    found = {int(line): kind for line, kind in re.findall(r"\.py:(\d+): error: .*\[([\w-]+)\]", said)}
    assert len(found) == said.count(": error:"), said
    return found


def test_right_calls_are_accepted_with_their_types() -> None:
    assert checked(SNIPPETS / "right.py") == {}


def test_wrong_calls_are_refused(tmp_path: Path) -> None:
    text = (SNIPPETS / "wrong.py").read_text()
    lines = text.splitlines()
    expected = {place: kind for place, line in enumerate(lines, 1) for kind in IGNORED.findall(line)}
    assert len(expected) > 10
    (tmp_path / "wrong.py").write_text(IGNORED.sub("", text))
    assert checked(tmp_path / "wrong.py") == expected
