"""The warm-up curve against a plain loop over users and sizes, its users, and the file it is kept in."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from resus.arrays import Floats
from resus.config.resolve import resolve
from resus.config.settings import Config
from resus.data.datasets.planted import PlantedWorld, planted_log
from resus.data.log.log import InteractionLog
from resus.data.split import UserSplit
from resus.episodes import prefixes
from resus.episodes.batch import EpisodeBatch, features_of, labels_of
from resus.episodes.prefixes import OrderedUsers
from resus.errors import ArtifactError, DataError
from resus.evaluation.evaluate import ComparedModel
from resus.evaluation.results import WarmUp
from resus.evaluation.warm_up import FEWEST_USERS, ROUND_SIZES, largest_size, sizes_up_to, warm_up
from resus.model.build import build_personalizer
from resus.model.learners import LEARNERS
from resus.model.personalizer import Personalizer
from resus.model.predictors.base import NoPredictor, Predictor

TRAINED, LARGEST = 6, 25
PAPERS = ("ridge", "nearest")


@pytest.fixture(scope="module")
def log() -> InteractionLog:
    """With this many items no two rows are alike, so their order does not depend on rounding."""
    return planted_log(PlantedWorld(users=70, items=5000, events_per_user=40, seed=3))


@pytest.fixture(scope="module")
def split(log: InteractionLog) -> UserSplit:
    users = np.arange(log.n_users)
    return UserSplit(train=users[:5], validation=users[5:10], test=users[10:])


def models_on(log: InteractionLog) -> tuple[Config, Predictor, dict[str, Personalizer]]:
    """A Ψ, and a model per learner whose β rises with the size."""
    small = {"encoder.hidden_units": (8,), "encoder.embedding_dim": 4, "predictor.hidden_units": (8,)}
    spread = {"predictor.embedding_std": 1.0, "encoder.embedding_std": 1.0}
    config = resolve({"learner.kind": "ridge", "evaluation.max_size": TRAINED, **small, **spread})
    torch.manual_seed(1)
    predictor = config.predictor.build_predictor(log.features)
    models = {
        kind: build_personalizer(config.changed({"learner.kind": kind}), log.features, predictor) for kind in PAPERS
    }
    for model in models.values():
        with torch.no_grad():
            model.fusion.scale.copy_(torch.linspace(1.0, 4.0, TRAINED))
    return config, predictor, models


def curve_of(log: InteractionLog, split: UserSplit, up_to: int = LARGEST) -> WarmUp:
    config, _, models = models_on(log)
    return warm_up(
        {kind: ComparedModel(model, "DeepFM") for kind, model in models.items()},
        config,
        log,
        split,
        up_to=up_to,
        trained_up_to=dict.fromkeys(models, TRAINED),
        rivals={"share of clicks": ShareOfClicks(log)},
    )


@dataclass(frozen=True)
class ShareOfClicks:
    """A rival that only knows how often the user has clicked so far; nan for rows that are support."""

    log: InteractionLog
    tuned_on_validation: bool = False

    def __call__(self, ordered: OrderedUsers, sizes: Sequence[int]) -> Floats:
        answers = np.full((len(ordered.rows), len(sizes)), np.nan, dtype=np.float32)
        starts = np.cumsum(ordered.lengths) - ordered.lengths
        for start, length in zip(starts, ordered.lengths, strict=True):
            for column, size in enumerate(sizes):
                clicks = self.log.labels[ordered.rows[start : start + size]].sum()
                answers[start + size : start + length, column] = (clicks + 1) / (size + 2)
        return answers


def share_in_order(labels: Floats, scores: Floats) -> float:
    """Of all pairs of a click and none, the share that is ranked rightly; a tie is half a pair."""
    clicked, other = scores[labels == 1, None], scores[labels == 0]
    return float(((clicked > other) + 0.5 * (clicked == other)).mean())


@pytest.mark.parametrize("tile_rows", [16, 2048])
def test_every_point_is_what_a_loop_over_users_and_sizes_gives(
    monkeypatch: pytest.MonkeyPatch, log: InteractionLog, split: UserSplit, tile_rows: int
) -> None:
    monkeypatch.setattr(prefixes, "TILE_ROWS", tile_rows)
    curve = curve_of(log, split)
    assert curve.sizes == [0, 1, 2, 3, 5, 8, 12, 20, 25]
    _, predictor, models = models_on(log)
    chosen = [user for user in split.test if log.lengths[user] > LARGEST]
    assert FEWEST_USERS <= len(chosen) < len(split.test)
    for size in curve.sizes:
        answers: dict[str, list[Floats]] = {name: [] for name in ("DeepFM", "share of clicks", *models)}
        labels = []
        for user in chosen:
            rows = log.rows_of(np.array([user]))
            asked = rows[LARGEST:]
            batch = EpisodeBatch(np.concatenate([rows[:size], asked]), np.array([size + len(asked)]), np.array([size]))
            features, of_rows = features_of(log, batch.rows), labels_of(log, batch.rows)
            basis = predictor.logits(features)
            with torch.no_grad():
                for kind, model in models.items():
                    answers[kind].append(model(batch, features, basis, of_rows).numpy())
            answers["DeepFM"].append(basis[size:].numpy())
            clicks = log.labels[rows[:size]].sum()
            answers["share of clicks"].append(np.full(len(asked), (clicks + 1) / (size + 2), dtype=np.float32))
            labels.append(log.labels[asked])
        for name, of_users in answers.items():
            point = curve.models[name][size]
            assert (point.users, point.queries) == (len(chosen), sum(map(len, labels)))
            assert point.auc == pytest.approx(roc_auc_score(np.concatenate(labels), np.concatenate(of_users)), abs=1e-4)
            ranked = [pair for pair in zip(labels, of_users, strict=True) if 0 < pair[0].mean() < 1]
            own = [share_in_order(*pair) for pair in ranked]
            expected = np.average(own, weights=[len(pair[0]) for pair in ranked])
            assert point.gauc == pytest.approx(expected, abs=1e-4), (name, size)


def test_the_first_predictor_is_the_base_wherever_it_stands(log: InteractionLog, split: UserSplit) -> None:
    config, _, models = models_on(log)
    alone = build_personalizer(config, log.features, NoPredictor())
    rows = {"MUS": ComparedModel(alone, None), "RESUS": ComparedModel(models["ridge"], "DeepFM")}
    trained = dict.fromkeys(rows, TRAINED)
    assert warm_up(rows, config, log, split, up_to=3, trained_up_to=trained).base == "DeepFM"
    assert warm_up({"MUS": rows["MUS"]}, config, log, split, up_to=3, trained_up_to={"MUS": TRAINED}).base == "MUS"


def test_models_that_learned_from_validation_users_are_named(log: InteractionLog, split: UserSplit) -> None:
    config, predictor, models = models_on(log)
    plus = build_personalizer(
        config.changed({**LEARNERS["plus"].presets("paper"), "learner.kind": "plus"}), log.features, predictor
    )
    rows = {"mine": ComparedModel(plus, "DeepFM"), "RESUS-RR": ComparedModel(models["ridge"], "DeepFM")}
    rivals = {"tuned": ShareOfClicks(log, tuned_on_validation=True), "RESUS+ by name only": ShareOfClicks(log)}
    trained = dict.fromkeys(rows, TRAINED)
    curve = warm_up(rows, config, log, split, up_to=3, trained_up_to=trained, rivals=rivals)
    assert curve.tuned_on_validation == ["mine", "tuned"]


def test_a_log_without_time_draws_the_same_order_as_an_evaluation(log: InteractionLog, split: UserSplit) -> None:
    log = replace(log, ordered=False)
    curve = curve_of(log, split)
    assert curve == curve_of(log, split)
    everyone = OrderedUsers.of(log, split.test, seed=1)
    late = everyone.positions >= LARGEST
    config, predictor, _ = models_on(log)
    assert config.seed == 1
    rows = everyone.rows[late]
    expected = roc_auc_score(log.labels[rows], predictor.logits(features_of(log, rows)).numpy())
    assert curve.models["DeepFM"][0].auc == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("up_to", [1, 2, 7, 30, 100, 300])
def test_sizes_grow_by_about_a_half_and_end_where_asked(up_to: int) -> None:
    sizes = sizes_up_to(up_to)
    assert sizes[0] == 0
    assert sizes[-1] == up_to
    assert list(sizes) == sorted(set(sizes))
    assert set(sizes) <= {0, *ROUND_SIZES, up_to}
    assert all(later <= 2 * earlier for earlier, later in pairwise(sizes[1:]))


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([301] * FEWEST_USERS, 300),
        ([301] * (FEWEST_USERS - 1) + [300], 200),
        ([13] * FEWEST_USERS + [9000] * 3, 12),
        ([12] * FEWEST_USERS, 8),
        ([2] * FEWEST_USERS, 1),
        ([1] * 1000, None),
        ([500] * (FEWEST_USERS - 1), None),
    ],
)
def test_the_curve_ends_where_enough_users_are_left(lengths: list[int], expected: int | None) -> None:
    assert largest_size(np.array(lengths), 300) == expected


def test_where_too_few_users_go_so_far_the_curve_ends_earlier_and_says_so(
    log: InteractionLog, split: UserSplit
) -> None:
    curve = curve_of(log, split, up_to=300)
    assert curve.asked_up_to == 300
    assert curve.users_beyond_asked == 0
    last = curve.sizes[-1]
    assert last == largest_size(log.lengths[split.test], 300)
    assert curve.population.users == (log.lengths[split.test] > last).sum() >= FEWEST_USERS
    assert curve.population.queries == (log.lengths[split.test] - last).clip(min=0).sum()


def test_a_log_of_few_users_is_refused_in_a_sentence(log: InteractionLog) -> None:
    users = np.arange(log.n_users)
    few = UserSplit(train=users[:20], validation=users[20:-12], test=users[-12:])
    with pytest.raises(DataError, match=r"30 test users .* log 'planted' has 12: "):
        curve_of(log, few)


def test_the_file_gives_back_what_was_written(log: InteractionLog, split: UserSplit, tmp_path: Path) -> None:
    curve = curve_of(log, split)
    curve.write(tmp_path / "warm-up.json")
    assert WarmUp.read(tmp_path / "warm-up.json") == curve
    assert [path.name for path in tmp_path.iterdir()] == ["warm-up.json"]
    (tmp_path / "warm-up.json").write_text("{}")
    with pytest.raises(ArtifactError, match="not a warm-up file of format 1: run 'resus warm-up'"):
        WarmUp.read(tmp_path / "warm-up.json")
