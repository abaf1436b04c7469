"""Training that starts from an earlier model: old values keep their vectors, new ones are added, users stay apart."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from newer_logs import earlier, earlier_events, newer, newer_events
from planted_models import KEEP, TINY, log_of, tiny

from resus import ArtifactError, ConfigError, InteractionLog, Resus, ResusWarning, TableSchema, build_log, load
from resus.checking import checked
from resus.data.fields.feature_map import FeatureMap
from resus.data.log.recoded import recoded
from resus.episodes.batch import Features, features_of
from resus.episodes.prefixes import OrderedUsers
from resus.model.build import build_personalizer
from resus.model.encoders import ENCODERS
from resus.model.encoders.base import FieldEmbedding
from resus.model.learners import LEARNERS
from resus.model.learners.plus.factors import FactorEncoder
from resus.model.predictors import PREDICTORS
from resus.training.validation import Validation
from resus.training.warm_start import WarmStart


class OwnEncoder(torch.nn.Module):
    """Vectors of all fields, and a table of its own with a row per id."""

    def __init__(self, features: FeatureMap) -> None:
        super().__init__()
        self.embedding = FieldEmbedding(features.n_ids, features.column_counts, 3, std=0.1)
        self.biases = torch.nn.Embedding(features.n_ids, 1)
        self.width = 3 * len(features.fields) + 1

    def forward(self, features: Features) -> torch.Tensor:
        assert features.weights is not None
        bias = (self.biases(features.ids.long()) * features.weights.unsqueeze(2)).sum(dim=1)
        return torch.cat([self.embedding(features).flatten(1), bias], dim=1)


QUICK_PLUS = {"training.folds": 2, "encoder.epochs": 2}
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    **{f"predictor {kind}": {"predictor": kind} for kind in PREDICTORS if kind != "external"},
    "a column of scores": {"predictor": "logits:price"},
    **{f"encoder {kind}": {"encoder": kind} for kind in ENCODERS if kind not in ("own", "factors")},
    "an own encoder": {"encoder": OwnEncoder, "learner": "ridge"},
    **{f"learner {kind}": {"learner": kind} for kind in LEARNERS if kind != "plus"},
    "learner plus": {"learner": "plus", "settings": QUICK_PLUS | {"training.folds": 1}},
    "plus with folds": {"learner": "plus", "settings": QUICK_PLUS | {"training.average": "always"}},
    "w/o pretrain": {"settings": {"predictor.pretrain": False}},
}
OF_TREES = {"predictor lightgbm"}


def model_of(name: str) -> Resus:
    options = CONFIGURATIONS[name]
    if name != "an own encoder":
        return tiny(**options)
    settings = {key: value for key, value in TINY.items() if not key.startswith(("encoder.", "learner."))}
    return Resus(**options, settings=settings)


def started(model: Resus) -> WarmStart:
    fitted = model._fitted()
    assert fitted.users is not None
    return WarmStart(fitted.model, model.config, fitted.features, fitted.users)


@pytest.mark.parametrize("name", [name for name in CONFIGURATIONS if name not in OF_TREES])
def test_before_training_old_rows_get_the_answers_of_the_old_model(name: str) -> None:
    old = model_of(name).fit(earlier())
    start, grown = started(old), old._fitted().features.grown(newer().features)
    assert grown.n_ids > old._fitted().features.n_ids
    torch.manual_seed(7)
    model = build_personalizer(old.config, grown)
    start.into(old.config, model, grown)
    log = earlier()
    everyone, sizes = OrderedUsers.of(log, np.arange(log.n_users), 1), (1, 3)
    if isinstance(start.model.predictor.lead, type(start.model.predictor)):
        expected = start.model.score_prefixes(log, everyone, sizes)
        assert np.abs(model.score_prefixes(recoded(log, grown), everyone, sizes) - expected).max() < 1e-5
    rows = np.arange(log.n_rows)
    basis = start.model.predictor.lead.logits(features_of(log, rows))
    assert torch.allclose(model.predictor.logits(features_of(recoded(log, grown), rows)), basis, atol=1e-6)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_every_kind_goes_on_and_answers_on_both_logs(name: str, tmp_path: Path) -> None:
    options = CONFIGURATIONS[name]
    old = model_of(name).fit(earlier())
    fresh = Resus()
    if name in OF_TREES:
        with pytest.warns(ResusWarning, match="LightGBM is trained anew"):
            model = fresh.fit(newer(), warm_start=old, folder=tmp_path)
    else:
        model = fresh.fit(newer(), warm_start=old, folder=tmp_path)
    assert model.config.predictor == old.config.predictor
    assert model.name == old.name
    values = {field.name: set(field.values) for field in model._fitted().features.fields}
    assert all(
        set(field.values) <= values[field.name] for field in (*earlier().features.fields, *newer().features.fields)
    )
    again = load(tmp_path, encoder=options["encoder"]) if name == "an own encoder" else load(tmp_path)
    for log in (newer(), earlier()):
        assert again.evaluate(log, draws=0, users="all") == model.evaluate(log, draws=0, users="all")


def test_trees_are_added_to_those_of_before() -> None:
    """Without a field of several values, whose columns would change, old trees still read the new rows."""
    schema = {"user": "user", "item": "item", "time": "time", "label": "click", "fields": {"category": "categorical"}}
    options = {"predictor": "lightgbm", "settings": {"predictor.rounds": 3}}
    logs = [build_log(table, checked(TableSchema, schema), KEEP) for table in (earlier_events(), newer_events())]
    old = tiny(**options).fit(logs[0])
    new = Resus().fit(logs[1], warm_start=old)
    trees = [model._fitted().model.predictor.booster.num_trees() for model in (old, new)]  # type: ignore[attr-defined]
    assert trees[1] > trees[0]
    first = [
        model._fitted()
        .model.predictor.files()["predictor.txt"]
        .split(b"\nTree=")[1]
        .split(b"leaf_value=")[1]
        .split(b"\n")[0]
        for model in (old, new)
    ]
    assert first[0] == first[1]


def test_users_that_trained_the_old_model_never_test_the_new_one() -> None:
    old = tiny().fit(earlier())
    new = Resus().fit(newer(), warm_start=old)
    before, after = old._fitted().users, new._fitted().users
    assert before is not None
    assert after is not None
    assert not set(after.test) & (set(before.train) | set(before.validation))
    assert set(before.train) <= set(after.train)
    news = old.news(newer())
    met = before.among(newer())
    assert (news.users, news.new_users, news.trained_users) == (newer().n_users, 20, int(met.train.sum()))
    assert news.new_users + news.tested_users + news.validated_users + news.trained_users == news.users
    assert (news.items, news.new_items) == (20, 5)
    assert news.new_values["tags"] == 1
    assert "5 of 20 items are new; new values: " in news.sentence()


def test_weights_that_no_epoch_improves_stay(log: InteractionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The history begins with how the old weights do, as epoch 0."""
    old = tiny(settings={"predictor.epochs": 4, "training.epochs": 4}).fit(log)
    falling = itertools.count(start=0.9, step=-0.1)
    monkeypatch.setattr(Validation, "auc_of_predictor", lambda *_: next(falling))
    new = Resus().fit(log, warm_start=old)
    assert [record.epoch for record in new.history if record.stage == "predictor"] == [0, 1, 2]
    state, before = (model._fitted().model.predictor.state_dict() for model in (new, old))
    assert all(torch.equal(state[name], before[name]) for name in before)


def test_old_values_that_the_new_log_lacks_keep_their_vectors_in_plus() -> None:
    old = tiny(**CONFIGURATIONS["learner plus"]).fit(newer())
    new = Resus().fit(earlier(), warm_start=old)
    block = newer().features.block("item")
    gone = [value for value in block.field.values if int(value) >= 15]
    ids = torch.tensor([block.first + block.field.vocabulary.places[value] for value in gone])
    tables = [FactorEncoder.of(model._fitted().model.encoder).embedding.table[ids] for model in (old, new)]
    assert torch.equal(*tables)
    assert bool((tables[0] != 0).any())


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"predictor.embedding_dim": 5}, "the weights of 'predictor.encoder.embedding.table' do not fit"),
        ({"learner.kind": "nearest"}, "learner.kind is nearest, and the run to start from has ridge"),
        ({"evaluation.max_size": 9}, "the weights of 'model.fusion.scale' do not fit"),
    ],
)
def test_settings_that_the_old_weights_do_not_fit_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Resus(settings=settings).fit(newer(), warm_start=tiny().fit(earlier()))


def test_a_log_of_known_users_alone_is_refused() -> None:
    old = tiny().fit(earlier())
    trained = old.config.user_split(earlier().n_users).train
    few = earlier_events().filter(
        earlier_events()["user"].cast(str).is_in([earlier().user_ids[int(u)].as_py() for u in trained])
    )
    with pytest.raises(ConfigError, match="trained on every user of the log 'mine', so none is left to test on"):
        Resus().fit(log_of(few), warm_start=old)


def test_a_finished_run_of_another_start_is_not_taken_over(tmp_path: Path) -> None:
    one, other = tiny().fit(earlier()), tiny(settings={"training.learning_rate": 0.1}).fit(earlier())
    same = {"training.learning_rate": 0.001}
    Resus(settings=same).fit(newer(), warm_start=one, folder=tmp_path)
    Resus(settings=same).fit(newer(), warm_start=one, folder=tmp_path, resume=True)
    with pytest.raises(ArtifactError, match="other settings or other data"):
        Resus(settings=same).fit(newer(), warm_start=other, folder=tmp_path, resume=True)
