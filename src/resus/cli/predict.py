"""`resus predict`."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    support: Annotated[Path, typer.Option(help="CSV, TSV or Parquet: what the users did, with the label.")],
    query: Annotated[Path, typer.Option(help="CSV, TSV or Parquet: the rows to score.")],
    out: Annotated[
        Path | None, typer.Option(help="File for the scores (.csv, .tsv or .parquet). [default: shown here]")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Parquet to Parquet: go on with scores that were stopped or killed.")
    ] = False,
    block_rows: Annotated[
        int | None,
        typer.Option(min=1, help="Parquet to Parquet: rows in memory at once; fewer take more time. [default: 131072]"),
    ] = None,
    engine: Annotated[
        str, typer.Option(help="local, or ray: Parquet to Parquet on a Ray cluster (RAY_ADDRESS, or this machine).")
    ] = "local",
    workers: Annotated[int | None, typer.Option(min=1, help="With --engine ray: how many. [default: 2]")] = None,
    score_with: Annotated[
        Path | None,
        typer.Option(help="The model file that the log was scored with: writes its column where a table lacks it."),
    ] = None,
) -> None:
    """Click probabilities of new users: σ(basis + residual), with Ψ's basis logit and what the user's events add.

    The query's columns come back with probability, basis, residual and support, the number of events behind the answer;
    a user without any gets Ψ's answer. Columns of these names are replaced.

    From a Parquet query to a Parquet file, tables of any size are scored block by block; what is done is kept in a
    folder beside the file until all is, and --resume goes on there. A CSV or TSV table is read whole.
    """
    from resus.cli.engines import check_engine
    from resus.data.readers.tables import PARQUET_SUFFIXES, check_ending, check_out
    from resus.errors import ConfigError

    check_engine(engine, workers)
    if out is not None:
        check_ending(out)
        check_out(out, support, query)
    in_blocks = out is not None and {out.suffix.lower(), query.suffix.lower()} <= set(PARQUET_SUFFIXES)
    if (resume or block_rows) and not in_blocks:
        raise ConfigError(
            f"--{'resume' if resume else 'block-rows'} is for a Parquet --query with a Parquet --out: "
            "name such files, or leave it out"
        )
    if engine == "ray":
        if not in_blocks or support.suffix.lower() not in PARQUET_SUFFIXES or resume:
            raise ConfigError(
                "--engine ray scores a Parquet --query with a Parquet --support into a Parquet --out, in one go: "
                "name such files, and leave out --resume"
            )
        assert out is not None
        _on_ray(run, support, query, out, workers or 2, block_rows, score_with)
    elif in_blocks:
        assert out is not None
        _in_blocks(run, support, query, out, resume, block_rows, score_with)
    else:
        _whole(run, support, query, out, score_with)


def _in_blocks(
    run: Path,
    support: Path,
    query: Path,
    out: Path,
    resume: bool,
    block_rows: int | None,
    score_with: Path | None,
) -> None:
    from resus.artifact import FACTS
    from resus.cli.console import err, progress_bars, say
    from resus.estimator import Resus
    from resus.files import sha256_of
    from resus.scoring.stream import BLOCK_ROWS, predict_file

    scorer = Resus.load(run, predictor=score_with).scorer
    try:
        with progress_bars() as progress:
            scored = predict_file(
                scorer,
                support,
                query,
                out,
                model=" with ".join(sha256_of(file) for file in (run / FACTS, score_with) if file),
                resume=resume,
                block_rows=block_rows or BLOCK_ROWS,
                progress=progress,
            )
    except KeyboardInterrupt:
        err.print("stopped; the same command with --resume goes on", highlight=False, soft_wrap=True)
        raise typer.Exit(130) from None
    _warn(scored.events, scored.rows, scored.unknown)
    say(f"{scored.rows:,} scores in {out}")


def _on_ray(
    run: Path,
    support: Path,
    query: Path,
    out: Path,
    workers: int,
    block_rows: int | None,
    score_with: Path | None,
) -> None:
    from resus.cli.console import progress_bars, say
    from resus.cluster.prediction import predict_on_ray
    from resus.scoring.stream import BLOCK_ROWS

    with progress_bars() as progress:
        scored = predict_on_ray(
            run,
            support,
            query,
            out,
            workers=workers,
            block_rows=block_rows or BLOCK_ROWS,
            score_with=score_with,
            progress=progress,
        )
    _warn(scored.events, scored.rows, scored.unknown)
    say(f"{scored.rows:,} scores in {out}")


def _whole(run: Path, support: Path, query: Path, out: Path | None, score_with: Path | None) -> None:
    import polars as pl

    from resus.cli.console import say
    from resus.data.readers.tables import read_plain, write_plain
    from resus.estimator import Resus

    scorer = Resus.load(run, predictor=score_with).scorer
    events, asked = read_plain(support, scorer.schema), read_plain(query, scorer.schema)
    answer, unknown = scorer.predict(events, asked)
    scored = asked.with_columns(pl.DataFrame(answer.columns))
    _warn(events.height, asked.height, unknown)
    if out is None:
        say(scored.write_csv(float_precision=6).rstrip("\n"))
        return
    write_plain(scored, out)
    say(f"{scored.height:,} scores in {out}")


def _warn(events: int, rows: int, unknown: dict[str, int]) -> None:
    """Say what makes answers poorer than they look."""
    from resus.cli.console import err

    if not events:
        err.print("the support has no rows: every answer is Ψ's", highlight=False)
    if unknown:
        counts = ", ".join(f"{name} in {count:,}" for name, count in unknown.items())
        err.print(f"values never seen in training, of {rows:,} query rows: {counts}", highlight=False)
