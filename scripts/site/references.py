"""Reference pages as Markdown, made from the code whenever the site is built."""

import html
import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import typer.main
from typer.testing import CliRunner

import resus
from resus.checking import described_settings
from resus.cli.main import app
from resus.config.resolve import resolve
from resus.data.schema import FieldSchema, TableSchema
from resus.model.encoders import ENCODERS
from resus.model.learners import LEARNERS
from resus.model.predictors import PREDICTORS
from resus.serving.http.app import build_app
from resus.serving.http.guard import Access

COLUMNS = "100"
FIRST = ("Resus", "load", "Results", "open_log", "build_log", "prepare", "planted_log")


def library() -> str:
    """One directive of mkdocstrings per public name."""
    lines = []
    for name in sorted(set(resus.__all__) - {"__version__"}, key=_order):
        member = getattr(resus, name)
        home = f"{member.__module__}.{member.__qualname__}"
        lines += [f"::: {home}", "    options:", f"      heading: resus.{name}", f"      toc_label: {name}", ""]
    return "\n".join(lines)


def _order(name: str) -> tuple[int, str]:
    """What users call first comes first, errors last."""
    if name in FIRST:
        return FIRST.index(name) - len(FIRST), name
    return int(name.endswith(("Error", "Warning"))), name


def commands() -> str:
    """The help of every command."""
    return "\n".join(_help(names) for names in _commands(typer.main.get_command(app)))


def _commands(command: Any, names: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield names
    for name, child in getattr(command, "commands", {}).items():
        yield from _commands(child, (*names, name))


def _help(names: tuple[str, ...]) -> str:
    done = CliRunner(env={"COLUMNS": COLUMNS, "TERMINAL_WIDTH": COLUMNS}).invoke(
        app, [*names, "--help"], prog_name="resus", catch_exceptions=False
    )
    return f"## {' '.join(('resus', *names))}\n\n```text\n{done.output.strip()}\n```\n"


def settings() -> str:
    """Every setting: those of the default first, then what other parts add."""
    usual = described_settings(resolve({}))
    known = {key for key, _, _ in usual}
    parts = [_table("Of the default", "RESUS+ (`--learner plus`) on DeepFM.", usual)]
    others = [("learner", list(LEARNERS)), ("predictor", list(PREDICTORS)), ("encoder", list(ENCODERS))]
    for part, kinds in others:
        for kind in kinds:
            choice = {f"{part}.kind": kind} | ({"learner.kind": "ridge"} if part == "encoder" else {})
            try:
                resolved = described_settings(resolve(choice))
            except resus.ConfigError:  # a kind that needs more than its name, such as a column
                continue
            more = [row for row in resolved if row[0] not in known]
            known |= {key for key, _, _ in more}
            if more and kind != "own":  # which only Python can give
                parts.append(_table(f"With {part} {kind}", f"Added by `--{part} {kind}`.", more))
    for model, title in ((TableSchema, "The schema of a table"), (FieldSchema, "A field of a schema")):
        parts.append(_table(title, inspect.getdoc(model) or "", _fields(model)))
    return "\n".join(parts)


def _fields(model: type[Any]) -> list[tuple[str, Any, str]]:
    fields = model.model_fields.items()
    return [
        (
            name,
            "required" if field.is_required() else field.get_default(call_default_factory=True),
            field.description or "",
        )
        for name, field in fields
    ]


def _table(title: str, words: str, rows: list[tuple[str, Any, str]]) -> str:
    lines = [f"| `{key}` | {_cell(value)} | {html.escape(meaning)} |" for key, value, meaning in rows]
    return "\n".join([f"## {title}", "", words, "", "| key | default | meaning |", "|---|---|---|", *lines, ""])


def _cell(value: Any) -> str:
    text = str(value).replace("|", "\\|")
    return f"`{text}`" if text not in ("", "None") else "none" if value is None else "empty"


def http() -> str:
    """Every route and message of the service."""
    stand_in = MagicMock()  # routes are declared before an engine is asked
    openapi = build_app(stand_in, Path("export"), Access("127.0.0.1", None)).openapi()
    routes = [
        _route(method.upper(), path, route)
        for path, methods in openapi["paths"].items()
        for method, route in methods.items()
    ]
    messages = [_described(name, schema) for name, schema in sorted(openapi["components"]["schemas"].items())]
    return "\n".join(["## Routes", "", *routes, "## Messages", "", *messages])


def _described(name: str, schema: dict[str, Any]) -> str:
    content = json.dumps(schema, indent=2, ensure_ascii=False)
    return f"### {name}\n\n{schema.get('description', '')}\n\n```json\n{content}\n```\n"


def _route(method: str, path: str, route: dict[str, Any]) -> str:
    lines = [f"### {method} {path}", "", f"{route.get('summary', '')}.", ""]
    lines += [f"- `{given['name']}` in the {given['in']}" for given in route.get("parameters", [])]
    if takes := _message(route.get("requestBody", {}).get("content", {})):
        lines.append(f"- takes [{takes}](#{takes.lower()})")
    if gives := _message(route["responses"]["200"].get("content", {})):
        lines.append(f"- answers [{gives}](#{gives.lower()})")
    refusals = {code: answer["description"] for code, answer in route["responses"].items() if code != "200"}
    lines += [f"- {code}: {says}" for code, says in refusals.items()]
    return "\n".join([*lines, ""])


def _message(content: dict[str, Any]) -> str:
    reference = content.get("application/json", {}).get("schema", {}).get("$ref", "")
    return str(reference).rpartition("/")[2]


REFERENCES: dict[str, Callable[[], str]] = {
    "library": library,
    "commands": commands,
    "settings": settings,
    "http": http,
}
