"""`resus predict`."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    support: Annotated[Path, typer.Option(help="CSV, TSV or Parquet: what the users did, with the label.")],
    query: Annotated[Path, typer.Option(help="CSV, TSV or Parquet: the rows to score.")],
    out: Annotated[
        Path | None, typer.Option(help="File for the scores (.csv or .parquet). [default: shown here]")
    ] = None,
) -> None:
    """Click probabilities of new users: σ(basis + residual), with Ψ's basis logit and what the user's events add.

    The query's columns come back with probability, basis, residual and support, the number of events behind the answer;
    a user without any gets Ψ's answer.
    """
    from resus.cli.console import err, say
    from resus.data.tables import check_ending, read_plain, write_plain
    from resus.estimator import Resus

    if out is not None:
        check_ending(out)
    model = Resus.load(run)
    events, asked = read_plain(support, model.schema), read_plain(query, model.schema)
    answer = model.predict(events, asked)
    unknown = model.unknown_values(asked)
    if unknown:
        counts = ", ".join(f"{name} in {count:,}" for name, count in unknown.items())
        err.print(f"values never seen in training, of {asked.height:,} query rows: {counts}", highlight=False)
    scored = asked.with_columns(answer.select("probability", "basis", "residual", "support"))
    if out is None:
        say(scored.write_csv(float_precision=6).rstrip("\n"))
        return
    write_plain(scored, out)
    say(f"{scored.height:,} scores in {out}")
