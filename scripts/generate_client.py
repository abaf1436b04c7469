"""Write the types and the routes of the client from the service's OpenAPI description.

    python scripts/generate_client.py

`tests/client/test_client_routes.py` fails if the files are not what this script writes.
"""

import keyword
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

from resus.serving.http.app import build_app
from resus.serving.http.guard import Access

HOME = Path(__file__).parents[1] / "src" / "resus" / "client"
BY_HAND = {"add_events"}  # it makes ids and times, and splits large batches
MADE = {"PostedEvent": {"id", "time"}}  # which the client makes if they are not given
WIDTH = 120
ONCE = {"rollback"}  # asked twice, it would do something else
SLOW = {"reload", "rollback"}  # a large model takes its time
NOTE = "Written by scripts/generate_client.py from the OpenAPI description of the service: change that, not this."
PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
Schema = Mapping[str, Any]


def description() -> dict[str, Any]:
    """The OpenAPI description, without a model: routes are declared before an engine is asked."""
    app = build_app(MagicMock(), Path("export"), Access("127.0.0.1", None))
    return app.openapi()


def sources(openapi: Mapping[str, Any]) -> dict[Path, str]:
    """The content of each generated file."""
    operations = [
        Operation(method.upper(), path, route, openapi["components"]["schemas"])
        for path, methods in openapi["paths"].items()
        for method, route in methods.items()
    ]
    return {
        HOME / "messages.py": formatted(messages(operations, openapi["components"]["schemas"])),
        HOME / "routes.py": formatted(routes(operations)),
    }


class Operation:
    """One route: what it takes, and what it answers."""

    def __init__(self, method: str, path: str, route: Schema, schemas: Mapping[str, Schema]) -> None:
        self.method, self.path, self.name = method, path, route["operationId"]
        self.summary = route["summary"]
        parameters = route.get("parameters", [])
        self.in_path = [given["name"] for given in parameters if given["in"] == "path"]
        self.in_query = {given["name"]: given for given in parameters if given["in"] == "query"}
        self.request = reference(content(route.get("requestBody", {})))
        self.answer = reference(content(route["responses"]["200"]))
        taken = schemas[self.request] if self.request else {}
        self.properties: Mapping[str, Schema] = taken.get("properties", {})
        self.required = set(taken.get("required", ()))
        self.says = taken.get("description", "")


def content(body: Schema) -> Schema:
    found: Schema = body.get("content", {}).get("application/json", {}).get("schema", {})
    return found


def reference(schema: Schema) -> str | None:
    return schema["$ref"].rpartition("/")[2] if "$ref" in schema else None


def reached(names: set[str], schemas: Mapping[str, Schema]) -> set[str]:
    """These messages, and all that stand in them."""
    found: set[str] = set()
    open_names = set(names)
    while open_names:
        name = open_names.pop()
        found.add(name)
        open_names |= set(references(schemas[name])) - found
    return found


def ordered(names: set[str], schemas: Mapping[str, Schema]) -> list[str]:
    """What a message holds comes before it."""
    graph = {name: sorted(set(references(schemas[name]))) for name in sorted(names)}
    return list(TopologicalSorter(graph).static_order())


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if name := reference(node):
            yield name
        for child in node.values():
            yield from references(child)
    elif isinstance(node, list):
        for child in node:
            yield from references(child)


def type_of(schema: Schema, *, taken: bool) -> str:
    """The Python type of a value. What is `taken` may be any mapping or sequence, and a time a datetime."""
    if name := reference(schema):
        return name
    if "anyOf" in schema:
        options = [type_of(one, taken=taken) for one in schema["anyOf"]]
        return " | ".join(sorted(dict.fromkeys(" | ".join(options).split(" | ")), key="None".__eq__))
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        return f"Literal[{', '.join(map(repr, values))}]" if isinstance(values[0], str) else "bool | int | float"
    if schema.get("type") == "array":
        return f"{'Sequence' if taken else 'list'}[{type_of(schema['items'], taken=taken)}]"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties")
        if taken:
            return "Fields"
        return f"dict[str, {type_of(values, taken=False) if isinstance(values, dict) else 'Any'}]"
    if schema.get("format") == "date-time":
        return "str | datetime"
    return PLAIN.get(schema.get("type", ""), "Any")


def documented(text: str, indent: str) -> list[str]:
    """A docstring, if there is something to say."""
    paragraphs = [" ".join(part.split()) for part in text.strip().split("\n\n")]
    if not any(paragraphs):
        return []
    wrapped = [
        textwrap.wrap(part, WIDTH - len(indent) - (3 if not place else 0)) for place, part in enumerate(paragraphs)
    ]
    lines = [line for part in wrapped for line in ("", *part)][1:]
    if len(lines) == 1:
        return [f'{indent}"""{lines[0]}"""', ""]
    return [f'{indent}"""{lines[0]}', *(f"{indent}{line}" if line else "" for line in lines[1:]), f'{indent}"""', ""]


def messages(operations: list[Operation], schemas: Mapping[str, Schema]) -> str:
    """Answers as frozen models, and what stands in requests as typed dictionaries."""
    answers = reached({one.answer for one in operations if one.answer}, schemas)
    bodies = {one.request for one in operations if one.request}
    taken = reached({name for name in bodies if name}, schemas) - bodies
    lines = [
        *documented(f"What the service takes and answers.\n\n{NOTE}", "")[:-1],
        "",
        "from collections.abc import Mapping, Sequence",
        "from datetime import datetime",
        "from typing import Any, Literal, NotRequired, TypedDict",
        "",
        "from pydantic import BaseModel, ConfigDict",
        "",
        "Fields = Mapping[str, Any]  # from field to value: text, number, boolean, null, or a list of them",
        "",
        "class Answer(BaseModel):",
        '    """An answer of the service. What a newer service adds is ignored."""',
        "",
        '    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True, protected_namespaces=())',
        "",
    ]
    for name in sorted(taken):
        lines += [f"class {name}(TypedDict):", *documented(schemas[name].get("description", ""), "    ")]
        for key, value in schemas[name]["properties"].items():
            kind = type_of(value, taken=True)
            required = key in set(schemas[name].get("required", ())) - MADE.get(name, set())
            lines.append(f"    {key}: {kind if required else f'NotRequired[{kind}]'}")
        lines.append("")
    for name in ordered(answers, schemas):
        lines += [f"class {name}(Answer):", *documented(schemas[name].get("description", ""), "    ")]
        for key, value in schemas[name]["properties"].items():
            kind = type_of(value, taken=False)
            if key in schemas[name].get("required", ()):
                lines.append(f"    {key}: {kind}")
            elif "default" in value:
                lines.append(f"    {key}: {kind} = {value['default']!r}")
            else:
                lines.append(f"    {key}: {kind if 'None' in kind else f'{kind} | None'} = None")
        lines.append("")
    return "\n".join(lines)


def routes(operations: list[Operation]) -> str:
    """One method per route, once for each kind of client."""
    asked = [one for one in operations if one.name not in BY_HAND]
    answers = {one.answer for one in asked if one.answer}
    taken = {name for one in asked for value in one.properties.values() for name in references(value)}
    lines = [
        *documented(f"The routes of the service as methods.\n\n{NOTE}", "")[:-1],
        "",
        "from collections.abc import Awaitable, Sequence",
        "from typing import Any, Literal, Protocol, TypeVar",
        "",
        "from resus.client.calls import Call, given, path",
        f"from resus.client.messages import {', '.join(sorted(filter(None, answers | taken | {'Fields'})))}",
        "",
        'Given = TypeVar("Given")',
        "",
    ]
    for kind, prefix in (("Routes", ""), ("AsyncRoutes", "async ")):
        lines += [
            f"class {kind}(Protocol):",
            f'    """The routes of {"an asynchronous" if prefix else "a"} client, which says how to ask."""',
            "",
            f"    {prefix}def ask(self, call: Call[Given]) -> Given: ...",
            "",
        ]
        for one in asked:
            lines += method(one, prefix)
    return "\n".join(lines)


def method(one: Operation, prefix: str) -> list[str]:
    words = ["self", *(f"{safe(name)}: str | int" for name in one.in_path)]
    options = [
        *((name, value, name in one.required) for name, value in one.properties.items()),
        *((name, given["schema"], given.get("required", False)) for name, given in one.in_query.items()),
    ]
    if options:
        words.append("*")
    defaults = []
    for name, schema, required in sorted(options, key=lambda option: not option[2]):
        kind = type_of(schema, taken=True)
        optional = kind if "None" in kind.split(" | ") else f"{kind} | None"
        words.append(f"{safe(name)}: {kind if required else f'{optional} = None'}")
        if schema.get("default") not in (None, False, ""):
            defaults.append(f"`{name}` is {str(schema['default']).lower()} unless given.")
    says = "\n\n".join(part for part in (f"{one.summary}.", one.says, " ".join(defaults)) if part)
    pieces = [f'"{one.method}"', address(one), one.answer or "str"]
    if one.request:
        pieces.append(f"body=given({', '.join(f'{name}={safe(name)}' for name in one.properties)})")
    if one.in_query:
        pieces.append(f"query=given({', '.join(f'{name}={safe(name)}' for name in one.in_query)})")
    if one.name in ONCE:
        pieces.append("repeatable=False")
    if one.name in SLOW:
        pieces.append("slow=True")
    wait = "await " if prefix else ""
    return [
        f"    {prefix}def {one.name}({', '.join(words)}) -> {one.answer or 'str'}:",
        *documented(says, "        ")[:-1],
        f"        return {wait}self.ask(Call({', '.join(pieces)}))",
        "",
    ]


def safe(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) else name


def address(one: Operation) -> str:
    parts = [safe(part.strip("{}")) if part.startswith("{") else f'"{part}"' for part in one.path.strip("/").split("/")]
    return f"path({', '.join(parts)})" if one.in_path else f'"{one.path}"'


def formatted(source: str) -> str:
    """As the checks of the repository want it."""
    for words in (["check", "--fix", "--quiet", "--exit-zero", "--select", "F401,I"], ["format", "--quiet"]):
        command = [sys.executable, "-m", "ruff", *words, "--stdin-filename", str(HOME / "messages.py"), "-"]
        source = subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout  # noqa: S603
    return source


if __name__ == "__main__":
    for file, text in sources(description()).items():
        file.write_text(text, encoding="utf-8")
