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
    """Click probabilities of new users: σ(basis + residual), with Ψ's basis logit and what the user's events add."""
    from resus.cli.console import say
    from resus.data.tables import read_plain, write_plain
    from resus.estimator import Resus

    model = Resus.load(run)
    events, asked = read_plain(support, model.schema), read_plain(query, model.schema)
    answer = model.predict(events, asked)
    scored = asked.with_columns(answer.select("probability", "basis", "residual", "support"))
    if out is None:
        say(scored.write_csv(float_precision=6).rstrip("\n"))
        return
    write_plain(scored, out)
    say(f"{scored.height:,} scores in {out}")
