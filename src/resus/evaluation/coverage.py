"""Are the intervals of a model right? How often 90 % intervals hold what the model did not see, by stage.

After k events the model expects Σp clicks among a user's queries, with variance Σp(1−p) + gᵀCg, where p = σ(ℓ),
g = p(1−p), and C is the posterior covariance of Δ at the queries. The first term is the randomness of the clicks, the
second is what the model does not know about the user. In a planted world, the true logit of a query should lie within
its interval too.

Intervals have no continuity correction. With 3 to 30 queries, exact probabilities cover 89 to 92 % of users; widened by
½, they would cover more than 97 % of users with 3 queries.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from resus.arrays import Doubles, Integers
from resus.data.log.log import InteractionLog
from resus.episodes.prefixes import OrderedUsers
from resus.evaluation.population import ScoredQueries
from resus.evaluation.results import ModelCoverage, StageCoverage
from resus.model.personalizer import Personalizer
from resus.progress import Progress, silent

LEVEL = 0.9
REACH = 1.6449  # deviations to each side that hold this share of a Gaussian


def coverage_of(
    name: str,
    model: Personalizer,
    log: InteractionLog,
    ordered: OrderedUsers,
    scored: ScoredQueries,
    *,
    predictor: str | None,
    stages: Mapping[str, Sequence[int]],
    progress: Progress = silent,
) -> ModelCoverage:
    """Coverage of a scored model with a posterior. `predictor` names its Ψ among the scored; None is logits of 0."""
    sizes = sorted({k for members in stages.values() for k in members})
    personal, true_logits = _posterior(name, model, log, ordered, scored, predictor, sizes, progress)
    shares: dict[int, dict[str, float]] = {}
    for column, k in enumerate(sizes):
        queries = np.flatnonzero(scored.positions >= k)
        if not len(queries):
            continue
        clicks, mean, coins = _forecast(scored, name, k, queries)
        shares[k] = {
            "clicks": _share_within(clicks - mean, coins + personal[ordered.lengths > k, column]),
            "coins": _share_within(clicks - mean, coins),
        }
        if predictor is not None:
            clicks, mean, coins = _forecast(scored, predictor, k, queries)
            shares[k]["predictor"] = _share_within(clicks - mean, coins)
        if true_logits is not None:
            shares[k]["true_logits"] = true_logits[column] / len(queries)
    found = {}
    for stage, members in stages.items():
        means = {
            share: float(np.mean([shares[k][share] for k in members if k in shares]))
            for share in StageCoverage.model_fields
            if any(share in shares.get(k, {}) for k in members)
        }
        found[stage] = StageCoverage(**{share: means.get(share) for share in StageCoverage.model_fields})
    return ModelCoverage(predictor=predictor, stages=found)


def _forecast(scored: ScoredQueries, model: str, k: int, queries: Integers) -> tuple[Doubles, Doubles, Doubles]:
    """Per user with queries: clicks, expected clicks, and the variance from the randomness of the clicks."""
    logits = scored.logits_at(model, scored.sizes.index(k), queries).astype(np.float64)
    chance = torch.from_numpy(logits).sigmoid().numpy()
    first = np.flatnonzero(scored.positions[queries] == k)
    clicks, mean, coins = (
        np.add.reduceat(values, first, dtype=np.float64)
        for values in (scored.labels[queries], chance, chance * (1 - chance))
    )
    return clicks, mean, coins


def _share_within(miss: Doubles, variance: Doubles) -> float:
    return float((np.abs(miss) <= REACH * np.sqrt(variance)).mean())


@torch.no_grad()
def _posterior(
    name: str,
    model: Personalizer,
    log: InteractionLog,
    ordered: OrderedUsers,
    scored: ScoredQueries,
    predictor: str | None,
    sizes: Sequence[int],
    progress: Progress,
) -> tuple[Doubles, Doubles | None]:
    """gᵀCg of every user and size `[U, sizes]`, and the number of queries whose true logit is covered `[sizes]`."""
    starts = np.cumsum(ordered.lengths) - ordered.lengths
    truth = scored.logits["oracle"][:, 0] if log.truth is not None else None
    personal = np.zeros((len(starts), len(sizes)))
    true_logits = np.zeros(len(sizes)) if truth is not None else None
    done = 0
    basis = np.zeros(len(ordered.rows), np.float32) if predictor is None else scored.logits[predictor][:, 0]
    for part, posteriors in model.posteriors(log, ordered, sizes, basis=basis):
        tile, places, encoded = part.tile, part.places, part.encoded
        users = np.searchsorted(starts, tile.starts)
        for column, (k, posterior) in enumerate(zip(sizes, posteriors, strict=True)):
            asked = (tile.filled & (torch.arange(encoded.shape[1]) >= k)).to(encoded.device)
            logits = torch.from_numpy(scored.logits[name][places, scored.sizes.index(k)]).double().to(encoded.device)
            chance = tile.pad(logits).sigmoid()
            variance = posterior.variance_of_sum(encoded, chance * (1 - chance) * asked)
            personal[users, column] = variance.cpu().numpy()
            if truth is not None and true_logits is not None:
                deviation = posterior.variance(encoded).sqrt()
                true = torch.from_numpy(truth[places]).double().to(encoded.device)
                miss = tile.pad(true - logits).abs()
                true_logits[column] += int(((miss <= REACH * deviation) & asked).sum())
        done += len(places)
        progress(f"{name}: coverage of intervals", done, len(ordered.rows), "rows")
    return personal, true_logits
