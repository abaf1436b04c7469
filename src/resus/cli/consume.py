"""`resus consume`."""

import os
import signal
import socket
import threading
from pathlib import Path
from typing import Annotated

import typer


def command(
    run: Annotated[Path, typer.Argument(help="Folder of an export, or of a run.", envvar="RESUS_RUN")],
    source: Annotated[
        str,
        typer.Option(
            "--from",
            help="The stream: redis://HOST:PORT/DB?stream=NAME or kafka://HOST:PORT?topic=NAME.",
            envvar="RESUS_FROM",
        ),
    ],
    group: Annotated[str, typer.Option(help="Consumer group; its consumers share the messages.")],
    store: Annotated[
        str | None, typer.Option(help="Where to keep events: a file, or redis://… [default: FOLDER.events.sqlite]")
    ] = None,
    consumer: Annotated[
        str | None, typer.Option(help="Name of this consumer, which no other one has. [default: host and process]")
    ] = None,
    create_group: Annotated[
        bool,
        typer.Option(
            "--create-group/--no-create-group",
            help="Create the Redis stream and the group if they are missing; the group begins with the oldest entry.",
        ),
    ] = False,
    remember: Annotated[
        int, typer.Option(min=1, max=10_000, help="Number of events to keep per user, as for resus serve.")
    ] = 200,
) -> None:
    """Store the events of a stream, continuously. A service on the same store counts each in its very next score.

    A message holds one event as JSON, as in POST /v1/events; in Redis in the field "event". It is acknowledged once
    its event is stored durably. A message that is delivered twice counts once, by the id of its event. What is no event
    goes to another stream, NAME:dead in Redis and NAME.dead in Kafka, with the reason.

    SIGTERM stores and acknowledges what was read, then stops. After a kill, other consumers of the group, or this one
    after a new start, take over.
    """
    from resus.cli.console import say, warn
    from resus.extras import need

    need("serve", "resus consume")
    from resus.ingest.consumer import Consumer
    from resus.ingest.importing import open_engine
    from resus.ingest.sources import open_source

    name = consumer or f"{socket.gethostname()}-{os.getpid()}"
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    stream = open_source(source, group=group, consumer=name, create=create_group)
    try:
        engine = open_engine(run, f"{run}.events.sqlite" if store is None else store, capacity=remember)
        try:
            work = Consumer(stream, engine, warn)
            say(f"consumes as {name} of group {group}")
            work.run(stopping)
            say(work.summary())
        finally:
            engine.store.close()
    finally:
        stream.close()
