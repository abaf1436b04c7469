"""`resus prepare`."""

from pathlib import Path
from typing import Annotated, Any

import typer


def command(
    source: Annotated[
        str, typer.Argument(help="ml-1m, frappe, taobao, planted; or a .csv, .tsv, .parquet or RecBole .inter file")
    ],
    path: Annotated[
        Path | None, typer.Option(help="Where a published data set already lies; without it, it is downloaded.")
    ] = None,
    schema: Annotated[
        Path | None, typer.Option(help="For a table of your own: YAML that says what its columns mean.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the prepared log. [default: data/NAME]")] = None,
    like: Annotated[
        str | None,
        typer.Option(help="For planted: write files in a published layout instead of a log; known is taobao."),
    ] = None,
    rows: Annotated[int | None, typer.Option(help="With --like: how many impressions. [default: 26557961]")] = None,
    score_with: Annotated[
        Path | None,
        typer.Option(
            help="A model file of your own (LightGBM .txt, XGBoost .json or .ubj, CatBoost .cbm, .onnx): what it says "
            "of each row, as a logit, is a numeric field of the log, to be Ψ with train --predictor "
            "logits:model_score. Fit it on other users or on earlier data than this table, otherwise it knows the test "
            "users' labels and the gains mean nothing. RESUS+ cannot cross-fit a model that is not its own."
        ),
    ] = None,
    score_column: Annotated[
        str | None, typer.Option(help="With --score-with: the name of that field. [default: model_score]")
    ] = None,
    protocol: Annotated[str, typer.Option(help="paper, or authors-release (MovieLens).")] = "paper",
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="label_threshold, min_item_count, min_count, negatives, seed, duplicates (error, keep, first, last), "
            "single_events (error, keep, drop), user_field (Taobao: the user's id as a 16th field, which says nothing "
            "of a stranger); for planted: users, items, events_per_user, seed, …; with --like: seed, click_rate, …",
        ),
    ] = None,
) -> None:
    """Turn a data set or a table of your own into a memory-mapped log. Asking for the same again is instant.

    Taobao is streamed: memory is for its users and ads, not for its rows; only a file with something wrong or odd in
    it is read again as a whole, to say where. Killed, it leaves no half log behind and begins anew, which takes about a
    minute. Without its files: resus prepare planted --like taobao --rows 1000000.
    """
    from resus.checking import checked
    from resus.cli.console import progress_bars, say
    from resus.cli.locations import default_log_folder, planted_at
    from resus.config.settings import parse_assignments
    from resus.data.datasets.planted import PlantedWorld
    from resus.data.log.log import fact_of_log
    from resus.data.options import PrepareOptions
    from resus.errors import ConfigError
    from resus.external.prepare import prepare
    from resus.external.score_column import SCORE

    if source == "planted" and (path or schema or score_with or protocol != "paper"):
        raise ConfigError(
            "the planted world is drawn, not read: leave out --path, --schema, --score-with and --protocol"
        )
    if score_column is not None and score_with is None:
        raise ConfigError("--score-column names what a model writes: say which model with --score-with")
    score_column = SCORE if score_column is None else score_column
    chosen = parse_assignments(assignments or [])
    if like is not None or rows is not None:
        _draw_files(source, like, rows, out, chosen)
        return
    folder = out or default_log_folder(source, protocol)
    before = fact_of_log(folder, "hash")
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
    counts = log.manifest["counts"]
    say(
        f"{log.name}: {counts['rows']:,} events of {counts['users']:,} users "
        f"on {counts['items']:,} items, {counts['positives'] / counts['rows']:.1%} clicked, "
        f"{counts['ids']:,} feature ids"
    )
    floor = log.manifest["options"].get("min_item_count") or 1
    if floor > 1:
        say(f"items with fewer than {floor} events are left out; --set min_item_count=1 keeps them")
    if before not in (None, log.content_hash):
        say(f"{folder} held another log until now: what was trained on that one cannot be evaluated on this one")
    say(f"log in {folder}; next: resus train {folder}" + (f" --predictor logits:{score_column}" if score_with else ""))


def _draw_files(source: str, like: str | None, rows: int | None, out: Path | None, chosen: dict[str, Any]) -> None:
    """Files of a planted world in a published layout, the stand-in where the published ones are absent."""
    from resus.checking import checked
    from resus.cli.console import progress_bars, say
    from resus.cli.locations import LOGS
    from resus.data.datasets.taobao.planted import PlantedTaobao, write_planted_taobao
    from resus.errors import ConfigError

    if source != "planted":
        raise ConfigError(f"--like and --rows draw a planted world: write 'resus prepare planted', not '{source}'")
    if like is None:
        raise ConfigError("--rows is for files in a published layout: add --like taobao, or use --set users=…")
    if like != "taobao":
        raise ConfigError(f"there is no planted world like '{like}': write --like taobao")
    if rows is not None and "rows" in chosen:
        raise ConfigError("the rows are given twice: leave out --rows or --set rows")
    settings = checked(PlantedTaobao, chosen | ({} if rows is None else {"rows": rows}))
    folder = out or LOGS / "planted-taobao-files"
    with progress_bars() as progress:
        counts = write_planted_taobao(folder, settings, progress)["counts"]
    say(
        f"planted-taobao: {settings.rows:,} impressions for {counts['users']:,} users "
        f"of {counts['ads']:,} ads, {counts['clicks'] / settings.rows:.1%} clicked"
    )
    say(f"files in {folder}; next: resus prepare taobao --path {folder} --out {LOGS / 'planted-taobao'}")
