"""`resus prepare`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from resus.data.log.log import InteractionLog


def command(
    source: Annotated[
        str,
        typer.Argument(
            help="ml-1m, frappe, taobao or planted; or a .csv, .tsv (also .gz or .zst), .parquet or RecBole .inter "
            "file, a folder of parts, or a pattern in quotes like 'part-*.csv'."
        ),
    ],
    path: Annotated[Path | None, typer.Option(help="Folder of a published data set. [default: download it]")] = None,
    schema: Annotated[
        Path | None, typer.Option(help="Schema of your own table: a YAML file that says what the columns mean.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the log. [default: data/NAME]")] = None,
    like: Annotated[
        str | None,
        typer.Option(help="With planted: write files in the layout of taobao instead of a log."),
    ] = None,
    rows: Annotated[int | None, typer.Option(help="With --like: number of impressions. [default: 26557961]")] = None,
    score_with: Annotated[
        Path | None,
        typer.Option(
            help="Your own model file (LightGBM .txt, XGBoost .json or .ubj, CatBoost .cbm, .onnx). Its logit for each "
            "row becomes the numeric field model_score; train on it with --predictor logits:model_score. Fit the "
            "model on other users or on earlier data than this table, otherwise it knows the test users' labels and "
            "the gains mean nothing. RESUS+ cannot cross-fit your model."
        ),
    ] = None,
    score_column: Annotated[
        str | None, typer.Option(help="With --score-with: name of that field. [default: model_score]")
    ] = None,
    protocol: Annotated[str, typer.Option(help="paper, or authors-release (MovieLens only).")] = "paper",
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of drawn negatives, or of planted. [default: 0]")
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change an option: label_threshold, min_item_count, min_count, negatives, seed, duplicates (error, "
            "keep, first, last), single_events (error, keep, drop), user_field (Taobao: the user id as a 16th field). "
            "For planted: users, items, events_per_user, seed, and others. With --like: seed, click_rate, and others.",
        ),
    ] = None,
) -> None:
    """Turn a data set or your own table into a memory-mapped log.

    The same log in the folder is kept. Other options or changed files replace it; a log of another name stays.

    Taobao is streamed: memory depends on its users and ads, not on its rows. Files with errors are read again as a
    whole to find the row. If you do not have its files, draw similar ones:
    resus prepare planted --like taobao --rows 1000000.
    """
    from resus.checking import checked
    from resus.cli.arguments import default_log_folder, planted_at
    from resus.cli.console import progress_bars, say
    from resus.config.resolve import parse_assignments
    from resus.data.datasets.planted import PlantedWorld
    from resus.data.log.manifest import Manifest
    from resus.data.options import PrepareOptions
    from resus.errors import ConfigError
    from resus.external.prepare import prepare
    from resus.external.score_column import SCORE

    if source == "planted" and (path or schema or score_with or protocol != "paper"):
        raise ConfigError(
            "planted is drawn, not read from files: leave out --path, --schema, --score-with and --protocol"
        )
    if score_column is not None and score_with is None:
        raise ConfigError("--score-column needs --score-with: name a model, or leave it out")
    score_column = SCORE if score_column is None else score_column
    chosen = parse_assignments(assignments or [])
    if seed is not None and chosen.setdefault("seed", seed) != seed:
        raise ConfigError("the seed is set twice: leave out --seed or --set seed")
    if like is not None or rows is not None:
        _draw_files(source, like, rows, out, chosen)
        return
    folder = out or default_log_folder(source, protocol)
    before = Manifest.found(folder)
    with progress_bars() as progress:
        if source == "planted":
            log = planted_at(folder, checked(PlantedWorld, chosen))
        else:
            options = checked(PrepareOptions, {"protocol": protocol, **chosen})
            log = prepare(
                source,
                folder,
                path=path,
                schema=schema,
                options=options,
                progress=progress,
                score_with=score_with,
                score_column=score_column,
            )
    _tell(log)
    if before is not None and before.hash != log.content_hash:
        say(f"{folder} held another log before: runs trained on that log read this one as a newer log")
    say(f"log in {folder}; next: resus train {folder}" + (f" --predictor logits:{score_column}" if score_with else ""))


def _tell(log: "InteractionLog") -> None:
    """Say what a log holds, and what was left out of it or added to it."""
    from resus.cli.console import say

    counts, used = log.manifest.counts, log.manifest.options
    assert counts is not None
    say(
        f"{log.name}: {counts.rows:,} events of {counts.users:,} users on {counts.items:,} items, "
        f"{counts.positives / counts.rows:.1%} clicked, {counts.ids:,} feature ids"
    )
    for role, side in log.manifest.sides.items():
        if said := side.sentence(role[:-1]):
            say(said)
    floor = (used and used.min_item_count) or 1
    if floor > 1:
        say(f"items with fewer than {floor} events were dropped; --set min_item_count=1 keeps them")
    if log.manifest.negatives is not None:
        say(log.manifest.negatives.sentence)


def _draw_files(source: str, like: str | None, rows: int | None, out: Path | None, chosen: dict[str, Any]) -> None:
    """Write files of a planted world in the layout of Taobao."""
    from resus.checking import checked
    from resus.cli.arguments import LOGS
    from resus.cli.console import progress_bars, say
    from resus.data.datasets.taobao.planted import PlantedTaobao, write_planted_taobao
    from resus.errors import ConfigError

    if source != "planted":
        raise ConfigError(f"--like and --rows need 'resus prepare planted', not '{source}'")
    if like is None:
        raise ConfigError("--rows needs --like taobao: add it, or use --set users=N")
    if like != "taobao":
        raise ConfigError(f"--like is '{like}': write --like taobao")
    if rows is not None and "rows" in chosen:
        raise ConfigError("rows is set twice: leave out --rows or --set rows")
    settings = checked(PlantedTaobao, chosen | ({} if rows is None else {"rows": rows}))
    folder = out or LOGS / "planted-taobao-files"
    with progress_bars() as progress:
        counts = write_planted_taobao(folder, settings, progress).counts
    say(
        f"planted-taobao: {settings.rows:,} impressions of {counts.ads:,} ads to {counts.users:,} users, "
        f"{counts.clicks / settings.rows:.1%} clicked"
    )
    say(f"files in {folder}; next: resus prepare taobao --path {folder} --out {LOGS / 'planted-taobao'}")
