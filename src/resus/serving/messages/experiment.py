"""Two models side by side."""

from resus.serving.messages.values import Message


class ModelFigures(Message):
    """What one model did. `answered` counts requests, `events` those events that came after an answer of this model,
    and `positive` is the share of them with label 1: what its users did.

    `auc` and `logloss` are of its scores of all `joined` events, whichever model answered. The AUC is counted in bins,
    so it may be wrong by `auc_error` at most. They are null without events of both labels.
    """

    version: str
    answered: int
    events: int
    positive: float | None
    auc: float | None
    auc_error: float | None
    logloss: float | None


class ExperimentAnswer(Message):
    """`split` is the share of users that the second model answers; null if it only scores along, unseen.

    `compared` counts the requests that both models scored, and `same_best` is the share of them with the same best
    candidate. `rank_correlation` is Spearman's, and `difference` the mean absolute difference of the probabilities;
    both are means over requests. `joined` counts the events whose user and item both models scored within the hour
    before. `left_out` counts requests that were answered but not compared, by reason.
    """

    first: ModelFigures
    second: ModelFigures
    split: float | None
    compared: int
    same_best: float | None
    rank_correlation: float | None
    difference: float | None
    joined: int
    left_out: dict[str, int]
