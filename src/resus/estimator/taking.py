"""What a run takes over from another one: a finished model, or its shared model."""

from pathlib import Path
from typing import TYPE_CHECKING

from resus.artifact import Artifact
from resus.data.log.log import InteractionLog
from resus.errors import ArtifactError, ConfigError
from resus.estimator.comparing import check_comparable, check_same_log
from resus.external.score_column import ScoreColumn
from resus.training.run import TrainedPredictor, delete_checkpoints
from resus.training.warm_start import WarmStart
from resus.wording import advice

if TYPE_CHECKING:
    from resus.estimator.resus import Resus


def finished_run(
    model: "Resus", folder: Path, log: InteractionLog, start: WarmStart | None, *, resume: bool
) -> Artifact:
    """A finished run; it is neither repeated nor overwritten."""
    with_out = advice(python="", command=" with --out")
    if not resume:
        raise ArtifactError(f"{folder} holds a finished run: choose another folder{with_out}, or delete it")
    artifact = Artifact.load(folder)
    asked = model.config, log.content_hash, start.mark if start else None
    if (artifact.config, artifact.log.hash, artifact.log.warm_start) != asked:
        raise ArtifactError(
            f"{folder} holds a finished run with other settings or other data: choose another folder{with_out}"
        )
    delete_checkpoints(folder)
    return artifact


def predictor_to_take(model: "Resus", source: "Resus", log: InteractionLog) -> TrainedPredictor:
    """The predictor of another run, if it was trained on the same users with the same settings."""
    check_same_log(source, log)
    check_comparable(model, source, log)
    if source._fitted().log.warm_start:
        raise ConfigError(
            "the shared model to take over started warm, so its training users are not those of this run: start "
            "this run warm from it as well"
        )
    theirs, mine = source.config.predictor.model_dump(), model.config.predictor.model_dump()
    differing = [
        f"predictor.{key} is {theirs[key]} there and {mine[key]} here" for key in mine if mine[key] != theirs[key]
    ]
    if differing:
        raise ConfigError(
            f"the shared model to take over was made with other settings ({'; '.join(differing)}): "
            "make them equal, or train one here"
        )
    history = [record for record in source.history if record.stage == "predictor"]
    return TrainedPredictor(source._fitted().model.predictor, history)


def score_of_before(model: "Resus", folder: Path | str) -> ScoreColumn:
    """The column that the user's own model wrote, or that serves as the predictor wherever it came from."""
    if model._score is not None:
        return model._score
    if model.config.predictor.logit_column:
        return ScoreColumn(model.config.predictor.logit_column, "a model", None, None)
    raise ConfigError(
        f"the run in {folder} reads no logits of a model of your own (its shared model is "
        f"{model.config.predictor_name}): leave the model out"
    )
