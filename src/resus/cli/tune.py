"""`resus tune`."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import optuna
    from rich.table import Table

    from resus.config.settings import Config
    from resus.tracking.watching import Watch

SHOWN = 10  # trials in the table of the terminal


def command(
    data: Annotated[str, typer.Argument(help="A prepared log: its folder, or its name under data/.")] = "planted",
    trials: Annotated[int, typer.Option(min=1, help="Number of trials, those of before included.")] = 20,
    timeout: Annotated[
        float | None, typer.Option(min=0, help="Stop after so many seconds; --resume continues.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the search. [default: runs/tune-DATA]")] = None,
    learners: Annotated[
        str | None, typer.Option(help="Learners to try, with commas between them. [default: plus,ridge,nearest]")
    ] = None,
    predictors: Annotated[
        str | None, typer.Option(help="Shared models to try. [default: all that resus trains and that are installed]")
    ] = None,
    metric: Annotated[str, typer.Option(help="auc, gauc or logloss: the mean over the stages.")] = "auc",
    config: Annotated[Path | None, typer.Option(help="YAML file with settings that stay as they are.")] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Keep a setting as it is, such as predictor.embedding_dim=16."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the search and of the runs.")] = 1,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a search.")] = False,
    track: Annotated[str | None, typer.Option(help="Also tell mlflow or tensorboard about each trial.")] = None,
    track_dir: Annotated[
        Path | None, typer.Option(help="Folder for --track. [default: runs/mlflow or runs/tensorboard]")
    ] = None,
) -> None:
    """Search for the best learner, shared model and sizes, on validation users only.

    Bad trials end early. Writes best.yaml, for resus train --config, and trials.csv.
    """
    from resus.cli.arguments import find_log
    from resus.cli.console import console, interruptible, progress_bars, say
    from resus.config.resolve import parse_assignments
    from resus.data.log.manifest import Manifest
    from resus.errors import ConfigError
    from resus.evaluation.metrics import METRICS
    from resus.extras import need
    from resus.model.learners import LEARNERS
    from resus.tracking.watching import check_tracker
    from resus.tuning.outcome import BEST, best_trial
    from resus.tuning.storage import REASON, finished_trials
    from resus.tuning.suggestions import Suggestions, kinds_named, kinds_to_try

    need("tune", "resus tune")
    check_tracker(track, track_dir)
    measures = [name for name, known in METRICS.items() if known.resampler is not None]
    if metric not in measures:
        raise ConfigError(f"--metric is '{metric}': choose {', '.join(measures)}")
    fixed = {"seed": seed, **parse_assignments(assignments or [])}
    log = find_log(data, str(fixed.get("protocol", "paper")))
    suggestions = Suggestions(
        kinds_named(learners, tuple(LEARNERS), "--learners", LEARNERS.default),
        kinds_named(predictors, kinds_to_try(), "--predictors", "deepfm"),
        fixed,
        config,
        Manifest.read(log).data_set,
    )

    from resus.tuning.search import Limits, search

    folder = out or Path("runs") / f"tune-{log.resolve().name}"

    def tell(trial: "optuna.trial.FrozenTrial") -> None:
        value = "" if trial.value is None else f", {METRICS[metric].title} {trial.value:.4f}"
        reason = f" ({trial.user_attrs[REASON]})" if REASON in trial.user_attrs else ""
        say(f"trial {trial.number}: {trial.state.name.lower()}{value}{reason}")

    def watch(number: int, settings: "Config", place: Path) -> "AbstractContextManager[Watch | None]":
        from resus.config.settings import flatten
        from resus.tracking.watching import Watch

        if track is None:
            return nullcontext()
        told = {"data": str(log), "trial": number, **flatten(settings.model_dump(mode="json"))}
        state = place / "checkpoints" / "tracking.json"
        return Watch(track, track_dir, name=f"{folder.resolve().name}-{number}", settings=told, state=state)

    with interruptible(f"the same command with --resume --out {folder} continues"), progress_bars() as progress:
        study = search(
            log,
            suggestions,
            folder,
            Limits(trials, timeout),
            metric=metric,
            seed=seed,
            resume=resume,
            progress=progress,
            tell=tell,
            track=watch if track else None,
        )
    console.print(_table(study, metric))
    done, best = len(finished_trials(study)), best_trial(study)
    say(f"{done} of {trials} trials" + ("" if done >= trials else "; the same command with --resume continues"))
    if best is None:
        say("no trial is complete: there is no best.yaml yet")
    else:
        say(f"best is trial {best.number}, {METRICS[metric].title} {best.value:.4f} on validation users")
        say(f"settings in {folder / BEST}; next: resus train {data} --config {folder / BEST}")


def _table(study: "optuna.Study", metric: str) -> "Table":
    """The best trials."""
    from rich.table import Table

    from resus.evaluation.metrics import METRICS
    from resus.tuning.outcome import settings_of
    from resus.tuning.storage import finished_trials

    complete = [trial for trial in finished_trials(study) if trial.value is not None and trial.state.name == "COMPLETE"]
    complete.sort(key=lambda trial: trial.value or 0.0, reverse=METRICS[metric].higher_is_better)
    table = Table("trial", METRICS[metric].title, "settings", box=None)
    for trial in complete[:SHOWN]:
        said = ", ".join(f"{key}={value}" for key, value in settings_of(trial).items() if key != "seed")
        table.add_row(str(trial.number), f"{trial.value:.4f}", said)
    return table
