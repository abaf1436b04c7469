"""Extras: the table agrees with pyproject.toml, and a missing package is one sentence with the command."""

import re
import runpy
import sys
import tomllib
from collections.abc import Mapping
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from resus_process import refused_here

from resus.errors import ConfigError
from resus.extras import EXTRAS, missing, need, need_module

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OPTIONAL = PROJECT["optional-dependencies"]
OF_THEIR_OWN_ACCORD = {"httptools", "uvloop"}  # uvicorn takes them if they are there


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[^\w-]", requirement)[0].lower() for requirement in requirements}


def distribution(module: str, installed: Mapping[str, list[str]]) -> str:
    """What pip calls a module."""
    known = {found.lower().replace("_", "-").removesuffix("-cpu") for found in installed[module]}
    (name,) = known
    return name


def test_the_table_lists_what_each_extra_installs() -> None:
    assert set(OPTIONAL) - {"all"} == set(EXTRAS)
    installed = packages_distributions()
    for extra, modules in EXTRAS.items():
        assert {distribution(module, installed) for module in modules} == names(
            OPTIONAL[extra]
        ) - OF_THEIR_OWN_ACCORD, extra


def test_all_is_every_extra() -> None:
    (everything,) = OPTIONAL["all"]
    assert everything == f"resus[{','.join(sorted(EXTRAS))}]"


def test_the_page_on_installation_lists_every_extra() -> None:
    page = (Path(__file__).parents[1] / "docs" / "install.md").read_text(encoding="utf-8")
    assert [extra for extra in OPTIONAL if not re.search(rf"^\|.*`{extra}`.*\|", page, re.MULTILINE)] == []


def test_no_extra_repeats_the_core() -> None:
    assert not names(PROJECT["dependencies"]) & {name for extra in EXTRAS for name in names(OPTIONAL[extra])}


def test_what_is_installed_is_not_missing() -> None:
    assert missing("serve") == []
    need("serve", "resus serve")


def test_one_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    sentence = "a picture needs matplotlib, which is not installed: pip install 'resus[report]'"
    with pytest.raises(ConfigError, match=f"^{re.escape(sentence)}$"):
        need("report", "a picture")
    with pytest.raises(ConfigError, match=f"^{re.escape(sentence)}$"):
        need_module("matplotlib", "a picture")


def test_several_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in EXTRAS["serve"]:
        monkeypatch.setitem(sys.modules, module, None)
    sentence = "needs fastapi, jinja2, msgspec, prometheus_client and uvicorn, which are not installed: pip install"
    with pytest.raises(ConfigError, match=sentence):
        need("serve", "resus serve")


@pytest.mark.parametrize(
    ("module", "extra", "words"),
    [
        ("fastapi", "serve", ["serve", "run"]),
        ("matplotlib", "report", ["report", "run"]),
        ("matplotlib", "report", ["warm-up", "run"]),
        ("lightgbm", "trees", ["warm-up", "run"]),
        ("scipy", "paper", ["reproduce", "rq1"]),
        ("ray", "ray", ["train", "planted", "--engine", "ray"]),
    ],
)
def test_a_command_says_what_to_install_and_writes_nothing(
    module: str, extra: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    assert f"needs {module}, which is not installed: pip install 'resus[{extra}]'" in refused_here(*words, cwd=tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_demo_says_so_before_it_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    demo = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "demo.py"))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=r"^resus: the demo needs matplotlib, .*: pip install 'resus\[report\]'$"):
        demo["main"]()
