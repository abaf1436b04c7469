"""The options `--users` and `--items` of commands that join side tables."""

from pathlib import Path
from typing import Annotated

import typer


def _instead(of: str) -> str:
    return f"Table of {of} that replaces the one of the schema: CSV, TSV or Parquet."


UsersTable = Annotated[Path | None, typer.Option("--users", help=_instead("users"))]
ItemsTable = Annotated[Path | None, typer.Option("--items", help=_instead("items"))]
