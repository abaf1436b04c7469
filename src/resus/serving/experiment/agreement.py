"""How alike two models score the same candidates, and the AUC of a model from counts of its scores."""

import numpy as np

from resus.arrays import Array, Doubles

# log-odds up to which scores are counted together; the error that this makes is part of the answer
EDGES = tuple(round(-8 + 0.1 * place, 1) for place in range(161))


def rank_correlation(one: Array, other: Array) -> float | None:
    """Spearman's, with mean ranks for equal scores; None if a model scores all candidates alike."""
    ranks = [_ranks(scores) for scores in (one, other)]
    deviations = [rank - rank.mean() for rank in ranks]
    size = np.sqrt(np.prod([(deviation**2).sum() for deviation in deviations]))
    return float((deviations[0] * deviations[1]).sum() / size) if size else None


def auc_of(negatives: Array, positives: Array) -> tuple[float, float] | None:
    """The AUC from how many scores of each label fall into each bin, in ascending order, and its largest error.

    Pairs within a bin count one half, so the error is at most half of their share. None without both labels.
    """
    pairs = float(negatives.sum()) * float(positives.sum())
    if not pairs:
        return None
    below = np.cumsum(negatives) - negatives
    together = float((negatives * positives).sum())
    return (float((below * positives).sum()) + together / 2) / pairs, together / 2 / pairs


def _ranks(scores: Array) -> Doubles:
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: Doubles = (last - (counts - 1) / 2)[places]
    return ranks
