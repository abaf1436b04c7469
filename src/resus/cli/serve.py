"""`resus serve`."""

import os
import signal
from pathlib import Path
from typing import Annotated

import typer


def command(
    run: Annotated[Path, typer.Argument(help="A run folder, or better an export of one.")],
    host: Annotated[str, typer.Option(help="Address to listen on; any but loopback demands a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8000,
    store: Annotated[
        str | None, typer.Option(help="Where events are kept: a file, or redis://… [default: beside the run]")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="File with the token that callers must send. [default: $RESUS_TOKEN]")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes that answer.")] = 1,
    remember: Annotated[
        int, typer.Option(min=1, max=10_000, help="How many of a user's latest events count; older ones are dropped.")
    ] = 200,
) -> None:
    """Answer over HTTP; each event that comes in is known to the very next score.

    POST /v1/events takes events in, POST /v1/predict scores candidates, /docs describes every route and / is a
    playground. SIGHUP or POST /v1/reload loads a new artifact from the same folder; SIGTERM ends when all is answered.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the service listens to it

    from resus.cli.console import say
    from resus.serving.http.guard import Access, read_token

    access = Access(host, read_token(token_file, os.environ))

    from resus.serving.http.workers import Worker, listen, run_one, run_several
    from resus.serving.loaded import LoadedModel
    from resus.serving.store.protocol import open_store

    place = f"{run}.events.sqlite" if store is None else store
    loaded = LoadedModel.load(run)
    open_store(place, capacity=remember).close()
    listener = listen(host, port)
    worker = Worker(run, place, access, loaded.meaning, remember)
    named = f"[{host}]" if ":" in host else host
    shown = place if "@" not in place else f"redis at {place.rpartition('@')[2]}"  # a URL may hold a password
    say(f"{loaded.name} on http://{named}:{listener.getsockname()[1]}, events in {shown}")
    if not loaded.catalogue_size:
        say(f"{run} has no catalogue: items are known by their id alone; serve what 'resus export' makes of it")
    if loaded.score:
        say(
            f"Ψ is {loaded.score}, which callers send with each event and candidate; "
            "the playground can only replay test users"
        )
    del loaded
    if workers == 1:
        run_one(worker, listener)
    else:
        run_several(worker, listener, workers)
