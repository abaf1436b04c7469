"""`resus`: all commands, and the one place where an error becomes a sentence and an exit code."""

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from resus.cli import doctor, evaluate, export, predict, prepare, report, reproduce, serve, train, warm_up
from resus.errors import ResusError, ResusWarning
from resus.version import __version__

HELP = """Make any click-through-rate model personal from a user's first few events.

A shared predictor Ψ, trained on everyone, gives a basis logit; a base-learner Λ fits what one user does differently,
in closed form, from a handful of events; both are fused: ŷ = σ(Ψ(x) + β·Δŷ).

\b
The way from data to a report:
  resus prepare ml-1m                a data set, CSV or Parquet becomes a log
  resus train ml-1m --out runs/rr    learn Ψ, then the residuals
  resus evaluate runs/rr             AUC, GAUC, Logloss by cold-start stage
  resus report runs/rr               curves as PNG and one HTML page
  resus warm-up runs/rr              AUC and GAUC from no event to hundreds, beside rivals
  resus predict runs/rr --support s.csv --query q.csv
  resus reproduce rq1                every rival and table of the paper (try --quick)

`--learner plus` is RESUS+, which goes beyond the paper; `--predictor logits:COLUMN` stands on a model of your own.

Without data at hand: `resus train planted` uses an embedded world whose true click probabilities are known.
"""

app = typer.Typer(
    help=HELP, no_args_is_help=True, rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False
)
app.command("prepare", short_help="A data set or a table of your own becomes a log.")(prepare.command)
app.command("train", short_help="Learn Ψ from everyone, then the residuals.")(train.command)
app.command("evaluate", short_help="Metrics by support size and cold-start stage.")(evaluate.command)
app.command("predict", short_help="Click probabilities from a support and a query file.")(predict.command)
app.command("export", short_help="A run with catalogue and ONNX files, in one folder to serve from.")(export.command)
app.command("serve", short_help="Answer over HTTP, with every event known at once.")(serve.command)
app.command("report", short_help="Curves as PNG and one HTML page.")(report.command)
app.command("warm-up", short_help="AUC and GAUC from no event to hundreds, beside rivals.")(warm_up.command)
app.command("reproduce", short_help="The paper's tables and figures beside your own.")(reproduce.command)
app.command("doctor", short_help="Everything that is wrong with an input file.")(doctor.command)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"resus {__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    del version
    if debug:
        os.environ["RESUS_DEBUG"] = "1"


def main() -> None:
    """Run; exit with 2 and one sentence on a mistake, with 130 when interrupted."""
    try:
        with _one_interrupt(), _warnings_as_sentences():
            app()
    except (ResusError, OSError) as error:
        if os.environ.get("RESUS_DEBUG"):
            raise
        typer.echo(f"resus: {_sentence(error)}", err=True)
        sys.exit(2)


@contextlib.contextmanager
def _one_interrupt() -> Iterator[None]:
    """One Ctrl-C can be raised twice, by polars and by Python: the second, while files close for the first, is none."""
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
    """Our own as one line on standard error; others as Python shows them."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", ResusWarning)
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if not issubclass(category, ResusWarning):
                others(message, category, *where, **more)
                return
            from resus.cli.console import err

            err.print(f"resus: {message}", markup=False, highlight=False, soft_wrap=True)

        warnings.showwarning = show
        yield


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or 'the system says'}: {(error.strerror or str(error)).lower()}; check the path"
    return str(error)
