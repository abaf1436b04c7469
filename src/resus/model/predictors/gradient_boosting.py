"""LightGBM (Ke et al. 2017), the paper's sixth predictor."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from resus.arrays import Floats, Integers
from resus.data.fields.feature_map import FeatureMap
from resus.data.log.log import InteractionLog
from resus.episodes.batch import Features, features_of
from resus.model.growing import Growth
from resus.model.predictors.base import Predictor
from resus.model.predictors.in_numpy import read_booster

if TYPE_CHECKING:
    import lightgbm  # at run time only where it is used: it imports scikit-learn, SciPy and pandas


class GradientBoosting(Predictor):
    """Boosted trees on the raw fields: categories as categories, numbers as numbers, several values as a multi-hot."""

    def __init__(
        self, features: FeatureMap, *, learning_rate: float, rounds: int, num_leaves: int, patience: int
    ) -> None:
        self.features = features
        self.learning_rate = learning_rate
        self.rounds = rounds
        self.num_leaves = num_leaves
        self.patience = patience
        self.booster: lightgbm.Booster | None = None
        self._start: lightgbm.Booster | None = None

    def fit(
        self,
        log: InteractionLog,
        train: Integers,
        validation: Integers,
        *,
        seed: int,
        threads: int,
    ) -> float:
        """Boost until the validation AUC no longer grows; return it."""
        import lightgbm

        columns = list(self.features.tree_columns())
        parameters: dict[str, Any] = {
            "objective": "binary",
            "metric": "auc",
            "learning_rate": self.learning_rate,
            "num_leaves": self.num_leaves,
            "min_data_per_group": 20,
            "cat_smooth": 20,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": threads,
            "seed": seed,
            "verbosity": -1,
        }
        data = lightgbm.Dataset(
            self._matrix(features_of(log, train)),
            log.labels[train],
            feature_name=[name for name, _ in columns],
            categorical_feature=[name for name, is_category in columns if is_category],
        )
        held_out = data.create_valid(self._matrix(features_of(log, validation)), log.labels[validation])
        self.booster = lightgbm.train(
            parameters,
            data,
            num_boost_round=self.rounds,
            valid_sets=[held_out],
            init_model=self._start,
            callbacks=[lightgbm.early_stopping(self.patience, verbose=False)],
        )
        return float(self.booster.best_score["valid_0"]["auc"])

    def start_from(self, other: Predictor, growth: Growth) -> str | None:
        """The first trees are those of the other. A multi-hot field with new values gives them other columns."""
        assert isinstance(other, GradientBoosting)
        if list(growth.before.tree_columns()) != list(growth.after.tree_columns()):
            return (
                "LightGBM is trained anew: a field with several values per row has new values, so its columns changed"
            )
        self._start = other.booster
        return None

    def logits(self, features: Features) -> Tensor:
        assert self.booster is not None, "fit or load the booster first"
        raw = self.booster.predict(self._matrix(features), raw_score=True)
        return torch.from_numpy(np.asarray(raw, dtype=np.float32))

    def state_dict(self) -> dict[str, Tensor]:
        assert self.booster is not None, "fit or load the booster first"
        text = self.booster.model_to_string(num_iteration=self.booster.best_iteration).encode()
        return {"booster": torch.frombuffer(bytearray(text), dtype=torch.uint8)}

    def files(self) -> dict[str, bytes]:
        return {"predictor.txt": self.state_dict()["booster"].numpy().tobytes()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        self.booster = read_booster(state_dict)

    def _matrix(self, features: Features) -> Floats:
        weights = None if features.weights is None else features.weights.numpy()
        return self.features.tree_matrix(features.ids.numpy(), weights)
