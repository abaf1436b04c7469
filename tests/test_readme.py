"""The README promises nothing that the command line does not know, and its code on a model of one's own runs."""

import re
import shlex
from pathlib import Path

import pytest
from models_of_others import catboost_file, rows
from planted_models import TINY
from typer.testing import CliRunner

from resus.checking import known_keys
from resus.cli.main import app
from resus.config.settings import Config

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


def test_the_code_on_top_of_ones_own_model_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    table = rows()
    catboost_file(table, tmp_path)
    table = table.rename({"user": "user_id", "item": "movie_id", "click": "clicked", "hour": "age"})
    for name in ("events", "support", "query"):
        table.write_csv(f"{name}.csv")
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL) if "model.cbm" in block)
    small = code.replace('cbm"))', 'cbm"), settings=TINY)', 1)
    exec(small, {"TINY": TINY})
    assert "probability" in capsys.readouterr().out
