"""`resus reproduce`."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    question: Annotated[
        str,
        typer.Argument(
            help="rq1 (table 3), rq2 (4, 5), rq3 (boosting), rq4 (figure 4), rq5 (times), all five, or beyond (RESUS+)."
        ),
    ],
    dataset: Annotated[
        list[str] | None,
        typer.Option(help="ml-1m, frappe, taobao or a prepared log; again for more. [default: those prepared]"),
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="Seeds 1..N; the paper has 10.")] = 3,
    methods: Annotated[
        str | None, typer.Option(help="Only these, separated by commas, such as melu,resus-rr. [default: all]")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small planted world, one run, short training: about a minute.")
    ] = False,
    jobs: Annotated[
        int, typer.Option(min=1, help="Cells at once. Times count only with 1, so rq5 runs its cells alone anyway.")
    ] = 1,
    out: Annotated[Path | None, typer.Option(help="Folder of cells and report. [default: runs/reproduction]")] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any setting of `resus train --settings`, for all methods."),
    ] = None,
    replicates: Annotated[int, typer.Option(min=0, help="Of the bootstrap over users; 0 leaves it out.")] = 200,
    report_only: Annotated[bool, typer.Option("--report-only", help="Run nothing; report what is finished.")] = False,
) -> None:
    """The paper's section 5: every method, table and figure, beside the paper's numbers, with a verdict on each claim.

    A finished cell (data set, method, seed) is one line of cells.jsonl: asked again, only missing cells run.
    """
    from resus.config.resolve import parse_assignments, resolve
    from resus.paper.questions import chosen_questions

    questions = chosen_questions(question)
    settings = parse_assignments(assignments or [])
    resolve(settings)

    from resus.cli.reproducing import reproduce  # torch takes seconds: mistakes above are answered without it

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
