"""Dockerfile, compose.yaml and the systemd unit say what the command line takes, and agree with each other."""

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer
import yaml
from redis_process import redis_process
from service_process import serving

from resus.cli.main import app
from resus.extras import EXTRAS
from resus.serving import open_store
from resus.serving.http.workers import END_SECONDS

ROOT = Path(__file__).parents[1]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICE, REDIS = COMPOSE["services"]["resus"], COMPOSE["services"]["redis"]
COMMANDS: Any = typer.main.get_command(app)
SERVE = COMMANDS.commands["serve"]
PREFIX = SERVE.context_settings["auto_envvar_prefix"]
VARIABLES = {one.envvar or f"{PREFIX}_{one.name.upper()}" for one in SERVE.params if one.name != "help"}
UNIT = (ROOT / "packaging" / "resus.service").read_text()


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


STEPS: list[tuple[str, str]] = script("check_dockerfile").steps_of(ROOT / "Dockerfile")


def words(instruction: str) -> list[str]:
    return [said for found, said in STEPS if found == instruction]


def in_image() -> dict[str, str]:
    return dict(pair.split("=", 1) for line in words("ENV") for pair in line.split())


def of_resus(names: Any) -> set[str]:
    return {name for name in names if name.startswith("RESUS_")}


def unit(key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", UNIT, re.MULTILINE)


def env_file() -> dict[str, str]:
    """Every option of the file, also those that are turned off by a `#`."""
    lines = (ROOT / "packaging" / "resus.env").read_text().splitlines()
    return dict(line.removeprefix("#").split("=", 1) for line in lines if line and not line.startswith("# "))


def test_every_variable_is_one_of_the_command_line() -> None:
    assert of_resus(in_image()) <= VARIABLES
    assert of_resus(SERVICE["environment"]) <= VARIABLES
    of_unit = {line.partition("=")[0] for line in unit("Environment")}
    assert {*env_file(), *of_unit} == VARIABLES, "the unit offers every option"
    assert of_unit == {"RESUS_TOKEN_FILE"}


def test_every_option_in_the_file_of_the_unit_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in env_file().items():
        monkeypatch.setenv(name, value)
    context = SERVE.make_context("serve", [])
    assert context.params["port"] == int(env_file()["RESUS_PORT"])


def test_the_commands_exist() -> None:
    (entry,), (command,) = words("ENTRYPOINT"), words("CMD")
    assert [*yaml.safe_load(entry), *yaml.safe_load(command)] == ["resus", "serve"]
    (start,) = unit("ExecStart")
    assert shlex.split(start) == ["/opt/resus/bin/resus", "serve"]


def test_the_image_takes_extras_that_exist_and_no_torch() -> None:
    (argument,) = words("ARG")
    name, _, default = argument.partition("=")
    assert SERVICE["build"]["args"] == {name: f"${{RESUS_EXTRAS:-{default}}}"}
    assert set(default.split(",")) <= set(EXTRAS)
    needed = script("service_requirements").requirements(["serve", "redis", "trees", "models"])
    names = {re.split(r"[<>=; ]", each)[0] for each in needed}
    assert names.isdisjoint({"torch", "xgboost"})
    assert {"polars", "typer", "uvicorn", "redis", "lightgbm", "xgboost-cpu"} <= names


def test_what_the_image_copies_is_sent_to_the_engine() -> None:
    sent = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [source for line in words("COPY") if not line.startswith("--") for source in line.split()[:-1]]
    assert all((ROOT / source).exists() for source in copied)
    assert all(any(fnmatch(source, pattern) for pattern in sent) for source in copied), "see .dockerignore"


def test_ports_folders_and_users_agree() -> None:
    image = in_image()
    (port,), (user,), (volume,) = words("EXPOSE"), words("USER"), words("VOLUME")
    assert image["RESUS_PORT"] == port
    (published,) = SERVICE["ports"]
    assert published.startswith("127.0.0.1:")
    assert published.endswith(f":{port}")
    assert SERVICE["user"] == user
    assert user != "0:0"
    assert any(mount.endswith(f":{image['RESUS_RUN']}:ro") for mount in SERVICE["volumes"])
    (data,) = yaml.safe_load(volume)
    assert f"data:{data}" in SERVICE["volumes"]
    assert Path(image["RESUS_RUN"]).parent == Path(data), "changed items are kept beside the model"
    assert Path(image["RESUS_STORE"]).parent == Path(data)
    guide = (ROOT / "docs" / "production.md").read_text()
    assert set(re.findall(r"(?:proxy_pass http://|reverse_proxy )127\.0\.0\.1:(\d+)", guide)) == {port}


def test_what_ends_a_service_waits_for_its_answers() -> None:
    assert int(SERVICE["stop_grace_period"].removesuffix("s")) > END_SECONDS
    assert int(unit("TimeoutStopSec")[0]) > END_SECONDS


@pytest.mark.integration
def test_redis_of_the_compose_file_is_durable_enough_for_the_service(tmp_path: Path) -> None:
    settings = [line.removeprefix("--") for line in REDIS["command"] if line.startswith("--")]
    with redis_process(tmp_path, *settings) as process:
        open_store(process.url, capacity=9).close()
    assert SERVICE["environment"]["RESUS_STORE"].startswith("redis://redis:")


@pytest.mark.integration
def test_the_health_check_of_the_image_tells_a_service_from_none(exported: Path, tmp_path: Path) -> None:
    (health,) = words("HEALTHCHECK")
    _, *code = yaml.safe_load(health[health.index("CMD ") + 4 :])
    with serving(exported, "--store", tmp_path / "events") as service:
        there = {**os.environ, "RESUS_PORT": str(service.port)}
        assert subprocess.run([sys.executable, *code], env=there, check=False).returncode == 0
    gone = subprocess.run([sys.executable, *code], env=there, check=False, capture_output=True)
    assert gone.returncode
