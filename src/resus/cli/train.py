"""`resus train`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from resus.config.settings import Config


def command(
    data: Annotated[str, typer.Argument(help="A prepared log: its folder, or its name under data/.")] = "planted",
    out: Annotated[
        Path | None, typer.Option(help="Run folder. [default: runs/, named by data, model and settings]")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="YAML file of settings.")] = None,
    learner: Annotated[
        str | None, typer.Option(help="ridge (RESUS-RR), nearest (RESUS-NN) or plus (RESUS+). [default: ridge]")
    ] = None,
    predictor: Annotated[
        str | None,
        typer.Option(
            help="Ψ: lr, fm, wide-deep, deepfm, xdeepfm, lightgbm; none for MUS; logits:COLUMN or probabilities:COLUMN "
            "for what a model of your own says of each row. [default: deepfm]"
        ),
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="Φ: lr, fm, wide-deep, deepfm, xdeepfm. [default: deepfm]")
    ] = None,
    protocol: Annotated[str | None, typer.Option(help="paper or authors-release. [default: paper]")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Draws the user split, the episodes and the weights. [default: 1]")
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any setting, such as training.epochs=5; see --settings."),
    ] = None,
    predictor_from: Annotated[
        Path | None, typer.Option(help="Take Ψ and its settings from this run instead of training it again.")
    ] = None,
    settings_wanted: Annotated[
        bool, typer.Option("--settings", help="List every setting, as learner, protocol and --set leave it, and stop.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped or killed.")] = False,
    engine: Annotated[
        str, typer.Option(help="local: this process; ray: the workers of a Ray cluster (RAY_ADDRESS, or this machine).")
    ] = "local",
    workers: Annotated[int | None, typer.Option(min=1, help="With --engine ray: how many. [default: 2]")] = None,
) -> None:
    """Learn Ψ from everyone, then the residuals from episodes; the run folder holds all that it takes to repeat it."""
    from resus.cli.console import err, progress_bars, say
    from resus.cli.engines import check_engine
    from resus.cli.locations import find_log
    from resus.config.settings import parse_assignments, resolve, settings_of_predictor
    from resus.data.log.log import InteractionLog

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
    settings = resolve(overrides, file=config)
    if settings_wanted:
        _list_settings(settings)
        return
    folder_of_log = find_log(data, settings.protocol)
    log = InteractionLog.open(folder_of_log)

    from resus.estimator import Resus  # torch takes seconds: mistakes above are answered without it

    source = Resus.load(predictor_from) if predictor_from else None
    inherited = settings_of_predictor(source.config) if source else None
    settings = resolve(overrides, file=config, data_set=log.data_set, inherited=inherited)
    mark = settings.fingerprint(log.content_hash)[:6]
    del log  # `fit` opens it again; its vocabularies need not be there twice
    folder = out or Path("runs") / f"{folder_of_log.resolve().name}-{settings.slug}-{mark}"
    try:
        with progress_bars() as progress:
            if engine == "ray":
                from resus.cluster.training import fit_on_ray

                model = fit_on_ray(
                    settings,
                    folder_of_log,
                    folder=folder,
                    workers=workers or 2,
                    resume=resume,
                    predictor_from=predictor_from,
                    progress=progress,
                )
            else:
                model = Resus.from_config(settings).fit(
                    folder_of_log,
                    folder=folder,
                    resume=resume,
                    predictor_from=source,
                    progress=progress,
                )
    except KeyboardInterrupt:
        err.print(f"stopped; the same command with --resume --out {folder} goes on", highlight=False, soft_wrap=True)
        raise typer.Exit(130) from None
    say(f"{model.name} on {folder_of_log}")
    for stage in dict.fromkeys(line["stage"] for line in model.history):
        epochs = [line for line in model.history if line["stage"] == stage]
        best = max(epochs, key=lambda line: line["validation_auc"])
        say(f"  {stage}: validation AUC {best['validation_auc']:.4f}, at epoch {best['epoch']} of {len(epochs)}")
    say(f"run in {folder}; next: resus evaluate {folder}")


def _list_settings(settings: "Config") -> None:
    """As the other options leave them, but for what a data set brings along."""
    from rich.table import Table

    from resus.checking import described_settings
    from resus.cli.console import out as console

    table = Table("key", "value", "meaning", box=None)
    for key, value, meaning in described_settings(settings):
        table.add_row(key, str(value), meaning)
    console.print(table)
