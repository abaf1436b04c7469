"""What README and docs show is true: commands parse with all their settings, code runs, files exist.

Nothing is skipped: a fenced block must name its language, and every line of a shell block must be of a known kind.
"""

import argparse
import importlib
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import polars as pl
import pytest
import typer.main
import yaml
from models_of_others import catboost_file, rows
from planted_models import tiny
from resus_process import COMMAND, WITHOUT_NETWORK, environment, succeed_here
from typer.testing import CliRunner

import resus
from resus import PlantedWorld, TableSchema, planted_log
from resus.baselines.base import find_methods
from resus.checking import checked
from resus.cli.arguments import check_engine, check_part
from resus.cli.main import app
from resus.config.resolve import PLAIN, parse_assignments, resolve
from resus.data.datasets.planted import draw_events
from resus.data.datasets.taobao.planted import PlantedTaobao
from resus.data.options import PrepareOptions
from resus.errors import ConfigError
from resus.paper.questions import chosen_questions
from resus.paper.rivals import METHODS

ROOT = Path(__file__).parents[1]
FOLDERS = (".", "docs", "docs/reference", "benchmarks")
DOCUMENTS = [path for folder in FOLDERS for path in (ROOT / folder).glob("*.md")]
TEXTS = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in sorted(DOCUMENTS)}
SERVICE, REAL_DATA = "docs/service.md", "docs/real-data.md"
FENCE = re.compile(r"^```(.*?)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LANGUAGES = {"sh", "python", "yaml", "json", "text"}
LEARNERS = ("ridge", "nearest", "plus")
ELSEWHERE = {
    "CONTRIBUTING.md",  # its code is quoted from files that tests/test_extending.py runs
    "docs/client.md",  # tests/client/test_client_page.py runs its code against a service
    "README.md",  # tests/test_wheel.py runs its code in an empty environment
}
USAGE: type[Exception] = typer.BadParameter.__bases__[0]  # what typer's parser raises; typer does not export it
WRONG = (AssertionError, ConfigError, USAGE, ModuleNotFoundError, SystemExit)  # argparse exits
QUICK = (*WITHOUT_NETWORK, "--predictor", "lr", "--set", "predictor.epochs=1", "--set", "training.folds=1")
PLANTED = ("prepare", "planted", "--set", "users=60", "--set", "items=20", "--set", "events_per_user=20")


class Shown(NamedTuple):
    """Something that a document shows, and where."""

    document: str
    text: str


def blocks(language: str) -> list[Shown]:
    return [Shown(name, code) for name, text in TEXTS.items() for said, code in FENCE.findall(text) if said == language]


def spans() -> list[Shown]:
    """Inline code of all documents."""
    found = [(name, code) for name, text in TEXTS.items() for code in re.findall(r"`([^`]+)`", FENCE.sub("", text))]
    return list(dict.fromkeys(Shown(name, " ".join(code.replace("\\|", "|").split())) for name, code in found))


def shell_lines() -> list[Shown]:
    """Commands of shell blocks: comments and here-documents removed, continued lines joined."""
    found = []
    for name, code in blocks("sh"):
        code = re.sub(r"^(cat > \S+) <<END\n.*?^END$", r"\1", code, flags=re.MULTILINE | re.DOTALL)
        for line in code.replace("\\\n", " ").splitlines():
            command = " ".join(shlex.split(line, comments=True) and [line.partition("  #")[0].strip()])
            if command:
                found.append(Shown(name, command))
    return found


def alternatives(command: str) -> Iterator[str]:
    """`--predictor lr|fm` shows two commands."""
    choice = re.search(r"(?<=\s)[\w.-]+(?:\|[\w.-]+)+", command)
    if choice is None:
        yield command
        return
    for word in choice[0].split("|"):
        yield from alternatives(command[: choice.start()] + word + command[choice.end() :])


def check_command(words: list[str], *, whole: bool) -> None:
    """Parse `resus ...` with the real parser and resolve its settings; `whole` allows no missing parameter."""
    group = typer.main.get_command(app)
    name, *arguments = words
    if name in ("--help", "--version", "--debug", "--install-completion", "--show-completion"):
        return
    command = group.commands.get(name)  # type: ignore[attr-defined]
    assert command is not None, f"there is no command '{name}'"
    arguments = [re.sub(r"^N$", "100", word) for word in arguments]
    if not whole:
        arguments = completed(command, arguments)
    check_settings(name, arguments, command.make_context(name, list(arguments)).params)


def completed(command: Any, arguments: list[str]) -> list[str]:
    """Words of a sentence with a value for the last option and for every required parameter, where missing."""
    if arguments and any(arguments[-1] in parameter.opts and not parameter.is_flag for parameter in command.params[1:]):
        arguments = [*arguments, "1"]
    given, _, _ = command.make_parser(command.context_class(command)).parse_args(list(arguments))
    for parameter in command.params:
        if parameter.required and not given.get(parameter.name):
            value = "rq1" if parameter.name == "question" else "planted"
            arguments = [*arguments, *([] if parameter.param_type_name == "argument" else parameter.opts[:1]), value]
    return arguments


def check_settings(name: str, arguments: list[str], options: dict[str, Any]) -> None:
    """What the parser leaves to the command: names, values and `--set KEY=VALUE`."""
    assignments = parse_assignments(options.get("assignments") or [])
    if name == "train":
        arguments = without_files(arguments)
        done = CliRunner().invoke(app, ["train", *arguments, "--settings"], catch_exceptions=False)
        assert done.exit_code == 0, done.output
    if name == "tune":
        for learner in (options["learners"] or ",".join(LEARNERS)).split(","):
            resolve({"learner.kind": learner} | assignments)
    if name == "reproduce":
        chosen_questions(options["question"])
        resolve(PLAIN | assignments)
    if name in ("prepare", "doctor"):
        planted = options.get("source") == "planted"
        model = PlantedTaobao if options.get("like") else PlantedWorld if planted else PrepareOptions
        checked(model, assignments if planted else {"protocol": options.get("protocol", "paper"), **assignments})
    methods = options.get("methods") or options.get("rivals") or "none"
    find_methods([] if methods == "none" else methods.split(","), METHODS)
    check_part(options.get("part", "test"))
    check_engine(options.get("engine", "local"), options.get("workers") if "engine" in options else None)


def without_files(arguments: list[str]) -> list[str]:
    """Without the options whose files a document only speaks of."""
    named = {place for place, word in enumerate(arguments) if word in ("--warm-start", "--config")}
    return [word for place, word in enumerate(arguments) if place not in named and place - 1 not in named]


def check_options(words: list[str]) -> None:
    """Options without a command: at least one command takes them all."""
    words = words[:-1] if words[1:] == ["KEY=VALUE"] else words
    refusals = []
    for name in sorted(typer.main.get_command(app).commands):  # type: ignore[attr-defined]
        for more in [["--learner", learner] for learner in LEARNERS] if name == "train" else [[]]:
            if len(words) == 1 and words[0] in CliRunner().invoke(app, [name, "--help"]).output.split():
                return
            try:
                check_command([name, *more, *words], whole=False)
            except WRONG as error:
                refusals.append(f"{name}: {error}")
            else:
                return
    raise AssertionError(f"no command takes {' '.join(words)}: {refusals}")


class Parsed(Exception):  # noqa: N818
    """Arguments were accepted, and nothing was run."""


def check_benchmark(module: str, arguments: list[str]) -> None:
    """The module exists, and its parser accepts the arguments."""
    parse = argparse.ArgumentParser.parse_args

    def parse_only(parser: argparse.ArgumentParser, *given: Any) -> None:
        parse(parser, arguments)
        raise Parsed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_args", parse_only)
        found = importlib.import_module(module)
        if hasattr(found, "__path__"):  # a package, of which python -m runs __main__
            found = importlib.import_module(f"{module}.__main__")
        with pytest.raises(Parsed):
            found.main()


def check(command: str, *, whole: bool = True) -> None:
    """Refuse a command line that would fail."""
    program, *words = shlex.split(command)
    if program == "resus":
        check_command(words, whole=whole)
    elif program == "make":
        done = subprocess.run(["make", "--dry-run", *words], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    elif program == "python" and words[:2] == ["-m", "resus"]:
        check_command(words[2:] or ["--help"], whole=whole)
    elif program == "python" and words[0] == "-m":
        check_benchmark(words[1], words[2:])
    elif program.endswith("pip") and words[0] == "install":
        extras = re.findall(r"\[(.+?)\]", command)
        known = importlib.import_module("tomllib").loads((ROOT / "pyproject.toml").read_text())["project"]
        assert all(extra in known["optional-dependencies"] for group in extras for extra in group.split(","))
    else:
        assert program in ("source", "cat", "curl") or (ROOT / program).is_file(), f"unknown command: {command}"


def test_every_block_names_its_language() -> None:
    assert {language for text in TEXTS.values() for language, _ in FENCE.findall(text)} <= LANGUAGES


def test_the_documents_show_every_command() -> None:
    shown = {text.split()[1] for _, text in shell_lines() if text.startswith("resus ")}
    assert {command.name for command in app.registered_commands} <= shown


def test_the_readme_fits_on_a_screen_and_a_half() -> None:
    lines = TEXTS["README.md"].splitlines()
    assert len(lines) <= 100
    assert not re.search(r"[Α-ω]", "\n".join(lines[: lines.index("```sh")])), "no Greek letter before the first command"


@pytest.mark.parametrize("shown", shell_lines(), ids=str)
def test_every_command_parses(shown: Shown) -> None:
    check(shown.text)


@pytest.mark.parametrize(
    "shown", [span for span in spans() if re.match(r"(resus|make|python -m|pip install|\S*/pip) ", span.text)], ids=str
)
def test_every_command_in_a_sentence_parses(shown: Shown) -> None:
    for command in alternatives(shown.text.replace(" …", "")):
        check(command, whole=False)


@pytest.mark.parametrize("shown", [span for span in spans() if span.text.startswith("--")], ids=str)
def test_every_option_in_a_sentence_exists(shown: Shown) -> None:
    for options in alternatives(shown.text):
        check_options(shlex.split(options))


@pytest.mark.parametrize(
    "command",
    [
        "resus trian ml-1m",
        "resus train ml-1m --settigns",
        "resus train ml-1m --set training.epoch=3",
        "resus train ml-1m --set training.epochs=many",
        "resus train ml-1m --predictor deepfn",
        "resus train ml-1m --learner nearest --set learner.taste=false",
        "resus prepare planted --set user=30",
        "resus prepare ml-1m --set negative=2",
        "resus predict runs/mine --support support.csv",
        "resus evaluate runs/mine --part train",
        "resus evaluate runs/mine --draws some",
        "resus tune planted --set predictor.embedding_dims=16",
        "resus tune planted --learners plus,rigde",
        "resus reproduce rq9",
        "resus reproduce rq1 --methods melo",
        "resus warm-up runs/mine --rivals melo",
        "make cake",
        "python -m benchmarks.speeed",
        "python -m benchmarks.speed --fast",
        "python -m benchmarks.quality ml-2m",
        "pip install -e '.[rays]'",
        "resuss train",
        "python -m resus trian",
    ],
)
def test_a_wrong_command_is_noticed(command: str) -> None:
    with pytest.raises(WRONG):
        check(command)


def test_a_wrong_option_in_a_sentence_is_noticed() -> None:
    for options in ("--settigns", "--set learner.tast=false", "--engine spark"):
        with pytest.raises(AssertionError):
            check_options(shlex.split(options))


@pytest.mark.parametrize("shown", [Shown(name, text) for name, text in TEXTS.items()], ids=lambda shown: shown.document)
def test_every_link_leads_somewhere(shown: Shown) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", FENCE.sub("", shown.text)):
        if link.startswith("http"):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / shown.document).parent / path if path else ROOT / shown.document
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target.read_text(encoding="utf-8")), link


def anchors(text: str) -> set[str]:
    """Anchors of the headings, as GitHub makes them: a repeated heading gets a number."""
    heads = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)
    plain = [re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads]
    return {f"{head}-{count}" if (count := plain[:place].count(head)) else head for place, head in enumerate(plain)}


@pytest.mark.parametrize("shown", [span for span in spans() if re.fullmatch(r"\w[\w/-]*(\.py|/)", span.text)], ids=str)
def test_every_source_file_exists(shown: Shown) -> None:
    places = (ROOT, ROOT / "src" / "resus", (ROOT / shown.document).parent)
    assert any((place / shown.text).exists() for place in places)


@pytest.mark.parametrize("shown", [span for span in spans() if re.match(r"resus\.[a-zA-Z]", span.text)], ids=str)
def test_every_name_of_the_library_exists(shown: Shown) -> None:
    name = re.match(r"resus\.(\w+)", shown.text)
    assert name is not None
    assert name[1] in resus.__all__ or importlib.import_module(f"resus.{name[1]}")


@pytest.mark.parametrize("shown", blocks("yaml"), ids=str)
def test_every_schema_is_valid(shown: Shown) -> None:
    TableSchema.model_validate(yaml.safe_load(shown.text))


@pytest.mark.parametrize("shown", blocks("json"), ids=str)
def test_all_json_is_valid(shown: Shown) -> None:
    json.loads(shown.text)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the documents' code reads: tables, a model file, a log and an export."""
    place = tmp_path_factory.mktemp("documents")
    table = rows()
    catboost_file(table, place)
    table = table.rename({"user": "user_id", "item": "movie_id", "click": "clicked", "hour": "age"})
    for name in ("events", "support", "query"):
        table.write_csv(place / f"{name}.csv")
    schema = {"user": "user_id", "item": "movie_id", "label": "clicked", "fields": {"age": "numeric"}}
    (place / "schema.yaml").write_text(yaml.safe_dump(schema))
    planted_log(PlantedWorld(users=80, items=20, events_per_user=40)).save(place / "data" / "frappe")
    succeed_here(*PLANTED, cwd=place)
    for line in live_commands():
        small = QUICK if line[0] == "train" else []
        succeed_here(*line, *small, cwd=place)
    return place


def live_commands() -> list[list[str]]:
    """The way from training to an export that the page of the service shows."""
    (block,) = (code for document, code in blocks("sh") if document == SERVICE and "resus export" in code)
    lines = [line for line in block.splitlines() if line.startswith("resus ") and " serve " not in line]
    return [shlex.split(line, comments=True)[1:] for line in lines]


@pytest.mark.integration
@pytest.mark.parametrize("shown", [block for block in blocks("python") if block.document not in ELSEWHERE], ids=str)
def test_all_python_runs(shown: Shown, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    events = draw_events(PlantedWorld(users=10, items=20, events_per_user=10)).drop("truth", "crowd")
    support, query = events.head(20), events.tail(20)
    known = {"resus": resus, "Path": Path, "support": support, "query": query}
    exec(compile(shown.text, shown.document, "exec"), known)


@pytest.mark.integration
def test_the_tables_that_are_shown_are_scored(folder: Path, tmp_path: Path) -> None:
    files = dict(re.findall(r"^cat > (\S+) <<END\n(.*?)^END$", TEXTS[REAL_DATA], re.MULTILINE | re.DOTALL))
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    support, query = pl.read_csv(tmp_path / "support.csv"), pl.read_csv(tmp_path / "query.csv")
    fields = dict.fromkeys(set(query.columns) - {"user", "item"}, "categorical")
    schema = {"user": "user", "item": "item", "label": "used", "fields": fields}
    users = pl.Series("user", [f"u{number // 8}" for number in range(240)])
    table = pl.concat([support] * 120).with_columns(users, used=pl.Series([0, 1, 1] * 80))
    keep = resus.BuildOptions(duplicates="keep")
    model = tiny().fit(resus.build_log(table, TableSchema.model_validate(schema), keep, name="shown"))
    answer = model.predict(support, query)
    assert answer["support"].to_list() == [2, 2, 0]
    assert answer["residual"][2] == 0


@pytest.mark.integration
def test_the_requests_that_are_shown_are_answered(folder: Path) -> None:
    page = TEXTS[SERVICE]
    requests = re.findall(r"curl -s 127\.0\.0\.1:8000(\S+) -H 'content-type: application/json' \\\n\s+-d '(.*?)'", page)
    assert len(requests) == page.count("curl ") > 0
    command = [*COMMAND, "serve", "runs/live-export", "--port", "0"]
    with subprocess.Popen(command, cwd=folder, env=environment(), stdout=subprocess.PIPE, text=True) as service:
        try:
            assert service.stdout is not None
            address = re.search(r"http://\S+?:\d+", service.stdout.readline())
            assert address is not None
            transport = httpx.HTTPTransport(retries=5)
            with httpx.Client(base_url=address[0], transport=transport, timeout=30) as client:
                for path, body in requests:
                    answer = client.post(path, json=json.loads(body))
                    assert answer.status_code == 200, answer.text
        finally:
            service.terminate()
