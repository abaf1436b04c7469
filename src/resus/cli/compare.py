"""`resus compare`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from resus.evaluation.comparison import Comparison


def command(
    old: Annotated[Path, typer.Argument(help="Run folder of the old model.")],
    new: Annotated[Path, typer.Argument(help="Run folder of the new model.")],
    data: Annotated[
        str | None,
        typer.Option(help="Log to compare on: its folder, or its name under data/. [default: the log of the new run]"),
    ] = None,
    users: Annotated[
        str,
        typer.Option(
            help="Users to measure: unseen by both runs in training and validation; new: in no log of theirs; or all."
        ),
    ] = "unseen",
    draws: Annotated[int, typer.Option(help="Number of draws of users for the 95 % intervals, 40 to 100,000.")] = 200,
    out: Annotated[Path | None, typer.Option(help="JSON file for the comparison.")] = None,
) -> None:
    """Say whether a new model is better than an old one, by stage, with 95 % intervals.

    Each run reads the log by its own vocabularies. Only users on whom neither was trained or validated count.
    """
    from resus.cli.arguments import check_users, load_runs, log_of_run
    from resus.cli.console import console, progress_bars, say
    from resus.cli.news import tell_news
    from resus.estimator.verdict import compare
    from resus.evaluation.intervals import check_draws

    asked = check_users(users)
    check_draws(draws)
    before, after = load_runs([old, new]).values()
    log = log_of_run(new, after, data)
    with progress_bars() as progress:
        names = str(old), str(new)
        found = compare(before, after, log, users=asked, names=names, draws=draws, progress=progress)
    if out is not None:
        found.write(out)
    tell_news(found, users)
    console.print(_table(found))
    say(f"{found.users:,} of {found.log.users:,} users of {log}; intervals: 95 % of {found.draws} draws of users")
    say(found.verdict)
    if out is not None:
        say(f"comparison in {out}")


def _table(found: "Comparison") -> "Table":
    from rich.table import Table

    from resus.evaluation.metrics import METRICS

    table = Table("stage", "metric", found.old, found.new, "difference", "95 % interval", box=None)
    for stage, gains in found.gains.items():
        for name, gain in gains.metrics.items():
            metric = METRICS[name]
            values = [metric.show(found.models[model][stage].metrics[name]) for model in (found.old, found.new)]
            between = "too few users" if gain.low is None else f"{gain.low:+.4f} … {gain.high:+.4f}"
            difference = "" if gain.difference is None else f"{gain.difference:+.4f}"
            arrow = "↑" if metric.higher_is_better else "↓"
            table.add_row(stage, f"{metric.title} {arrow}", *values, difference, between)
    return table
