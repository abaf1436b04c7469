"""`resus`: all commands, and the one place that turns an error into a sentence and an exit code."""

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from resus.cli import (
    compare,
    consume,
    doctor,
    evaluate,
    explore,
    export,
    import_events,
    predict,
    prepare,
    recommend,
    report,
    reproduce,
    serve,
    store,
    train,
    tune,
    warm_up,
)
from resus.errors import ResusError, ResusWarning
from resus.version import __version__
from resus.wording import on_the_command_line

HELP = """Make any click-through-rate model personal from a user's first few events.

A shared model, trained on all users, scores every candidate. A small per-user model, fitted in milliseconds to the
user's events so far, corrects these scores.

\b
From data to a report:
  resus prepare ml-1m                  turn a data set, CSV or Parquet file into a log
  resus train ml-1m --out runs/mine    train the shared model and its adaptation to users (RESUS+)
  resus evaluate runs/mine             AUC, GAUC and Logloss on new users, by number of events
  resus report runs/mine               curves as PNG and an HTML page
  resus warm-up runs/mine              AUC and GAUC from no events to hundreds, next to baselines
  resus predict runs/mine --support events.csv --query candidates.csv
  resus recommend runs/mine --support events.csv --top 10
  resus explore planted                what exploring buys, and what it costs
  resus reproduce rq1                  every method and table of the paper (try --quick)

\b
From a run to a service:
  resus export runs/mine --out runs/live-export      the model with its items, to serve
  resus serve runs/live-export                       HTTP on 127.0.0.1:8000, with a playground at /
  resus import runs/live-export events.csv           store the events of a table
  resus consume runs/live-export --from redis://…    store the events of a stream

\b
Options of resus train:
  --predictor logits:COLUMN     personalize the scores of your own model
  --learner ridge or nearest    the methods of the paper, RESUS-RR and RESUS-NN

No data at hand? `resus train planted` uses a synthetic data set with known click probabilities.
"""

# each option of a command that runs for long is also a variable: --store is RESUS_STORE, in a unit or a container
BY_ENVIRONMENT = {"auto_envvar_prefix": "RESUS"}
app = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)
app.command("prepare", short_help="Turn a data set or your own table into a log.")(prepare.command)
app.command("train", short_help="Train a shared model and its adaptation to users.")(train.command)
app.command("tune", short_help="Search for the best settings on validation users.")(tune.command)
app.command("evaluate", short_help="Measure quality on new users, by number of events.")(evaluate.command)
app.command("compare", short_help="Say whether a new model is better than an old one.")(compare.command)
app.command("predict", short_help="Score candidates from the users' events so far.")(predict.command)
app.command("recommend", short_help="Rank all items for users, from their events so far.")(recommend.command)
app.command("explore", short_help="Show what exploring buys, and what it costs.")(explore.command)
app.command("export", short_help="Pack a run, its items and ONNX files into a folder to serve.")(export.command)
app.command("serve", short_help="Serve a model over HTTP; it learns from each event.", context_settings=BY_ENVIRONMENT)(
    serve.command
)
app.command(
    "consume", short_help="Store the events of a stream, for a service to use.", context_settings=BY_ENVIRONMENT
)(consume.command)
app.command("import", short_help="Store the events of a table, for a service to use.")(import_events.command)
app.add_typer(store.app, name="store", short_help="Check where events are kept, salvage them, and delete old ones.")
app.command("report", short_help="Draw curves and write an HTML page.")(report.command)
app.command("warm-up", short_help="Compare runs from no events to hundreds of events.")(warm_up.command)
app.command("reproduce", short_help="Repeat the experiments of the paper.")(reproduce.command)
app.command("doctor", short_help="List everything that is wrong with an input.")(doctor.command)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"resus {__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    del version
    context.with_resource(on_the_command_line())
    if debug:
        os.environ["RESUS_DEBUG"] = "1"


def main() -> None:
    """Run a command. Exit with 2 and one sentence after a mistake, with 130 after Ctrl-C."""
    try:
        with _one_interrupt(), _warnings_as_sentences():
            app()
    except (ResusError, OSError) as error:
        if os.environ.get("RESUS_DEBUG"):
            raise
        sentence = str(error)
        if isinstance(error, OSError):
            reason = (error.strerror or str(error)).lower()
            sentence = f"{error.filename or 'the system reports'}: {reason}; check the path"
        typer.echo(f"resus: {sentence}", err=True)
        sys.exit(2)


@contextlib.contextmanager
def _one_interrupt() -> Iterator[None]:
    """Ignore a second KeyboardInterrupt: polars and Python can both raise one for a single Ctrl-C."""
    before = sys.unraisablehook

    def say(caught: "sys.UnraisableHookArgs") -> None:
        if not issubclass(caught.exc_type, KeyboardInterrupt):
            before(caught)

    sys.unraisablehook = say
    try:
        yield
    finally:
        sys.unraisablehook = before


@contextlib.contextmanager
def _warnings_as_sentences() -> Iterator[None]:
    """Print our own warnings as one line on standard error, and others as Python does."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", ResusWarning)
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, ResusWarning):
                from resus.cli.console import warn

                warn(f"resus: {message}")
            else:
                others(message, category, *where, **more)

        warnings.showwarning = show
        yield
