"""The loaded model and its fields."""

from typing import Literal

from resus.serving.messages.values import Message

Role = Literal["item", "user", "context"]


class FieldAnswer(Message):
    """A field that the model reads; `values` are the most frequent ones.

    The catalogue fills in fields with the role "item", a profile those with the role "user".
    """

    name: str
    kind: str
    role: Role
    values: list[str]


class Bounds(Message):
    request_bytes: int
    candidates: int
    events: int
    events_per_user: int
    explained: int
    id_length: int


class ModelAnswer(Message):
    """The loaded model. `version` is its name and the beginning of its hash.

    `support_sizes` is the largest number of events per user in training.

    `score` names the field in which each event and candidate must bring the shared model's score; else it is null.
    `recommends` says whether `/v1/recommend` can rank the catalogue.
    """

    name: str
    version: str
    predictor: str
    learner: str
    protocol: str
    item: str
    score: str | None
    fields: list[FieldAnswer]
    support_sizes: int
    stages: dict[str, list[int]]
    bounds: Bounds
    sha256: str
    catalogue: int
    recommends: bool


class Reloaded(Message):
    """The model that answers from now on. With two models, `second` is the version of the second one."""

    name: str
    version: str
    sha256: str
    second: str | None = None
