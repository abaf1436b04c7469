"""What practitioners use for new users: the shared model alone, user bias, trees or attention over the history.

A baseline is one file and one line in `BASELINES`; a line can also be added at run time.
"""

from functools import partial

from resus.baselines.base import MethodSpec
from resus.baselines.din import DIN
from resus.baselines.history_trees import HistoryTrees
from resus.baselines.shared_model import SharedModel
from resus.baselines.user_bias import UserBias
from resus.model.predictors import PREDICTORS

BASELINES: dict[str, MethodSpec] = {
    **{
        kind: MethodSpec(settings.title, partial(SharedModel, predictor=kind), predictor=kind, extra=settings.extra)
        for kind, settings in PREDICTORS.items()
        if settings.trainable
    },
    "user-bias": MethodSpec("user bias", UserBias, predictor="deepfm"),
    "history-trees": MethodSpec("LightGBM with history", HistoryTrees, predictor="deepfm", extra="trees"),
    "din": MethodSpec("DIN with labels", DIN, predictor="deepfm"),
}
