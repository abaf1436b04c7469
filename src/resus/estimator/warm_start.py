"""A log and a start for training that goes on from another model."""

from pathlib import Path
from typing import TYPE_CHECKING

from resus.config.settings import Config, flatten
from resus.data.log.log import InteractionLog
from resus.data.log.recoded import recoded
from resus.errors import ArtifactError
from resus.training.warm_start import WarmStart

if TYPE_CHECKING:
    from resus.estimator.resus import Resus


def source_of(given: "Resus | Path | str | None", load: "type[Resus]") -> "Resus | None":
    """The model to start from, loaded if it is a folder."""
    return load.load(given) if isinstance(given, str | Path) else given


def inherited_from(source: "Resus") -> dict[str, object]:
    """All settings of the model to start from, by dotted keys."""
    return flatten(source.config.model_dump())


def with_own_encoder(config: Config, source: "Resus") -> Config:
    """With the class of the source's own encoder, which no setting holds."""
    same = config.encoder == source.config.encoder
    return config.model_copy(update={"encoder": source.config.encoder}) if same else config


def warm_start_from(source: "Resus", log: InteractionLog) -> tuple[InteractionLog, WarmStart]:
    """The log with the ids of the source's vocabulary, to which the values that only the log has are added."""
    fitted = source._fitted()
    if fitted.users is None:
        raise ArtifactError(
            "the model to start from does not say which users it was trained on: name the folder that 'resus train' "
            "made, not an export of it"
        )
    fitted.features.check_readable(log.features, f"the log '{log.name}'")
    grown = fitted.features.grown(log.features)
    return recoded(log, grown), WarmStart(fitted.model, source.config, fitted.features, fitted.users)
