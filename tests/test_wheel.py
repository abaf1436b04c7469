"""The wheel in an empty environment: only what it declares can be imported, and what a new user tries first works."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[1]
SECONDS = 900  # for any one step
SMALL = "--set training.folds=1 --set predictor.epochs=1 --set training.epochs=2 --set predictor.hidden_units=[8]"
COMMANDS = (
    "prepare planted --set users=120 --set items=20 --set events_per_user=20 --out log",
    f"train log {SMALL} --out run",
    "evaluate run --draws 0",
    "predict run --support events.csv --query events.csv --explain --out scores.csv",
    "recommend run --support events.csv --top 3",
    "export run --out export",
    "doctor log",
)
REFUSED = {
    "serve export": "resus serve needs fastapi, msgspec, prometheus_client and uvicorn, which are not installed: "
    "pip install 'resus[serve]'",
    "report run": "resus report needs matplotlib, which is not installed: pip install 'resus[report]'",
    "train log --predictor lightgbm --out trees": "the predictor 'lightgbm' needs lightgbm, which is not installed: "
    "pip install 'resus[trees]'",
    "train log --engine ray --out ray": "the engine 'ray' needs ray, which is not installed: pip install 'resus[ray]'",
    "warm-up run": "resus warm-up needs matplotlib, which is not installed: pip install 'resus[report]'",
    "reproduce rq1 --quick": "resus reproduce needs lightgbm, matplotlib and scipy, which are not installed: "
    "pip install 'resus[paper]'",
    "store check redis://localhost": "a store in Redis needs redis, which is not installed: pip install 'resus[redis]'",
    "export run --out export --onnx": "writing ONNX files needs onnx and onnxscript, which are not installed: "
    "pip install 'resus[onnx]'",
    "prepare events.csv --schema schema.yaml --score-with model.cbm --out mine": "model.cbm needs catboost, which is "
    "not installed: pip install 'resus[models]'",
}
SCRIPT = """
import contextlib, io, shlex, sys
from resus.cli.main import main
for command in sys.argv[1:]:
    sys.argv, said = ["resus", *shlex.split(command)], io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code or 0
    print(f"<{command}> {code} {said.getvalue().strip().splitlines()[-1:]}", flush=True)
"""
EVENTS = """user,item,category,brand,age,gender,daypart,device,time,click
ada,3,1,1,18-24,f,noon,phone,1,1
ada,8,2,1,18-24,f,noon,phone,2,0
"""


def required(found: Distribution) -> Iterator[Distribution]:
    """What a distribution requires on this machine without any extra, and what that requires."""
    from packaging.requirements import Requirement

    for text in found.requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            child = distribution(requirement.name)
            yield child
            yield from required(child)


def top_level(found: Distribution) -> set[Path]:
    """What a distribution puts into site-packages."""
    names = {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}
    return {Path(str(found.locate_file(name))) for name in names}


def run(*words: object, cwd: Path) -> str:
    """The output of a program that must succeed, in an environment without our PYTHONPATH."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=clean | {"OMP_NUM_THREADS": "1", "RESUS_DATA": str(cwd / "data")},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment that holds the wheel and what it requires, and nothing else.

    The packages are links to those that run this test: nothing is fetched, and yet an undeclared import fails.
    """
    place = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", place, cwd=ROOT)
    (wheel,) = place.glob("resus-*.whl")
    run(sys.executable, "-m", "venv", "--without-pip", "empty", cwd=place)
    python = place / "empty" / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index")
    run(*pip, "--disable-pip-version-check", wheel, cwd=place)
    code = "import importlib.metadata as m; d = m.distribution('resus'); print(d.locate_file(''))"
    site = Path(run(python, "-c", code, cwd=place).strip())
    (here,) = (found for found in Distribution.discover(name="resus", path=[str(site)]))
    for found in required(here):
        for source in top_level(found):
            if not (site / source.name).exists():
                (site / source.name).symlink_to(source)
    return python.parent


def test_the_environment_holds_no_extra(programs: Path, tmp_path: Path) -> None:
    code = (
        "import importlib.util as u; print([n for n in ('fastapi', 'lightgbm', 'pytest', 'redis') if u.find_spec(n)])"
    )
    assert run(programs / "python", "-c", code, cwd=tmp_path).strip() == "[]"


def test_the_first_lines_of_the_readme_run(programs: Path, tmp_path: Path) -> None:
    found = re.search(
        r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert found is not None
    assert len(found[1].strip().splitlines()) <= 12
    said = run(programs / "python", "-c", found[1], cwd=tmp_path)
    scores = {name: float(auc) for name, auc in re.findall(r"^(.+): AUC (\d\.\d+)", said, re.MULTILINE)}
    assert scores["DeepFM"] < scores["RESUS+"] < scores["oracle"]


def test_both_ways_to_start_it_show_help_and_version(programs: Path, tmp_path: Path) -> None:
    assert "resus train" in run(programs / "resus", "--help", cwd=tmp_path)
    assert run(programs / "python", "-m", "resus", "--version", cwd=tmp_path).startswith("resus ")


def test_the_core_works_alone_and_names_each_extra_that_is_missing(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text(EVENTS)
    (tmp_path / "schema.yaml").write_text("user: user\nitem: item\nlabel: click\n")
    (tmp_path / "model.cbm").write_bytes(b"CBM1")
    said = run(programs / "python", "-c", SCRIPT, *COMMANDS, *REFUSED, cwd=tmp_path)
    for command in COMMANDS:
        assert f"<{command}> 0 " in said, said
    for command, sentence in REFUSED.items():
        assert f'<{command}> 2 ["resus: {sentence}"]' in said.replace("['resus", '["resus').replace("']\n", '"]\n'), (
            said
        )
    assert not [name for name in ("trees", "ray", "mine") if (tmp_path / name).exists()]
    assert not (tmp_path / "export" / "encoder.onnx").exists()
