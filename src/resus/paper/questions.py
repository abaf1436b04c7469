"""The paper's five research questions and one of our own, with the methods that each compares."""

from dataclasses import dataclass
from typing import Any

from resus.checking import nearest_key
from resus.errors import ConfigError

ARCHITECTURES = ("lr", "fm", "wide-deep", "deepfm", "xdeepfm", "lightgbm")
BOOSTED = ("lr", "fm", "wide-deep", "deepfm", "xdeepfm")
DATA_SET_LABELS = {"ml-1m": "MovieLens-1M", "frappe": "Frappe", "taobao": "Taobao"}

STAGES = ("I", "II", "III")

FEW_SHOT = ("lwa", "nlba", "jtcn")
OPTIMISATION = ("melu", "mamo", "meta-embedding")
PAPER_RIVALS = (*FEW_SHOT, *OPTIMISATION)
PROPOSED = ("resus-nn", "resus-rr")
JOINT = {method: f"{method}-joint" for method in PROPOSED}
TABLE_4 = ("mus", "resus-nn-joint", "resus-nn", "resus-rr-joint", "resus-rr")
PRACTICE = ("user-bias", "history-trees")
PLUS = "resus-plus"
WITHOUT: dict[str, tuple[str, dict[str, Any]]] = {  # RESUS+ with one setting changed
    **{
        part: (f"without {part}", {f"learner.{part}": False})
        for part in ("bias", "matches", "taste", "choices", "context", "common", "scale", "trust", "sizes")
    },
    "folds": ("without cross-fitting", {"training.folds": 1}),
    "average": ("without averaging", {"training.average": "never"}),
}
ABLATIONS = tuple(f"{PLUS}-without-{part}" for part in WITHOUT)


def resus_on(learner: str, architecture: str) -> str:
    """The name of RESUS with one learner (nn, rr or plus) on one kind of Ψ. DeepFM is the default and is not named."""
    return f"resus-{learner}" if architecture == "deepfm" else f"resus-{learner}-{architecture}"


def data_set_label(data_set: str) -> str:
    return DATA_SET_LABELS.get(data_set, data_set)


@dataclass(frozen=True)
class Question:
    """`methods` are in the order of the paper's rows. The cells of a `timed` question run alone."""

    title: str
    asks: str
    methods: tuple[str, ...]
    timed: bool = False


QUESTIONS: dict[str, Question] = {
    "rq1": Question(
        "RQ1, table 3",
        "How does RESUS perform on cold users compared with the state of the art?",
        ("deepfm", *PRACTICE, *PAPER_RIVALS, *PROPOSED),
    ),
    "rq2": Question(
        "RQ2, tables 4 and 5",
        "What do Ψ, its pretraining and its architecture contribute?",
        (
            *TABLE_4,
            *(
                method
                for kind in ARCHITECTURES
                for method in (kind, resus_on("nn", kind), resus_on("rr", kind))
                if method not in PROPOSED
            ),
        ),
    ),
    "rq3": Question(
        "RQ3, boosting rows of table 5",
        "Is it more than gradient boosting?",
        tuple(
            method
            for kind in BOOSTED
            for method in (kind, f"boosted-{kind}", resus_on("nn", kind), resus_on("rr", kind))
        ),
    ),
    "rq4": Question(
        "RQ4, figure 4",
        "What if the support has little to do with the query?",
        ("mus", "meta-embedding", *PROPOSED),
    ),
    "rq5": Question(
        "RQ5, table 6 and figure 5",
        "What does it cost in time?",
        ("deepfm", *PAPER_RIVALS, *JOINT.values(), *PROPOSED, *PRACTICE),
        timed=True,
    ),
    "beyond": Question(
        "Beyond the paper",
        "What does RESUS+ add, and which part of it?",
        ("deepfm", *PRACTICE, *PROPOSED, PLUS, *ABLATIONS),
    ),
}
PAPER = tuple(name for name in QUESTIONS if name.startswith("rq"))


def chosen_questions(name: str) -> list[str]:
    """One question, or `all` five of the paper."""
    if name == "all":
        return list(PAPER)
    if name not in QUESTIONS:
        nearest = nearest_key(name, [*QUESTIONS, "all"])
        raise ConfigError(
            f"no question '{name}': choose from {', '.join(QUESTIONS)} or all"
            + (f"; did you mean '{nearest}'?" if nearest else "")
        )
    return [name]
