"""Settings that come with a protocol or a data set, by dotted keys. A learner brings its own along."""

from typing import Any

PROTOCOLS: dict[str, dict[str, Any]] = {
    "paper": {},
    "authors-release": {
        "split.ratios": (7, 1, 2),
        "split.order": "ascending",
        "predictor.epochs": 1,
        "learner.bias": True,
        "learner.learn_ridge": False,
        "fusion.bias": True,
    },
}

DATA_SETS: dict[str, dict[str, Any]] = {
    "taobao": {"evaluation.max_size": 150, "evaluation.step": 10},
    "planted": {
        "predictor.hidden_units": (64, 64),
        "encoder.hidden_units": (64, 64),
        "predictor.embedding_dim": 8,
        "encoder.embedding_dim": 8,
    },
}
