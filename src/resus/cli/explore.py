"""`resus explore`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from resus.exploration.outcome import ReplayedLog, Simulated, Value


def command(
    data: Annotated[
        str,
        typer.Argument(help="planted, or the log of a planted world; with --propensity a table of logged choices."),
    ],
    run: Annotated[
        Path | None,
        typer.Option(help="Run folder of a RESUS+ model. [default: train one, and keep it in the --out folder]"),
    ] = None,
    propensity: Annotated[
        str | None, typer.Option(help="Column with the probability with which each item of the table was chosen.")
    ] = None,
    candidates: Annotated[
        str | None,
        typer.Option(help="Column with the candidates of each choice, separated by |. [default: all items]"),
    ] = None,
    users: Annotated[int, typer.Option(min=10, max=100_000, help="Number of simulated users.")] = 300,
    events: Annotated[int, typer.Option(min=1, max=300, help="Number of events of each user.")] = 30,
    width: Annotated[
        float, typer.Option(min=0, max=100, help="How far thompson and ucb go from the mean; 0 is greedy.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(min=0, max=1_000_000, help="Seed of users and draws.")] = 1,
    draws: Annotated[int, typer.Option(help="Number of draws of users for the 95 % intervals.")] = 200,
    log: Annotated[
        str | None, typer.Option(help="With --propensity: the log of the run, if it moved since training.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for results.json and explore.png. [default: runs/explore-DATA]")
    ] = None,
) -> None:
    """Show what exploring buys, and what it costs.

    In a planted world, four rules show items to the same new users, one at a time, and learn from each answer: the
    shared model alone, greedy (the best guess), thompson and ucb. The table counts the liked items that each rule
    finds, and what it misses against an oracle.

    With --propensity, the table holds real choices, the probability of each, and what came of it. The command then
    estimates what each rule would have earned there, without showing anything to anybody.
    """
    from resus.cli.arguments import find_log, log_of_run
    from resus.cli.console import console, interruptible, progress_bars, say, warn
    from resus.errors import ConfigError
    from resus.exploration.outcome import Simulated, too_small, verdicts, write
    from resus.extras import need

    need("report", "resus explore")
    if propensity is None and (candidates or log):
        raise ConfigError("--candidates and --log are about a table of choices: name the column of its --propensity")
    if propensity is not None and run is None:
        raise ConfigError("--propensity needs a trained model: name its run folder with --run")
    folder = out or Path("runs") / f"explore-{Path(data).stem}"
    from resus.estimator import Resus
    from resus.exploration.pictures import picture_of
    from resus.exploration.run import checked_world, explore_world, replay_table

    found: Simulated | ReplayedLog
    with interruptible("the same command goes on with the trained model"), progress_bars() as progress:
        if propensity is not None and run is not None:
            model = Resus.load(run)
            found = replay_table(
                Path(data),
                model,
                log_of_run(run, model, log),
                propensity=propensity,
                candidates=candidates,
                events=events,
                width=width,
                seed=seed,
                draws=draws,
                progress=progress,
            )
        else:
            place = find_log(data)
            checked_world(place, events=events, draws=draws)  # before a model is trained
            model = (
                Resus.load(run) if run else Resus().fit(place, folder=folder / "run", resume=True, progress=progress)
            )
            found = explore_world(
                place, model, users=users, events=events, width=width, seed=seed, draws=draws, progress=progress
            )
    numbers, picture = write(found, folder), picture_of(found, folder)
    if isinstance(found, Simulated):
        console.print(_courses(found))
        say(f"means over {found.users:,} new users; intervals: 95 % of {found.draws} draws of users; width {width:g}")
        for sentence in verdicts(found):
            say(sentence)
    else:
        console.print(_estimates(found))
        say(
            f"mean reward; {found.decisions:,} choices of {found.users:,} users earned "
            f"{_between(found.logged, 4)}; intervals: 95 % of {found.draws} draws of users"
        )
        for sentence in too_small(found):
            warn(f"resus: {sentence}")
    say(f"picture: {picture}; the numbers: {numbers}")


def _courses(found: "Simulated") -> "Table":
    from rich.table import Table

    marks = sorted({max(1, found.events // 3), max(1, 2 * found.events // 3), found.events})
    table = Table(title="liked items found, by number of events", title_justify="left", box=None)
    for head in ("rule", *map(str, marks), "of all", "regret", "times greedy"):
        table.add_column(head, no_wrap=True, justify="left" if head == "rule" else "right")
    for rule, course in found.rules.items():
        liked = [f"{course.liked[mark - 1].value:.2f}" for mark in marks]
        pace = _between(found.pace[rule], 2) if rule in found.pace else ""
        table.add_row(rule, *liked, f"{course.share[-1].value:.1%}", f"{course.regret[-1].value:.2f}", pace)
    return table


def _estimates(found: "ReplayedLog") -> "Table":
    from rich.table import Table

    table = Table("rule", "IPS", "self-normalised IPS", "doubly robust", "effective choices", box=None)
    for rule, one in found.rules.items():
        values = (one.ips, one.self_normalised, one.doubly_robust)
        told = [_between(value, 4) if one.enough else "too few" for value in values]
        table.add_row(rule, *told, f"{one.effective:,.0f}")
    return table


def _between(value: "Value", digits: int) -> str:
    return f"{value.value:.{digits}f} ({value.low:.{digits}f} … {value.high:.{digits}f})"
