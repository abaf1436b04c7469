"""The methods of the paper's comparison: RESUS, its variants, the rivals of section 5, and our baselines."""

from collections import ChainMap
from functools import partial
from typing import Any

from resus.baselines import BASELINES
from resus.baselines.base import MethodSpec
from resus.model.learners import LEARNERS
from resus.model.predictors import PREDICTORS
from resus.paper.questions import ABLATIONS, ARCHITECTURES, BOOSTED, WITHOUT, resus_on
from resus.paper.rivals.boosted_supports import BoostedSupports
from resus.paper.rivals.jtcn import JTCN
from resus.paper.rivals.lwa import LWA
from resus.paper.rivals.mamo import MAMO
from resus.paper.rivals.melu import MeLU
from resus.paper.rivals.meta_embedding import MetaEmbedding
from resus.paper.rivals.nlba import NLBA
from resus.paper.rivals.refit import Refit
from resus.paper.rivals.residual import Residual

NAMES = {"nn": "nearest", "rr": "ridge", "plus": "plus"}  # as methods of the paper are called → kind of the learner


def _resus(name: str, kind: str = "deepfm", words: str = "", **changes: Any) -> MethodSpec:
    learner = LEARNERS[NAMES[name]]
    words = words or ("" if kind == "deepfm" else f"({PREDICTORS[kind].title})")
    return MethodSpec(
        f"{learner.model_name(shared=True)} {words}".rstrip(),
        partial(Residual, learner=NAMES[name], predictor=kind, changes=changes),
        predictor=kind,
        tuned_on_validation=learner.uses_validation_users,
    )


RIVALS: dict[str, MethodSpec] = {
    **{resus_on(name, kind): _resus(name, kind) for kind in ARCHITECTURES for name in NAMES},
    **{
        name: _resus("plus", words=words, **changes)
        for name, (words, changes) in zip(ABLATIONS, WITHOUT.values(), strict=True)
    },
    **{
        f"resus-{name}-refit": MethodSpec(
            f"{LEARNERS[NAMES[name]].model_name(shared=True)} (scalars refitted)",
            partial(Refit, learner=NAMES[name]),
            predictor="deepfm",
            tuned_on_validation=True,
        )
        for name in ("nn", "rr")
    },
    "resus-nn-joint": MethodSpec("RESUS-NN (w/o pretrain)", partial(Residual, learner="nearest", pretrain=False)),
    "resus-rr-joint": MethodSpec("RESUS-RR (w/o pretrain)", partial(Residual, learner="ridge", pretrain=False)),
    "mus": MethodSpec("MUS", partial(Residual, learner="nearest", predictor="none")),
    **{
        f"boosted-{kind}": MethodSpec(
            f"{PREDICTORS[kind].title} (boosting)", partial(BoostedSupports, predictor=kind), predictor=kind
        )
        for kind in BOOSTED
    },
    "lwa": MethodSpec("LWA", LWA),
    "nlba": MethodSpec("NLBA", NLBA, grid={"hidden": (50, 100, 200)}),
    "jtcn": MethodSpec("JTCN", JTCN, grid={"capsules": (2, 3, 4)}),
    "melu": MethodSpec("MeLU", MeLU, grid={"inner_rate": (0.1, 0.3, 1.0)}),
    "mamo": MethodSpec("MAMO", MAMO, grid={"inner_rate": (0.1, 0.3, 1.0)}),
    "meta-embedding": MethodSpec("Meta-Embedding", MetaEmbedding, grid={"inner_rate": (0.01, 0.03, 0.1)}),
}
METHODS = ChainMap(RIVALS, BASELINES)  # also sees a baseline that is registered later
