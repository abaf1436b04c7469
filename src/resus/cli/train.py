"""`resus train`."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from resus.config.settings import Config
    from resus.tracking.watching import Watch


def command(
    data: Annotated[str, typer.Argument(help="A prepared log: its folder, or its name under data/.")] = "planted",
    out: Annotated[
        Path | None, typer.Option(help="Run folder. [default: runs/, named after data, model and settings]")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="YAML file with settings.")] = None,
    learner: Annotated[
        str | None,
        typer.Option(
            help="plus (RESUS+); ridge (RESUS-RR) or nearest (RESUS-NN) for the paper's methods. "
            "[default: plus; ridge with --protocol authors-release]"
        ),
    ] = None,
    predictor: Annotated[
        str | None,
        typer.Option(
            help="Shared model: lr, fm, wide-deep, deepfm, xdeepfm or lightgbm; logits:COLUMN or probabilities:COLUMN "
            "for a column with the scores of your own model; none for no shared model (with --learner nearest, the "
            "paper's MUS). [default: deepfm]"
        ),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="Network that turns an event into a vector, for ridge and nearest: lr, fm, wide-deep, deepfm or "
            "xdeepfm. plus has its own. [default: deepfm]"
        ),
    ] = None,
    protocol: Annotated[str | None, typer.Option(help="paper or authors-release. [default: paper]")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the user split, the episodes and the weights. [default: 1]")
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Change a setting, such as training.epochs=5. --settings lists them all."
        ),
    ] = None,
    predictor_from: Annotated[
        Path | None, typer.Option(help="Take the shared model and its settings from this run; do not train it again.")
    ] = None,
    warm_start: Annotated[
        Path | None,
        typer.Option(help="Start from the weights, settings and vocabularies of this run, which new values extend."),
    ] = None,
    settings_wanted: Annotated[
        bool, typer.Option("--settings", help="List every setting with its value and meaning, and exit.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an unfinished run.")] = False,
    device: Annotated[
        str, typer.Option(help="Where networks run: cpu, cuda, mps, or auto for the first that is there.")
    ] = "cpu",
    engine: Annotated[
        str, typer.Option(help="local, or ray: train on the cluster in RAY_ADDRESS, or on this machine.")
    ] = "local",
    workers: Annotated[int | None, typer.Option(min=1, help="Number of workers of --engine ray. [default: 2]")] = None,
    track: Annotated[
        str | None, typer.Option(help="Also tell mlflow or tensorboard about settings, epochs and final results.")
    ] = None,
    track_dir: Annotated[
        Path | None, typer.Option(help="Folder for --track. [default: runs/mlflow or runs/tensorboard]")
    ] = None,
) -> None:
    """Train a shared model on all users, then train how to adapt it to each user.

    The run folder holds everything that is needed to repeat the run. A stopped or killed run continues with --resume.
    """
    from resus.artifact import FACTS, config_of
    from resus.checked_folder import CheckedFolder
    from resus.cli.arguments import check_device, check_engine, find_log
    from resus.cli.console import interruptible, progress_bars, say
    from resus.config.resolve import parse_assignments, resolve
    from resus.config.settings import flatten
    from resus.data.log.log import InteractionLog
    from resus.errors import ConfigError
    from resus.tracking.watching import check_tracker

    check_engine(engine, workers)
    named = {
        "learner.kind": learner,
        "predictor.kind": predictor,
        "encoder.kind": encoder,
        "protocol": protocol,
        "seed": seed,
    }
    chosen = parse_assignments(assignments or [])
    overrides = {key: value for key, value in named.items() if value is not None} | chosen
    if predictor_from and warm_start:
        raise ConfigError("--predictor-from and --warm-start both bring a shared model: choose one")
    check_tracker(track, track_dir)
    inherited = flatten(config_of(CheckedFolder.open(warm_start)).model_dump()) if warm_start else None
    settings = resolve(overrides, file=config, inherited=inherited)
    if settings_wanted:
        _list_settings(settings)
        return
    place = check_device(device, engine)
    folder_of_log = find_log(data, settings.protocol)
    log = InteractionLog.open(folder_of_log)

    from resus.estimator import Resus  # torch takes seconds to load: report mistakes first
    from resus.history import best_epoch

    source, start = (Resus.load(run) if run else None for run in (predictor_from, warm_start))
    inherited = source.config.settings_of_predictor() if source else inherited
    settings = resolve(overrides, file=config, data_set=log.data_set, inherited=inherited)
    mark = settings.fingerprint(log.content_hash)[:6]
    if start is not None:
        say(f"{folder_of_log}, seen from {warm_start}: {start.news(log).sentence()}")
    del log  # `fit` opens it again: do not hold its vocabularies twice
    folder = out or Path("runs") / f"{folder_of_log.resolve().name}-{settings.slug}-{mark}"
    watching = _watch(track, track_dir, folder, settings, folder_of_log) if not (folder / FACTS).is_file() else None
    advice = f"the same command with --resume --out {folder} continues"
    with interruptible(advice), progress_bars() as progress, watching or nullcontext() as watch:
        if engine == "ray":
            from resus.cluster.training import fit_on_ray

            model = fit_on_ray(
                settings,
                folder_of_log,
                folder=folder,
                workers=workers or 2,
                resume=resume,
                predictor_from=predictor_from,
                warm_start=warm_start,
                progress=progress,
            )
        else:
            model = Resus.from_config(settings, device=place).fit(
                folder_of_log,
                folder=folder,
                resume=resume,
                predictor_from=source,
                warm_start=start,
                progress=progress,
                watch=watch,
            )
        if watch is not None:
            watch.finish(model.history)
            if watch.shown_by:
                say(f"tracked; see it with: {watch.shown_by}")
    say(f"{model.name} on {folder_of_log}")
    for stage in dict.fromkeys(record.stage for record in model.history):
        epochs = [record for record in model.history if record.stage == stage]
        best = best_epoch(epochs)
        at = f"at epoch {best.epoch} of {epochs[-1].epoch}" if best.epoch else "as before: no epoch was better"
        say(f"  {stage}: validation AUC {best.validation_auc:.4f}, {at}")
    say(f"run in {folder}; next: resus evaluate {folder}")


def _watch(track: str | None, folder: Path | None, run: Path, settings: "Config", log: Path) -> "Watch | None":
    """Tells the tracker, if there is one, about a run."""
    from resus.config.settings import flatten
    from resus.tracking.watching import Watch
    from resus.training.run import CHECKPOINTS

    if track is None:
        return None
    told = {"data": str(log), **flatten(settings.model_dump(mode="json"))}
    return Watch(track, folder, name=run.resolve().name, settings=told, state=run / CHECKPOINTS / "tracking.json")


def _list_settings(settings: "Config") -> None:
    """The settings under the given options; a data set may change some of them."""
    from rich.table import Table

    from resus.checking import described_settings
    from resus.cli.console import console

    table = Table("key", "value", "meaning", box=None)
    for key, value, meaning in described_settings(settings):
        table.add_row(key, str(value), meaning)
    console.print(table)
