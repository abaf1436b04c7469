"""Several models on one log: each is measured on the same queries, with its shared model, the truth and the crowd."""

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from resus.config.resolve import resolve
from resus.data.datasets.planted import PlantedWorld, planted_log
from resus.data.split import split_users
from resus.episodes.prefixes import OrderedUsers
from resus.evaluation.evaluate import ComparedModel, evaluate
from resus.model.build import build_personalizer
from resus.model.predictors.base import NoPredictor


def test_models_predictors_and_truths_are_measured_side_by_side() -> None:
    log = planted_log(PlantedWorld(users=80, items=20, events_per_user=12))
    small = {"evaluation.max_size": 6, "encoder.hidden_units": (8,), "predictor.hidden_units": (8,)}
    config = resolve({"learner.kind": "ridge", **small})
    split = split_users(log.n_users, ratios=(5, 2, 3), order="random", seed=1)
    torch.manual_seed(1)
    predictor = config.predictor.build_predictor(log.features)
    model, alone = (build_personalizer(config, log.features, psi) for psi in (predictor, NoPredictor()))
    models = {"RESUS-RR": ComparedModel(model, "DeepFM"), "MUS-RR": ComparedModel(alone, None)}
    results = evaluate(models, config, log, split)
    assert list(results.wrong_way) == ["RESUS-RR", "MUS-RR"]
    assert list(results.models) == ["DeepFM", "RESUS-RR", "MUS-RR", "oracle", "crowd"]
    assert (results.base, results.oracle, results.crowd, results.part) == ("DeepFM", "oracle", "crowd", "test")
    ordered = OrderedUsers.of(log, split.test, config.seed)
    labels, positions = log.labels[ordered.rows], ordered.positions
    basis = predictor.logits_of_rows(log, ordered.rows)
    assert log.truth is not None
    scores = {
        "DeepFM": np.repeat(basis[:, None], 7, axis=1),
        "RESUS-RR": model.score_prefixes(log, ordered, config.evaluation.sizes, basis=basis),
        "MUS-RR": alone.score_prefixes(log, ordered, config.evaluation.sizes, basis=np.zeros_like(basis)),
        "oracle": np.repeat(log.truth[ordered.rows][:, None], 7, axis=1),
    }
    for name, logits in scores.items():
        for k in range(7):
            asked = positions >= k
            expected = 0.5 if name == "MUS-RR" and k == 0 else roc_auc_score(labels[asked], logits[asked, k])
            assert results.models[name].sizes[k].auc == pytest.approx(expected, abs=1e-6), (name, k)
    validated = evaluate(models, config, log, split, part="validation", base="MUS-RR")
    assert validated.base == "MUS-RR"
    assert validated.models["DeepFM"].sizes[0].users == len(split.validation)
