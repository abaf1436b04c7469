"""`resus serve`."""

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from resus.serving.experiment.split import Split
    from resus.serving.loaded import LoadedModel


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


def command(
    run: Annotated[Path, typer.Argument(help="Folder of an export, or of a run.", envvar="RESUS_RUN")],
    host: Annotated[
        str, typer.Option(help="Address to listen on. An address other than loopback requires a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 selects a free port.")] = 8000,
    store: Annotated[
        str | None, typer.Option(help="Where to keep events: a file, or redis://… [default: FOLDER.events.sqlite]")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="File with the token that clients must send. [default: $RESUS_TOKEN]")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Number of worker processes.")] = 1,
    remember: Annotated[
        int, typer.Option(min=1, max=10_000, help="Number of events to keep per user; older events are dropped.")
    ] = 200,
    shadow: Annotated[
        Path | None,
        typer.Option(help="Folder of a second model. It scores every request as well, unseen, to compare the two."),
    ] = None,
    split: Annotated[
        float | None,
        typer.Option(help="Share of the users that the second model answers, such as 0.1; always the same users."),
    ] = None,
    split_salt: Annotated[
        str | None, typer.Option(help="Decides which users these are; another text chooses others. [default: resus]")
    ] = None,
    forget_after: Annotated[
        str | None,
        typer.Option(help="Delete events that are older, such as 90d, 12h or 30m. [default: keep them]"),
    ] = None,
    log_format: Annotated[
        LogFormat, typer.Option(help="Lines of the log: text, or one JSON object each.")
    ] = LogFormat.TEXT,
    access_log: Annotated[
        bool, typer.Option("--access-log/--no-access-log", help="Log each request: route, status and time.")
    ] = False,
    log_ids: Annotated[
        bool, typer.Option("--log-ids/--no-log-ids", help="In the access log, write paths with the ids of users.")
    ] = False,
) -> None:
    """Serve a model over HTTP. Each event counts in the very next score.

    POST /v1/events stores events, POST /v1/predict scores candidates, /docs lists all routes, and / is a playground.
    SIGHUP or POST /v1/reload loads a new model from the same folder, and POST /v1/rollback goes back to the one before.
    SIGTERM answers open requests, then stops. GET /v1/experiment compares two models (--shadow).
    """
    from resus.extras import need

    need("serve", "resus serve")
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the service handles it

    from resus.cli.console import say
    from resus.errors import ConfigError
    from resus.serving.expiry import expiring, seconds_in
    from resus.serving.http.guard import Access, read_token
    from resus.serving.http.log_settings import LogSettings, json_line

    access = Access(host, read_token(token_file, os.environ))
    logs = LogSettings(as_json=log_format is LogFormat.JSON, access=access_log, ids=log_ids)
    if logs.ids and not logs.access:
        raise ConfigError("--log-ids is about the lines of the access log: add --access-log, or leave it out")

    age = None if forget_after is None else seconds_in(forget_after)

    def tell(sentence: str) -> None:
        say(json_line("INFO", {"message": sentence}) if logs.as_json else sentence)

    from resus.serving.experiment.predictions import shared_memory
    from resus.serving.experiment.trial import check_second
    from resus.serving.http.workers import Worker, listen, run_one, run_several
    from resus.serving.lineup import home_of_copies
    from resus.serving.loaded import LoadedModel
    from resus.serving.store import open_store

    chosen = _split(split, split_salt, shadow)
    place = f"{run}.events.sqlite" if store is None else store
    loaded = LoadedModel.load(run)
    if shadow is not None:
        second = LoadedModel.load(shadow)
        check_second(loaded, second, str(shadow))
    with closing(open_store(place, capacity=remember)) as opened:
        if forget_after is not None:
            expiring(opened)
    listener = listen(host, port)
    named = f"[{host}]" if ":" in host else host
    shown = place if "@" not in place else f"redis at {place.rpartition('@')[2]}"  # a URL may hold a password
    tell(f"{loaded.name} on http://{named}:{listener.getsockname()[1]}, events in {shown}")
    for remark in _remarks(run, loaded):
        tell(remark)
    if forget_after is not None:
        tell(f"events older than {forget_after} are deleted, and users who have no others")
    runs, memory, meaning = [run], None, loaded.meaning
    if shadow is not None:
        share = "no user" if chosen is None else f"{chosen.share:.3g} of the users"
        tell(f"{second.name} from {shadow} scores along and answers {share}: see /v1/experiment")
        memory = shared_memory()
        runs.append(shadow)
        del second
    del loaded
    with home_of_copies(run) as home:
        worker = Worker(tuple(runs), home, place, access, meaning, remember, logs, chosen, memory, age)
        if workers == 1:
            run_one(worker, listener)
        else:
            run_several(worker, listener, workers)


def _split(share: float | None, salt: str | None, shadow: Path | None) -> "Split | None":
    """Which users the second model answers."""
    from resus.errors import ConfigError
    from resus.serving.experiment.split import SALT, Split

    if share is not None and shadow is None:
        raise ConfigError("--split needs a second model: name its folder with --shadow")
    if salt is not None and share is None:
        raise ConfigError("--split-salt is about the users of --split: add --split, or leave it out")
    return None if share is None else Split(share, salt or SALT)


def _remarks(run: Path, loaded: "LoadedModel") -> Iterator[str]:
    """What the caller should know about what requests must bring."""
    if not loaded.catalogue_size:
        yield f"{run} has no catalogue, so the service knows only the ids of items: serve an export ('resus export')"
    if loaded.score:
        yield (
            f"the shared model's score is the field {loaded.score}, which clients send with each event and candidate; "
            "the playground can only replay test users"
        )
    if loaded.own:
        yield (
            f"{loaded.own.facts.written_by} gives the scores: requests bring {', '.join(sorted(loaded.own.situation))}"
        )
