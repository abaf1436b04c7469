"""The README promises nothing that the command line does not know."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from resus.cli.main import app
from resus.config import Config
from resus.validation import known_keys

README = Path(__file__).parents[1] / "README.md"
TEXT = README.read_text(encoding="utf-8")
COMMANDS = sorted({line.partition("#")[0].strip() for line in re.findall(r"resus [a-z-]+ [^`\n]*", TEXT)})


def test_the_readme_shows_every_command() -> None:
    shown = {shlex.split(command)[1] for command in COMMANDS}
    assert {command.name for command in app.registered_commands} <= shown


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_in_the_readme_exists(command: str) -> None:
    _, name, *words = shlex.split(command)
    options = [word for word in words if word.startswith("--")]
    known = CliRunner().invoke(app, [name, "--help"]).output
    assert all(option in known for option in options), command


def test_every_setting_in_the_readme_exists() -> None:
    settings = re.findall(r"--set ([a-z_]+\.[a-z_.]+)=", TEXT)
    assert settings
    assert set(settings) <= set(known_keys(Config))


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#]+)\)", TEXT))
def test_every_link_in_the_readme_leads_somewhere(link: str) -> None:
    assert link.startswith("http") or (README.parent / link).exists()
