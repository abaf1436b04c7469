"""Every method by name: what tables call it, how to build it, and what to try for it on the validation users."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from resus.baselines.crowd import Crowd
from resus.baselines.history_trees import HistoryTrees
from resus.baselines.method import Method
from resus.baselines.user_bias import UserBias
from resus.checking import nearest_key
from resus.errors import ConfigError
from resus.model.predictors import PREDICTORS
from resus.paper.rivals.boosted_supports import BoostedSupports
from resus.paper.rivals.jtcn import JTCN
from resus.paper.rivals.lwa import LWA
from resus.paper.rivals.mamo import MAMO
from resus.paper.rivals.melu import MeLU
from resus.paper.rivals.meta_embedding import MetaEmbedding
from resus.paper.rivals.nlba import NLBA
from resus.paper.rivals.residual import Residual


@dataclass(frozen=True)
class Entry:
    """`predictor` is the Ψ that the method stands on; `grid` holds the hyperparameters to search, with their values.

    `tuned_on_validation`: it learns scales from validation users.
    """

    label: str
    build: Callable[..., Method]
    predictor: str | None = None
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    tuned_on_validation: bool = False


def _architectures() -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for kind, name in ((kind, settings.title) for kind, settings in PREDICTORS.items() if settings.trainable):
        found[kind] = Entry(name, partial(Crowd, predictor=kind), kind)
        suffix, on = ("", "") if kind == "deepfm" else (f"-{kind}", f" ({name})")
        found[f"resus-nn{suffix}"] = Entry(f"RESUS-NN{on}", partial(Residual, learner="nearest", predictor=kind), kind)
        found[f"resus-rr{suffix}"] = Entry(f"RESUS-RR{on}", partial(Residual, learner="ridge", predictor=kind), kind)
        found[f"resus-plus{suffix}"] = Entry(
            f"RESUS+{on}", partial(Residual, learner="plus", predictor=kind), kind, tuned_on_validation=True
        )
        if PREDICTORS.is_architecture(kind):
            found[f"boosted-{kind}"] = Entry(f"{name} (boosting)", partial(BoostedSupports, predictor=kind), kind)
    return found


WITHOUT: dict[str, tuple[str, dict[str, Any]]] = {
    "folds": ("without cross-fitting", {"training.folds": 1}),
    "evidence": ("without evidence", {"encoder.refine": False}),
    "taste": ("without taste", {"learner.taste": False}),
    "repeats": ("without repeats", {"learner.repeats": False}),
    "bias": ("without bias", {"learner.bias": False}),
    "steps": ("with one step", {"learner.steps": 1}),
}


def _ablations() -> dict[str, Entry]:
    return {
        f"resus-plus-without-{part}": Entry(
            f"RESUS+ {words}",
            partial(Residual, learner="plus", changes=changes),
            "deepfm",
            tuned_on_validation=True,
        )
        for part, (words, changes) in WITHOUT.items()
    }


METHODS: dict[str, Entry] = {
    **_architectures(),
    **_ablations(),
    "resus-nn-joint": Entry("RESUS-NN (w/o pretrain)", partial(Residual, learner="nearest", pretrain=False)),
    "resus-rr-joint": Entry("RESUS-RR (w/o pretrain)", partial(Residual, learner="ridge", pretrain=False)),
    "mus": Entry("MUS", partial(Residual, learner="nearest", predictor="none")),
    "lwa": Entry("LWA", LWA),
    "nlba": Entry("NLBA", NLBA, grid={"hidden": (50, 100, 200)}),
    "jtcn": Entry("JTCN", JTCN, grid={"capsules": (2, 3, 4)}),
    "melu": Entry("MeLU", MeLU, grid={"inner_rate": (0.1, 0.3, 1.0)}),
    "mamo": Entry("MAMO", MAMO, grid={"inner_rate": (0.1, 0.3, 1.0)}),
    "meta-embedding": Entry("Meta-Embedding", MetaEmbedding, grid={"inner_rate": (0.01, 0.03, 0.1)}),
    "user-bias": Entry("user bias", UserBias, "deepfm"),
    "history-trees": Entry("LightGBM with history", HistoryTrees, "deepfm"),
}


def entry_of(name: str) -> Entry:
    if name not in METHODS:
        nearest = nearest_key(name, list(METHODS))
        raise ConfigError(
            f"no method '{name}': " + (f"did you mean '{nearest}'?" if nearest else f"choose from {', '.join(METHODS)}")
        )
    return METHODS[name]
