"""Coverage against a loop over users and sizes that writes the posterior covariance of the queries out."""

import numpy as np
import pytest
import torch

from resus import InteractionLog, PlantedWorld, planted_log
from resus.arrays import Doubles
from resus.config.resolve import resolve
from resus.config.settings import Config
from resus.data.datasets.planted import draw_world
from resus.data.split import UserSplit, split_users
from resus.episodes.batch import features_of
from resus.episodes.prefixes import OrderedUsers
from resus.evaluation.coverage import coverage_of
from resus.evaluation.evaluate import ComparedModel, evaluate
from resus.evaluation.intervals import FEWEST_DRAWS
from resus.evaluation.population import ScoredQueries
from resus.evaluation.results import ModelCoverage, Results, StageCoverage
from resus.model.build import build_personalizer
from resus.model.learners.plus.factors import FactorEncoder
from resus.model.learners.plus.learner import PlusLearner
from resus.model.personalizer import Personalizer
from resus.model.predictors.base import NeuralPredictor, NoPredictor

OTHER_PARTS = ("matches", "taste", "choices", "context", "common", "scale", "trust", "sizes")  # than the bias


@pytest.fixture(scope="module")
def log() -> InteractionLog:
    return planted_log(PlantedWorld(users=60, items=8, events_per_user=14, seed=4))


@pytest.fixture(scope="module")
def config() -> Config:
    return resolve({"learner.kind": "plus", "evaluation.max_size": 9, "encoder.embedding_dim": 3})


@pytest.fixture(scope="module")
def split(log: InteractionLog) -> UserSplit:
    return split_users(log.n_users, ratios=(1, 1, 3), order="random", seed=1)


def untrained(config: Config, log: InteractionLog) -> Personalizer:
    """Vectors and variances large enough that every part of the posterior matters."""
    torch.manual_seed(1)
    predictor = config.predictor.build_predictor(log.features)
    model = build_personalizer(config, log.features, predictor)
    assert isinstance(predictor, NeuralPredictor)
    encoder = FactorEncoder.of(model.encoder)
    for embedding in (predictor.encoder.embedding, encoder.embedding, encoder.chosen):
        torch.nn.init.normal_(embedding.table, std=0.3)  # type: ignore[union-attr,arg-type]
    with torch.no_grad():
        for parameter in model.learner.parameters():
            parameter.add_(0.4 * torch.randn_like(parameter))
    return model


def fitted(prior: Doubles, labels: Doubles, basis: Doubles, trust: Doubles) -> Doubles:
    """The mode Δ of the events under this covariance, by fixed steps of Newton's method."""
    delta: Doubles = np.zeros(len(labels))
    for _ in range(50):
        chance = 1 / (1 + np.exp(-basis - delta))
        weights = trust * chance * (1 - chance)
        targets = weights * delta + trust * (labels - chance)
        delta = np.asarray(np.linalg.solve(np.eye(len(labels)) + prior * weights, prior @ targets), dtype=np.float64)
    return delta


def found_coverage(results: Results) -> dict[str, ModelCoverage]:
    assert results.coverage is not None
    assert results.coverage.level == 0.9
    return results.coverage.models


def written_out(
    config: Config, log: InteractionLog, ordered: OrderedUsers, basis: np.ndarray, model: Personalizer
) -> dict[str, StageCoverage]:
    """User by user and size by size, with the covariance of all rows of the user and its own fit."""
    assert log.truth is not None
    sizes = config.evaluation.sizes
    logits = model.score_prefixes(log, ordered, sizes, basis=basis).astype(np.float64)
    basis, labels, truth = (values.astype(np.float64) for values in (basis, log.labels[ordered.rows], log.truth))
    truth = truth[ordered.rows]
    learner = PlusLearner.of(model.learner)
    with torch.no_grad():
        encoded = model.encoder(features_of(log, ordered.rows))
        crowd = learner.crowd(torch.from_numpy(basis).float(), encoded).double().numpy()
        codes = learner.layout.unpack(encoded)
        trust = np.where(labels > 0, *(value.double().item() for value in learner.trust))
    shares: dict[int, list[list[float]]] = {k: [[], [], [], []] for k in sizes}
    starts = np.cumsum(ordered.lengths) - ordered.lengths
    for start, length in zip(starts, ordered.lengths, strict=True):
        rows = np.arange(start, start + length)
        own_codes = codes.of(torch.from_numpy(rows))
        prior = learner.prior.covariance(own_codes, own_codes).detach().numpy()
        for column, k in enumerate(sizes):
            if length <= k or k == 0:
                continue
            own, queries = rows[:k], rows[k:]
            delta = fitted(prior[:k, :k], labels[own], crowd[own], trust[own])
            chance = 1 / (1 + np.exp(-crowd[own] - delta))
            noise = np.diag(1 / (trust[own] * chance * (1 - chance)))
            covariance = prior[k:, k:] - prior[k:, :k] @ np.linalg.inv(prior[:k, :k] + noise) @ prior[:k, k:]
            p, of_psi = (1 / (1 + np.exp(-values)) for values in (logits[queries, column], basis[queries]))
            g, clicks = p * (1 - p), labels[queries].sum()
            deviation = np.sqrt(g.sum() + g @ covariance @ g)
            shares[k][0].append(abs(clicks - p.sum()) <= 1.6449 * deviation)
            shares[k][1].append(abs(clicks - p.sum()) <= 1.6449 * np.sqrt(g.sum()))
            shares[k][2].append(abs(clicks - of_psi.sum()) <= 1.6449 * np.sqrt((of_psi * (1 - of_psi)).sum()))
            true = np.log(truth[queries]) - np.log1p(-truth[queries])
            shares[k][3] += list(abs(true - logits[queries, column]) <= 1.6449 * np.sqrt(np.diag(covariance)))
    means = {
        stage: [float(np.mean([np.mean(shares[k][share]) for k in members])) for share in range(4)]
        for stage, members in config.evaluation.stages.items()
    }
    return {
        stage: StageCoverage(clicks=values[0], coins=values[1], predictor=values[2], true_logits=values[3])
        for stage, values in means.items()
    }


def test_shares_are_those_of_the_covariance_written_out(
    log: InteractionLog, config: Config, split: UserSplit, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = untrained(config, log)
    ordered = OrderedUsers.of(log, split.test, config.seed)
    expected = written_out(config, log, ordered, model.predictor.logits_of_rows(log, ordered.rows), model)
    for room in (2048, 20):  # 20 rows are fewer than some users have: they stay whole all the same
        monkeypatch.setattr("resus.episodes.prefixes.TILE_ROWS", room)
        results = evaluate({"RESUS+": ComparedModel(model, "DeepFM")}, config, log, split, draws=FEWEST_DRAWS)
        assert Results.model_validate_json(results.model_dump_json()) == results
        found = found_coverage(results)["RESUS+"]
        assert found.predictor == "DeepFM"
        for stage, shares in expected.items():
            assert found.stages[stage].model_dump() == pytest.approx(shares.model_dump(), abs=1e-9)
    assert len({shares.clicks for shares in expected.values()} | {s.coins for s in expected.values()}) > 3


def test_only_a_posterior_has_intervals_and_no_predictor_has_none(
    log: InteractionLog, config: Config, split: UserSplit
) -> None:
    model = untrained(config, log)
    settings = resolve({"learner.kind": "ridge", "evaluation.max_size": 9})
    ridge = build_personalizer(settings, log.features, model.predictor)
    alone = Personalizer(NoPredictor(), model.encoder, model.learner, model.fusion)
    beside = {"RESUS-RR": ComparedModel(ridge, "DeepFM"), "alone": ComparedModel(alone, None)}
    found = found_coverage(evaluate(beside, config, log, split, draws=FEWEST_DRAWS))
    assert list(found) == ["alone"]
    assert found["alone"].predictor is None
    assert all(stage.predictor is None and stage.clicks is not None for stage in found["alone"].stages.values())
    assert evaluate({"RESUS-RR": beside["RESUS-RR"]}, config, log, split, draws=FEWEST_DRAWS).coverage is None


def test_without_draws_no_interval_is_asked_for(log: InteractionLog, config: Config, split: UserSplit) -> None:
    model = untrained(config, log)
    tasks: list[str] = []

    def tell(task: str, done: int, total: int | None, unit: str = "") -> None:
        tasks.append(task)

    results = evaluate({"RESUS+": ComparedModel(model, "DeepFM")}, config, log, split, draws=0, progress=tell)
    assert (results.coverage, results.gains) == (None, None)
    assert results.tuned_on_validation == ["RESUS+"]
    assert not [task for task in tasks if "coverage" in task or "gains" in task]


def test_a_posterior_that_is_right_covers_what_it_says() -> None:
    """Users drawn from the prior on top of known logits: about nine in ten lie within; fewer if the user were known."""
    world = PlantedWorld(users=600, items=30, events_per_user=40, taste_spread=0, bias_spread=1.2, seed=2)
    log, known = planted_log(world), draw_world(world).known.astype(np.float32)
    config = resolve({"learner.kind": "plus"} | {f"learner.{part}": False for part in OTHER_PARTS})
    model = build_personalizer(config, log.features)
    PlusLearner.of(model.learner).start_from(bias=world.bias_spread**2)
    ordered, sizes, stages = OrderedUsers.of(log, np.arange(log.n_users), 1), (1, 4, 12), {"I": [1, 4], "II": [12]}
    assert log.truth is not None
    truth = log.truth[ordered.rows]
    scored = ScoredQueries(
        labels=log.labels[ordered.rows],
        users=np.repeat(ordered.users, ordered.lengths),
        positions=ordered.positions,
        sizes=sizes,
        logits={
            "Ψ": known[ordered.rows, None],
            "RESUS+": model.score_prefixes(log, ordered, sizes, basis=known[ordered.rows]),
            "oracle": np.log(truth / (1 - truth))[:, None],
        },
    )
    found = coverage_of("RESUS+", model, log, ordered, scored, predictor="Ψ", stages=stages)
    for stage in found.stages.values():
        assert stage.clicks is not None
        assert stage.coins is not None
        assert stage.true_logits is not None
        assert 0.87 < stage.clicks < 0.95
        assert 0.85 < stage.true_logits < 0.95
        assert stage.coins < 0.75
