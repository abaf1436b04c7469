"""Every option of a command that runs for long is also an environment variable, and the documents list them all."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer
from resus_process import refused_here, resus_here

from resus.cli.main import app

DOCUMENT = Path(__file__).parents[2] / "docs" / "production.md"
COMMANDS: Any = typer.main.get_command(app)
LONG = [name for name, command in COMMANDS.commands.items() if command.context_settings]


def variables(name: str) -> dict[str, str]:
    """Option → variable, as the command line reads them."""
    command = COMMANDS.commands[name]
    prefix = command.context_settings["auto_envvar_prefix"]
    return {
        (one.opts[0] if one.param_type_name == "option" else one.name.upper()): one.envvar
        or f"{prefix}_{one.name.upper()}"
        for one in command.params
        if one.name != "help"
    }


def test_the_document_lists_every_variable() -> None:
    """A row is | `--option` | `VARIABLE` | commands | default |."""
    rows = re.findall(r"^\| `([^`]+)` \| `(RESUS_\w+)` \| ([^|]+) \|", DOCUMENT.read_text(), re.MULTILINE)
    told = {(command, option, variable) for option, variable, names in rows for command in names.split(", ")}
    known = {(name, option, variable) for name in LONG for option, variable in variables(name).items()}
    assert "serve" in LONG
    assert told == known


@pytest.mark.parametrize("name", LONG)
def test_help_names_every_variable(name: str, tmp_path: Path) -> None:
    told = " ".join(resus_here(name, "--help", cwd=tmp_path).stdout.split())
    assert not [variable for variable in variables(name).values() if f"env var: {variable}" not in told]


def test_a_variable_is_read_and_an_option_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESUS_RUN", str(tmp_path / "nothing"))
    monkeypatch.setenv("RESUS_HOST", "0.0.0.0")
    monkeypatch.delenv("RESUS_TOKEN", raising=False)
    assert "host 0.0.0.0 is open to the network" in refused_here("serve", cwd=tmp_path)
    assert f"{tmp_path / 'nothing'} does not exist" in refused_here("serve", "--host", "127.0.0.1", cwd=tmp_path)
    monkeypatch.setenv("RESUS_LOG_IDS", "true")
    assert "--access-log" in refused_here("serve", "--host", "127.0.0.1", cwd=tmp_path)
