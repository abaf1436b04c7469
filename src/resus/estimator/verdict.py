"""`resus.compare`: is a new model better than an old one?"""

from pathlib import Path

from resus.data.given import Data
from resus.data.log.known_users import Users
from resus.errors import ConfigError
from resus.estimator.comparing import side_by_side
from resus.estimator.resus import Resus
from resus.evaluation.comparison import Comparison, compare_two
from resus.evaluation.intervals import DRAWS
from resus.progress import Progress, silent


def compare(
    old: Resus | Path | str,
    new: Resus | Path | str,
    data: Data,
    *,
    users: Users = "unseen",
    names: tuple[str, str] = ("the old model", "the new model"),
    draws: int = DRAWS,
    progress: Progress = silent,
) -> Comparison:
    """Compare two models, or the folders of their runs, on a log or table: AUC, GAUC and Logloss by stage.

    Each model reads the data by its own vocabularies. The users are those on whom neither was trained or validated; or,
    as `users` says, only those `new` to both, or `all`. The gains of the new model have 95 % intervals from paired
    `draws` of users; `verdict` says in one sentence what they show.
    """
    if names[0] == names[1]:
        raise ConfigError(f"both models are named '{names[0]}': give two names")
    loaded = [Resus.load(model) if isinstance(model, str | Path) else model for model in (old, new)]
    beside = side_by_side(dict(zip(names, loaded, strict=True)), data, users=users, one_split=False)
    return compare_two(
        (names[0], beside.rows[names[0]]),
        (names[1], beside.rows[names[1]]),
        beside.first.config,
        beside.log,
        beside.population.test,
        draws=draws,
        news=beside.news,
        progress=progress,
    )
