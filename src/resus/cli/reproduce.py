"""`resus reproduce`."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    question: Annotated[
        str,
        typer.Argument(
            help="rq1 (table 3), rq2 (4, 5), rq3 (boosting), rq4 (figure 4), rq5 (times), all, or beyond (RESUS+)."
        ),
    ],
    dataset: Annotated[
        list[str] | None,
        typer.Option(
            help="ml-1m, frappe, taobao or a prepared log. Repeat it for more. [default: all that are prepared]"
        ),
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="Number of seeds: 1 to N. The paper uses 10.")] = 3,
    methods: Annotated[
        str | None,
        typer.Option(help="Run only these methods, separated by commas, such as melu,resus-rr. [default: all]"),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Use a small artificial data set, one seed and short training. Takes about a minute."
        ),
    ] = False,
    jobs: Annotated[
        int, typer.Option(min=1, help="Number of cells to run at the same time. Timed cells of rq5 always run alone.")
    ] = 1,
    out: Annotated[Path | None, typer.Option(help="Folder for cells and report. [default: runs/reproduction]")] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Any setting that `resus train --learner ridge --settings` lists, for all methods.",
        ),
    ] = None,
    replicates: Annotated[
        int, typer.Option(min=0, help="Number of bootstrap draws over users. 0 skips the bootstrap.")
    ] = 200,
    report_only: Annotated[bool, typer.Option("--report-only", help="Run nothing. Report the finished cells.")] = False,
) -> None:
    """Run the experiments of the paper: all methods, tables and figures, next to the paper's numbers.

    Each finished cell (data set, method, seed) is one line of cells.jsonl. The same command runs only missing cells.
    """
    from resus.config.resolve import PLAIN, parse_assignments, resolve
    from resus.extras import need
    from resus.paper.questions import chosen_questions

    need("paper", "resus reproduce")
    questions = chosen_questions(question)
    settings = parse_assignments(assignments or [])
    resolve(PLAIN | settings)

    from resus.cli.reproducing import reproduce  # torch takes seconds to import; the checks above do not need it

    reproduce(
        questions,
        data_sets=dataset,
        runs=runs,
        methods=[name.strip() for name in methods.split(",")] if methods else None,
        quick=quick,
        jobs=jobs,
        folder=out or Path("runs") / ("reproduction-quick" if quick else "reproduction"),
        settings=settings,
        replicates=replicates,
        report_only=report_only,
    )
