"""`resus predict`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from resus.cli.side_tables import ItemsTable, UsersTable

if TYPE_CHECKING:
    from resus.scoring.scorer import Scorer
    from resus.scoring.stream import Scored


def command(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    support: Annotated[
        Path,
        typer.Option(help="The users' events so far, with labels: CSV, TSV or Parquet; also a folder of parts."),
    ],
    query: Annotated[Path, typer.Option(help="The candidates to score: CSV, TSV or Parquet; also a folder of parts.")],
    out: Annotated[
        Path | None,
        typer.Option(help="File for the scores: .csv, .tsv or .parquet. [default: print them as CSV]"),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume a stopped prediction. Needs a Parquet --query and --out.")
    ] = False,
    block_rows: Annotated[
        int | None,
        typer.Option(min=1, help="Rows in memory at a time. Needs a Parquet --query and --out. [default: 131072]"),
    ] = None,
    device: Annotated[
        str, typer.Option(help="Where networks run: cpu, cuda, mps, or auto for the first that is there.")
    ] = "cpu",
    engine: Annotated[
        str,
        typer.Option(help="local, or ray: score Parquet files on the cluster in RAY_ADDRESS, or on this machine."),
    ] = "local",
    workers: Annotated[int | None, typer.Option(min=1, help="Number of workers of --engine ray. [default: 2]")] = None,
    score_with: Annotated[
        Path | None,
        typer.Option(help="Your model file, if the log was prepared with one: scores tables that lack its column."),
    ] = None,
    users: UsersTable = None,
    items: ItemsTable = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Add the columns causes and because, which say why. Reads whole tables.")
    ] = False,
) -> None:
    """Predict click probabilities for candidates of new users, from the users' events so far.

    Adds four columns to the query, replacing columns of the same names: probability = σ(basis + residual), basis (the
    logit of the shared model), residual (what the user's own events add) and support (the number of these events). A
    user without events gets the answer of the shared model.

    Fields of users and items that --support or --query leave out come from the side tables of the schema, as in
    resus prepare. A column of --support or --query itself wins.

    --explain adds two columns of JSON. causes holds what each cause adds to the residual; only RESUS+ knows causes.
    because holds the five events that moved the residual most, and first of all events of the same item.

    From Parquet to Parquet, tables of any size are scored block by block, and --resume continues after a stop. CSV and
    TSV tables are read into memory.
    """
    from resus.cli.arguments import check_device, check_engine
    from resus.cli.console import interruptible, progress_bars, say
    from resus.data.readers.files import is_one_parquet
    from resus.data.readers.tables import check_ending, check_out
    from resus.errors import ConfigError

    check_engine(engine, workers)
    place = check_device(device, engine)
    if out is not None:
        check_ending(out)
        check_out(out, support, query, users, items)
    if explain and (resume or block_rows or engine == "ray"):
        raise ConfigError("--explain reads whole tables: leave out --resume, --block-rows and --engine ray")
    parquet = out is not None and is_one_parquet(out) and is_one_parquet(query)
    in_blocks = parquet and not explain
    if (resume or block_rows) and not in_blocks:
        option = "--resume" if resume else "--block-rows"
        raise ConfigError(f"{option} needs a Parquet --query and a Parquet --out: name such files, or leave it out")
    if engine == "ray" and (resume or not in_blocks or not is_one_parquet(support)):
        raise ConfigError(
            "--engine ray needs a Parquet --query, --support and --out, and cannot resume: "
            "name such files, and leave out --resume"
        )
    from resus.artifact import FACTS
    from resus.estimator import Resus
    from resus.files import sha256_of
    from resus.scoring.stream import BLOCK_ROWS, predict_file

    if out is None or not in_blocks:
        scorer = Resus.load(run, predictor=score_with, device=place).scorer.with_sides(users=users, items=items)
        scored = _whole(scorer, support, query, out, explain=explain)
    elif engine == "ray":
        from resus.cluster.prediction import predict_on_ray

        with progress_bars() as progress:
            scored = predict_on_ray(
                run,
                support,
                query,
                out,
                workers=workers or 2,
                block_rows=block_rows or BLOCK_ROWS,
                score_with=score_with,
                users=users,
                items=items,
                progress=progress,
            )
    else:
        scorer = Resus.load(run, predictor=score_with, device=place).scorer.with_sides(users=users, items=items)
        with interruptible("the same command with --resume continues"), progress_bars() as progress:
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
    _warn(scored)
    if out is not None:
        say(f"{scored.rows:,} scores in {out}")


def _whole(scorer: "Scorer", support: Path, query: Path, out: Path | None, *, explain: bool) -> "Scored":
    """Score tables in memory, and write or print them."""
    import polars as pl

    from resus.cli.console import say
    from resus.data.fields.unknown import never_seen
    from resus.data.readers.tables import check_out, read_plain, refuse_lists, write_plain
    from resus.scoring.blocks import FrameBlocks
    from resus.scoring.explanations import explained
    from resus.scoring.scorer import QUERY, SUPPORT
    from resus.scoring.stream import Scored

    if out is not None:
        check_out(out, *scorer.sides.files())
    events, asked = read_plain(support, scorer.schema), read_plain(query, scorer.schema)
    refuse_lists(asked.schema, out)
    of_sides = tuple(scorer.notices({SUPPORT: FrameBlocks(events), QUERY: FrameBlocks(asked)}))
    answer, unknown = scorer.predict(events, asked)
    reasons = explained(scorer, events, asked) if explain else {}
    scored = asked.with_columns(pl.DataFrame({**answer.columns, **reasons}))
    if out is None:
        say(scored.write_csv(float_precision=6).rstrip("\n"))
    else:
        write_plain(scored, out)
    of_support = never_seen(scorer.unknown_in(events), events.height, SUPPORT)
    return Scored(asked.height, events.height, unknown, tuple(of_support), of_sides)


def _warn(scored: "Scored") -> None:
    """Say why scores may be less personal than expected."""
    from resus.cli.console import warn
    from resus.data.fields.unknown import never_seen
    from resus.scoring.scorer import QUERY

    if not scored.events:
        warn("the support has no rows: every score is that of the shared model")
    for sentence in (*scored.of_sides, *scored.of_support, *never_seen(scored.unknown, scored.rows, QUERY)):
        warn(sentence)
