"""`/docs`: the OpenAPI description of the service as a plain page, without scripts and without the network."""

import json
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

_PAGES = Environment(loader=PackageLoader("resus.serving.http", "."), autoescape=True, undefined=StrictUndefined)


def reference_page(openapi: dict[str, Any]) -> str:
    """Every route with its request and answer, and every message."""
    routes = [
        {
            "method": method.upper(),
            "path": path,
            "summary": route.get("summary", ""),
            "takes": _message(route.get("requestBody", {}).get("content", {})),
            "parameters": route.get("parameters", []),
            "gives": _message(route["responses"]["200"].get("content", {})),
        }
        for path, methods in openapi["paths"].items()
        for method, route in methods.items()
    ]
    messages = {
        name: {"says": schema.get("description", ""), "schema": json.dumps(schema, indent=2, ensure_ascii=False)}
        for name, schema in openapi["components"]["schemas"].items()
    }
    return _PAGES.get_template("reference.html.j2").render(info=openapi["info"], routes=routes, messages=messages)


def _message(content: dict[str, Any]) -> str:
    """The name of a body's message, or an empty text."""
    reference = content.get("application/json", {}).get("schema", {}).get("$ref", "")
    return str(reference).rpartition("/")[2]
