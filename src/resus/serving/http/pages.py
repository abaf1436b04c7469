"""The pages of the service: playground, curves, and `/docs`, a reference without scripts that needs no network."""

import json
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.responses import FileResponse, HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

PAGE = Path(__file__).parent / "page"
REFERENCE = "reference.html.j2"


def add_pages(app: FastAPI) -> None:
    """Each file has its own route, so nothing outside the page's folder can be reached."""
    addresses = {f"/page/{path.name}": path for path in PAGE.iterdir() if path.is_file() and path.name != REFERENCE}
    addresses |= {"/": PAGE / "index.html", "/curves": PAGE / "curves.html"}
    for address, path in addresses.items():
        app.add_api_route(address, lambda path=path: FileResponse(path), include_in_schema=False)

    @app.get("/docs", response_class=HTMLResponse, include_in_schema=False)
    def docs() -> HTMLResponse:
        return HTMLResponse(reference_page(app.openapi()))


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
    templates = Environment(loader=FileSystemLoader(PAGE), autoescape=True, undefined=StrictUndefined)
    return templates.get_template(REFERENCE).render(info=openapi["info"], routes=routes, messages=messages)


def _message(content: dict[str, Any]) -> str:
    """The name of a body's message, or an empty text."""
    reference = content.get("application/json", {}).get("schema", {}).get("$ref", "")
    return str(reference).rpartition("/")[2]
