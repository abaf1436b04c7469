"""Messages that Python users meet name arguments: an option of a command is named only on the command line."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import resus

ROOMS = (
    "config",
    "data",
    "external",
    "scoring",
    "estimator",
    "model",
    "training",
    "evaluation",
    "baselines",
    "artifact.py",
)
SOURCE = Path(resus.__file__).parent
OPTION = re.compile(r"(?<![\w-])--[a-z]")
WHOLE_COMMAND = re.compile(r"resus [a-z-]+[^']* --[a-z]")


def files() -> list[Path]:
    places = (SOURCE / room for room in ROOMS)
    return sorted(file for place in places for file in ([place] if place.is_file() else place.rglob("*.py")))


def named_options(tree: ast.AST) -> Iterator[str]:
    """Texts with an option that are no docstring, no whole command, and no advice for the command line."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.keyword) and node.arg == "command":
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.Constant | ast.JoinedStr):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in parts)
            if OPTION.search(text) and not WHOLE_COMMAND.search(text):
                yield text
            continue
        yield from named_options(node)


@pytest.mark.parametrize("file", files(), ids=lambda file: str(file.relative_to(SOURCE)))
def test_no_option_is_named_to_users_of_the_library(file: Path) -> None:
    assert list(named_options(ast.parse(file.read_text()))) == []


def test_an_option_would_be_found() -> None:
    assert list(named_options(ast.parse("raise E(f'choose {x} with --out')"))) == ["choose … with --out"]
    assert list(named_options(ast.parse("advice(python='', command='with --out')"))) == []
    assert list(named_options(ast.parse("x = 'run resus prepare {y} --like z'"))) == []
