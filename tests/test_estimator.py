"""The library: fit, evaluate, predict, save and load."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from planted_models import KEEP, SCHEMA, TINY, events, log_of, tiny

from resus import (
    ArtifactError,
    Config,
    ConfigError,
    DataError,
    InteractionLog,
    PlantedWorld,
    Resus,
    ResusWarning,
    TrainingError,
    build_log,
    load,
    planted_log,
)
from resus.data.fields.feature_map import FeatureMap
from resus.episodes.batch import Features
from resus.episodes.prefixes import OrderedUsers
from resus.training.recipes import RECIPES

OTHER_PARTS = ("bias", "taste", "choices", "context", "common", "scale", "trust", "sizes")  # than matches
JOINT: dict[str, Any] = {"settings": {"predictor.pretrain": False}}
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "RESUS-RR": {},
    "RESUS-NN": {"learner": "nearest"},
    "RESUS-NN of cosines": {"learner": "nearest", "settings": {"learner.similarity": "cosine"}},
    "MUS": {"learner": "nearest", "predictor": "none"},
    "RESUS+": {"learner": "plus"},
    "RESUS+ of trees": {"learner": "plus", "predictor": "lightgbm"},
    "RESUS+ of matches alone": {"learner": "plus", "settings": {f"learner.{part}": False for part in OTHER_PARTS}},
    "MUS+": {"learner": "plus", "predictor": "none"},
    "RESUS+ in the authors' release": {"protocol": "authors-release", "learner": "plus"},
    "joint training": JOINT,
    "lightgbm": {"predictor": "lightgbm"},
    "lr": {"predictor": "lr", "encoder": "lr"},
    "fm": {"predictor": "fm", "encoder": "fm", "learner": "nearest"},
    "wide-deep": {"predictor": "wide-deep", "encoder": "wide-deep"},
    "xdeepfm": {"predictor": "xdeepfm", "encoder": "xdeepfm", "learner": "nearest"},
    "observed sizes": {"settings": {"training.support_sizes": "observed"}},
    "one beta": {"settings": {"fusion.per_size": False}},
    "monotone beta": {"settings": {"fusion.monotone": True}},
    "the authors' release": {"protocol": "authors-release", "learner": "nearest"},
}
ANSWER = ["user", "probability", "basis", "residual", "support"]


@pytest.fixture(scope="module")
def table() -> pl.DataFrame:
    return events()


@pytest.fixture(scope="module")
def log(table: pl.DataFrame) -> InteractionLog:
    return log_of(table)


@pytest.fixture(scope="module")
def model(log: InteractionLog) -> Resus:
    return tiny().fit(log)


@pytest.fixture(scope="module")
def support(table: pl.DataFrame) -> pl.DataFrame:
    """The first events of a few users."""
    return table.filter((pl.col("user") < 8) & (pl.col("time") < pl.col("user")))


@pytest.fixture(scope="module")
def query(table: pl.DataFrame) -> pl.DataFrame:
    return table.filter((pl.col("user") < 8) & (pl.col("time") >= pl.col("user"))).drop("click", "time")


@pytest.mark.parametrize("options", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_every_kind_of_model_predicts_and_survives_a_round_trip(
    options: dict[str, Any], log: InteractionLog, support: pl.DataFrame, query: pl.DataFrame, tmp_path: Path
) -> None:
    model = tiny(**options).fit(log)
    results = model.evaluate(log)
    assert model.name in results.models
    answer = model.predict(support, query)
    assert answer["probability"].is_between(0, 1).all()
    assert (answer["residual"] != 0).any()
    model.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "artifact.json",
        "model.safetensors",
        "users.safetensors",
    ]
    again = load(tmp_path)
    again.save(tmp_path / "copy")
    for path in (tmp_path / "copy").iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes()
    assert again.config == model.config
    assert again.history == model.history
    assert again.predict(support, query).equals(answer)
    assert again.evaluate(log) == results


def test_a_run_is_repeated_bit_for_bit_and_another_seed_is_another_run(log: InteractionLog, model: Resus) -> None:
    assert tiny().fit(log).evaluate(log) == model.evaluate(log)
    other = tiny(seed=2).fit(log).evaluate(log)
    assert other.models["RESUS-RR"] != model.evaluate(log).models["RESUS-RR"]


@pytest.mark.parametrize("learner", ["ridge", "nearest", "plus"])
def test_predict_is_what_evaluation_scores(learner: str, table: pl.DataFrame, log: InteractionLog) -> None:
    """Given a test user's first k events, both ways to ask give the logits of the rest."""
    model = tiny(learner=learner).fit(log)
    trained = model._fitted()
    ordered = OrderedUsers.of(log, model.config.user_split(log.n_users).test, model.config.seed)
    basis = trained.model.predictor.logits_of_rows(log, ordered.rows)
    logits = trained.model.score_prefixes(log, ordered, model.config.evaluation.sizes, basis=basis)
    names = [str(log.user_ids[int(user)]) for user in ordered.users]
    rows = table.with_columns(pl.col("user").cast(pl.String)).sort("time", maintain_order=True)
    for size in (0, 1, 3, 6):
        answer = model.predict(
            rows.filter(pl.col("time") < size), rows.filter((pl.col("time") >= size) & pl.col("user").is_in(names))
        )
        places = np.repeat(np.arange(len(names)), ordered.lengths)
        for number, name in enumerate(names):
            wanted = logits[(places == number) & (ordered.positions >= size), size]
            own = answer.filter(pl.col("user") == name)
            np.testing.assert_allclose((own["basis"] + own["residual"]).to_numpy(), wanted, atol=1e-5)


def test_a_user_without_events_gets_exactly_the_predictors_answer(
    model: Resus, support: pl.DataFrame, query: pl.DataFrame
) -> None:
    new_users = query.with_columns(user=pl.col("user") + 1000)
    answer = model.predict(support, new_users)
    assert (answer["residual"] == 0).all()
    assert (answer["support"] == 0).all()
    assert answer["basis"].equals(model.predict(support, query)["basis"])
    np.testing.assert_allclose(
        answer["probability"].to_numpy(), 1 / (1 + np.exp(-answer["basis"].to_numpy())), rtol=1e-6
    )


def test_empty_supports_and_queries_are_fine(model: Resus, support: pl.DataFrame, query: pl.DataFrame) -> None:
    nobody = model.predict(support.clear(), query)
    assert (nobody["residual"] == 0).all()
    assert model.predict(support, query.clear()).columns == ANSWER
    assert model.predict(support.clear(), query.clear()).height == 0


def test_the_answer_counts_the_events_behind_it(model: Resus, support: pl.DataFrame, query: pl.DataFrame) -> None:
    answer = model.predict(support, query)
    assert answer.columns == ANSWER
    assert answer["user"].equals(query["user"])
    known = {user: support.filter(pl.col("user") == user).height for user in range(8)}
    assert answer["support"].to_list() == [known[user] for user in query["user"]]
    total = (answer["basis"] + answer["residual"]).to_numpy()
    np.testing.assert_allclose(answer["probability"].to_numpy(), 1 / (1 + np.exp(-total)), rtol=1e-5)


def test_the_order_of_rows_does_not_matter(model: Resus, support: pl.DataFrame, query: pl.DataFrame) -> None:
    answer = model.predict(support, query)
    shuffle = np.random.default_rng(0).permutation(query.height)
    again = model.predict(support.sample(fraction=1, shuffle=True, seed=1), query[shuffle])
    for column in ("probability", "basis", "residual"):
        np.testing.assert_allclose(again[column].to_numpy(), answer[column].to_numpy()[shuffle], atol=1e-6)
    assert again["support"].equals(answer["support"][shuffle])


def test_every_kind_of_table_gives_the_same_log_and_its_own_kind_of_answer(
    table: pl.DataFrame, log: InteractionLog, model: Resus, support: pl.DataFrame, query: pl.DataFrame
) -> None:
    answer = model.predict(support, query)
    arrays = {name: table[name].to_numpy() for name in table.columns}
    assert log_of(table.to_pandas()).content_hash == log.content_hash
    assert log_of(arrays).content_hash == log.content_hash
    assert log_of(table.to_arrow()).content_hash == log.content_hash

    asked = query.to_pandas()
    asked.index = pd.Index([f"row {number}" for number in range(len(asked))])
    as_pandas = model.predict(support.to_pandas(), asked)
    assert isinstance(as_pandas, pd.DataFrame)
    assert as_pandas.index.equals(asked.index)
    assert pl.from_pandas(as_pandas.reset_index(drop=True)).equals(answer)

    as_arrays = model.predict(support.to_arrow(), {name: query[name].to_numpy() for name in query.columns})
    assert isinstance(as_arrays, dict)
    assert all(isinstance(column, np.ndarray) for column in as_arrays.values())
    assert pl.DataFrame(as_arrays).equals(answer)

    as_arrow = model.predict(support, query.to_arrow())
    assert isinstance(as_arrow, pa.Table)
    assert pl.DataFrame(as_arrow).equals(answer)


def test_numbers_as_text_give_the_same_answer(model: Resus, support: pl.DataFrame, query: pl.DataFrame) -> None:
    as_text = model.predict(support.cast(pl.String), query.cast(pl.String))
    assert as_text.drop("user").equals(model.predict(support, query).drop("user"))


def test_unknown_values_are_answered(model: Resus, support: pl.DataFrame, query: pl.DataFrame) -> None:
    unseen = query.with_columns(item=pl.lit(999), category=pl.lit("new"), tags=pl.lit("x|y"), price=pl.lit(None))
    told = rf"^the query: {query.height} of {query.height} values of '(item|category|tags)' are unknown to the model$"
    with pytest.warns(ResusWarning, match=told) as warned:
        answer = model.predict(support, unseen)
    assert len(warned) == 3, "one for each field; a missing number is not unknown"
    assert answer["probability"].is_finite().all()
    assert answer["probability"].is_between(0, 1).all()


@pytest.mark.parametrize("column", ["user", "item", "price", "tags", "click"])
def test_a_missing_column_is_named(model: Resus, support: pl.DataFrame, query: pl.DataFrame, column: str) -> None:
    if column in query:
        with pytest.raises(DataError, match=f"the query has no column '{column}'"):
            model.predict(support, query.drop(column))
    with pytest.raises(DataError, match=f"the support has no column '{column}'"):
        model.predict(support.drop(column), query)


@pytest.mark.parametrize("label", [2, -1, 0.5, None, float("nan"), "yes"])
def test_a_label_that_is_neither_0_nor_1_is_named(
    model: Resus, support: pl.DataFrame, query: pl.DataFrame, label: Any
) -> None:
    labels = [1, 0, label, *[1] * (support.height - 3)]
    dtype = pl.String if isinstance(label, str) else pl.Float64
    wrong = support.with_columns(click=pl.Series([str(v) if dtype == pl.String else v for v in labels], dtype=dtype))
    with pytest.raises(DataError, match="the support, column 'click', row 3"):
        model.predict(wrong, query)


def test_the_label_rule_of_the_log_holds_for_the_support(
    table: pl.DataFrame, model: Resus, support: pl.DataFrame, query: pl.DataFrame
) -> None:
    rated = pl.col("click") * 2 + 2.5
    schema = SCHEMA.model_copy(update={"label_threshold": 3.0})
    other = tiny().fit(build_log(table.with_columns(click=rated), schema, KEEP, name="mine"))
    assert other.predict(support.with_columns(click=rated), query).equals(model.predict(support, query))
    with pytest.raises(DataError, match="column 'click', row 1: nan is not a number"):
        other.predict(support.with_columns(click=float("nan")), query)


@pytest.mark.parametrize("side", ["support", "query"])
@pytest.mark.parametrize("nobody", [None, ""])
def test_an_empty_user_is_named(
    model: Resus, support: pl.DataFrame, query: pl.DataFrame, side: str, nobody: str | None
) -> None:
    tables = {"support": support, "query": query}
    users = tables[side]["user"].cast(pl.String).to_list()
    tables[side] = tables[side].with_columns(user=pl.Series([users[0], nobody, *users[2:]]))
    with pytest.raises(DataError, match=f"the {side}, column 'user', row 2: the user is empty"):
        model.predict(tables["support"], tables["query"])


def test_an_object_that_is_not_a_table_is_named(model: Resus, query: pl.DataFrame) -> None:
    with pytest.raises(DataError, match="the support is a list"):
        model.predict([1, 2], query)  # type: ignore[call-overload]


def test_a_model_that_is_not_fitted_says_so(query: pl.DataFrame, log: InteractionLog, tmp_path: Path) -> None:
    for use in (lambda: tiny().predict(query, query), lambda: tiny().evaluate(log), lambda: tiny().save(tmp_path)):
        with pytest.raises(ArtifactError, match="not fitted yet"):
            use()


def hidden_units(model: Resus) -> Any:
    return model.config.predictor.model_dump()["hidden_units"]


def test_defaults_of_a_data_set_hold_with_and_without_other_settings() -> None:
    log = planted_log(PlantedWorld(users=30, items=10, events_per_user=8))
    epochs = {"predictor.epochs": 1, "training.epochs": 1}
    bare, chosen = Resus(), Resus(settings=epochs)
    bare.fit(log)
    chosen.fit(log)
    assert hidden_units(bare) == hidden_units(chosen) == (64, 64)
    as_given = Resus.from_config(Config.model_validate({"predictor": {"epochs": 1}, "training": {"epochs": 1}}))
    assert hidden_units(as_given.fit(log)) == (400, 400, 400)


def test_models_of_other_seeds_or_splits_of_one_log_are_not_compared(model: Resus, log: InteractionLog) -> None:
    with pytest.raises(ConfigError, match="has seed 2, RESUS-RR has 1"):
        model.evaluate(log, against={"other": tiny(seed=2).fit(log)})
    with pytest.raises(ConfigError, match="split"):
        model.evaluate(log, against={"other": tiny(settings={"split.ratios": [6, 2, 2]}).fit(log)})
    with pytest.raises(ConfigError, match="evaluation"):
        model.evaluate(log, against={"other": tiny(settings={"evaluation.max_size": 9}).fit(log)})


def test_models_are_compared_on_the_same_queries_and_share_a_predictor(model: Resus, log: InteractionLog) -> None:
    nearest = tiny(learner="nearest").fit(log, predictor_from=model)
    boosted = tiny(predictor="lightgbm").fit(log)
    joint = tiny(**JOINT).fit(log)
    results = model.evaluate(log, against={"RESUS-NN": nearest, "on trees": boosted, "joint": joint})
    assert list(results.models) == [
        "DeepFM",
        "RESUS-RR",
        "RESUS-NN",
        "LightGBM",
        "on trees",
        "joint",
    ]
    assert results.base == Resus.compare({"joint": joint, "RESUS-RR": model}, log).base == "DeepFM"
    assert joint.evaluate(log).base == "RESUS-RR (w/o pretrain)"
    assert results.models["DeepFM"].stages["I"].rela_impr in (0.0, None)
    alone = model.evaluate(log)
    assert results.models["RESUS-RR"] == alone.models["RESUS-RR"]
    populations = {
        name: [(size.users, size.queries) for size in found.sizes.values()] for name, found in results.models.items()
    }
    assert all(population == populations["DeepFM"] for population in populations.values())
    at_zero = [results.models[name].sizes[0].model_dump(exclude={"rela_impr"}) for name in ("DeepFM", "RESUS-NN")]
    assert at_zero[0] == at_zero[1]


def test_a_name_that_is_already_taken_is_refused(model: Resus, log: InteractionLog) -> None:
    for name in ("RESUS-RR", "DeepFM", "oracle"):
        with pytest.raises(ConfigError, match=f"'{name}'"):
            model.evaluate(log, against={name: model})


def test_gains_use_the_base_and_the_number_of_draws(model: Resus, log: InteractionLog) -> None:
    tasks: dict[str, tuple[int, int | None]] = {}

    def tell(task: str, done: int, total: int | None, unit: str = "") -> None:
        tasks[task + unit] = done, total

    results = model.evaluate(log, draws=50, progress=tell)
    assert results.gains is not None
    assert results.gains.draws == 50
    assert list(results.gains.models) == [name for name in results.models if name != "DeepFM"]
    counted = len({k for members in results.stages.values() for k in members}) * len(results.models)
    assert tasks["gains over DeepFM: 50 draws of users"] == (counted, counted)
    for stage, gains in results.gains.models["RESUS-RR"].items():
        ours, base = (results.models[name].stages[stage].auc for name in ("RESUS-RR", "DeepFM"))
        assert ours is not None
        assert base is not None
        assert gains.auc.difference == pytest.approx(ours - base, abs=1e-12)
    without = model.evaluate(log, draws=0)
    assert without == results.model_copy(update={"gains": None})


def test_a_predictor_from_another_run_is_used_unchanged(model: Resus, log: InteractionLog) -> None:
    before = {name: tensor.clone() for name, tensor in model._fitted().model.predictor.state_dict().items()}
    taken = tiny().fit(log, predictor_from=model)
    after = taken._fitted().model.predictor.state_dict()
    assert all(before[name].equal(after[name]) for name in before)
    assert [line.stage for line in taken.history] == ["residuals", "residuals"]


def test_a_predictor_from_another_run_brings_its_settings(log: InteractionLog) -> None:
    source = tiny(settings={"predictor.learning_rate": 0.002}).fit(log)
    assert tiny(learner="nearest").fit(log, predictor_from=source).config.predictor == source.config.predictor


def test_a_predictor_that_does_not_fit_is_refused(model: Resus, log: InteractionLog) -> None:
    with pytest.raises(ConfigError, match=r"other settings \(predictor\.embedding_dim is \d+ there and 5 here\)"):
        tiny(settings={"predictor.embedding_dim": 5}).fit(log, predictor_from=model)
    with pytest.raises(ConfigError, match="seed"):
        tiny(seed=5).fit(log, predictor_from=model)
    joint = tiny(**JOINT).fit(log)
    with pytest.raises(ConfigError, match=r"predictor\.pretrain=false"):
        tiny(**JOINT).fit(log, predictor_from=joint)


def test_a_finished_run_is_neither_repeated_nor_overwritten(log: InteractionLog, tmp_path: Path) -> None:
    model = tiny().fit(log, folder=tmp_path / "run")
    files = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    assert sorted(files) == ["artifact.json", "metrics.jsonl", "model.safetensors", "users.safetensors"]
    with pytest.raises(ArtifactError, match="finished run"):
        tiny().fit(log, folder=tmp_path / "run")
    with pytest.raises(ArtifactError, match="finished run with other settings"):
        tiny(seed=2).fit(log, folder=tmp_path / "run", resume=True)
    again = tiny().fit(log, folder=tmp_path / "run", resume=True)
    assert again.evaluate(log) == model.evaluate(log)
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == files


class StoppedError(Exception):
    """The run was stopped."""


@pytest.mark.parametrize(
    ("options", "stop_at"),
    [({}, "predictor"), ({"predictor": "lightgbm"}, "residuals, epoch 2"), (JOINT, "residuals, epoch 1")],
)
def test_a_stopped_run_resumes_to_the_same_model(
    options: dict[str, Any], stop_at: str, log: InteractionLog, tmp_path: Path
) -> None:
    def stop(task: str, done: int, total: int | None, unit: str = "") -> None:
        if task.startswith(stop_at):
            raise StoppedError

    fresh = tiny(**options).fit(log)
    with pytest.raises(StoppedError):
        tiny(**options).fit(log, folder=tmp_path, progress=stop)
    with pytest.raises(ArtifactError, match="resume=True"):
        tiny(**options).fit(log, folder=tmp_path)
    with pytest.raises(ArtifactError, match="other settings"):
        tiny(**options, seed=9).fit(log, folder=tmp_path, resume=True)
    with pytest.raises(
        ArtifactError, match="finish it: call fit with the same data, settings and folder, and resume=True"
    ):
        load(tmp_path)
    resumed = tiny(**options).fit(log, folder=tmp_path, resume=True)
    assert resumed.evaluate(log) == fresh.evaluate(log)
    assert resumed.history == fresh.history


@pytest.mark.parametrize(
    ("table", "hint"),
    [
        (events().filter(pl.col("user") < 2), "no user of 2 is left"),
        (events().filter(pl.col("time") < 1), "no training user has two events"),
        (events().with_columns(click=pl.col("time") > 0), "validation users do not have both labels"),
    ],
    ids=["too few users", "one event each", "one label in all queries"],
)
def test_data_that_cannot_be_learned_from_leaves_no_folder(table: pl.DataFrame, hint: str, tmp_path: Path) -> None:
    with pytest.raises((DataError, TrainingError), match=hint):
        tiny().fit(log_of(table), folder=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_model_knows_the_path_of_its_log(log: InteractionLog, model: Resus, tmp_path: Path) -> None:
    log.save(tmp_path / "log")
    from_disk = tiny().fit(str(tmp_path / "log"))
    assert from_disk.log_path == (tmp_path / "log").resolve()
    assert from_disk.evaluate(log) == model.evaluate(log)
    with pytest.raises(ArtifactError, match="log="):
        _ = model.log_path


def test_a_log_never_replaces_other_files(log: InteractionLog, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ConfigError, match=r"thesis\.tex"):
        log.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_table_needs_a_schema(model: Resus, log: InteractionLog) -> None:
    schema = model.schema
    by_table = tiny().fit(events().to_pandas(), schema=schema.model_dump())
    assert by_table.evaluate(log).models["RESUS-RR"] == model.evaluate(log).models["RESUS-RR"]
    assert by_table.evaluate(events()).models == model.evaluate(log).models
    with pytest.raises(DataError, match="without a schema: pass schema="):
        tiny().fit(events())
    with pytest.raises(ConfigError, match="unknown key 'usr', did you mean 'user'"):
        tiny().fit(events(), schema={**schema.model_dump(), "usr": "user"})


def test_training_that_diverges_says_what_to_do(log: InteractionLog) -> None:
    for learner in ("ridge", "nearest"):
        with pytest.raises(TrainingError, match="numbers are not finite any more; lower the learning rate"):
            tiny(learner=learner, settings={"training.learning_rate": 1e30, "training.epochs": 3}).fit(log)


@pytest.mark.parametrize("error", [np.linalg.LinAlgError("not positive"), torch.linalg.LinAlgError("singular")])  # type: ignore[attr-defined]
def test_equations_without_a_solution_are_one_sentence(
    log: InteractionLog, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setitem(RECIPES, "paper", fail)
    with pytest.raises(
        TrainingError, match=rf"^training cannot solve its equations \({error}\); lower the learning rate"
    ):
        tiny().fit(log)


def test_unknown_values_are_counted(model: Resus) -> None:
    rows = events().head(4).with_columns(item=pl.Series([999, 0, 998, 1]), category=pl.lit("new"))
    assert model.unknown_values(rows) == {"item": 2, "category": 4}
    tags = pl.Series([None, "", "new|old", "evening|new"])
    assert model.unknown_values(rows.with_columns(item=1, category=None, tags=tags)) == {"tags": 2}
    assert model.unknown_values(events()) == {}


def test_repr_of_models_and_logs(model: Resus, log: InteractionLog) -> None:
    assert repr(model) == "<Resus RESUS-RR on DeepFM, fitted>"
    assert repr(log) == f"<InteractionLog 'mine': {log.n_rows:,} events of {log.n_users:,} users>"


@pytest.mark.parametrize("learner", ["nearest", "plus"])
def test_taking_the_predictor_of_an_equal_run_changes_nothing(learner: str, log: InteractionLog) -> None:
    fast = {"predictor.learning_rate": 0.05, "predictor.epochs": 6}
    model = tiny(settings=fast).fit(log)
    epochs = [record.validation_auc for record in model.history if record.stage == "predictor"]
    assert max(epochs) != epochs[-1], "early stopping must matter for this test"
    taken = tiny(learner=learner, settings=fast).fit(log, predictor_from=model)
    assert "predictor" not in {line.stage for line in taken.history}
    assert taken.evaluate(log) == tiny(learner=learner, settings=fast).fit(log).evaluate(log)


class Bag(torch.nn.Module):
    """The user's own encoder: the sum of the field vectors."""

    def __init__(self, features: FeatureMap) -> None:
        super().__init__()
        self.width = 5
        self.table = torch.nn.Embedding(features.n_ids, self.width)

    def forward(self, features: Features) -> torch.Tensor:
        vectors: torch.Tensor = self.table(features.ids)
        return vectors.sum(dim=1)


class Nameless(Bag):
    def __init__(self, features: FeatureMap) -> None:
        super().__init__(features)
        del self.width


def test_an_encoder_of_ones_own_is_fitted_saved_and_handed_over_again(
    log: InteractionLog, support: pl.DataFrame, query: pl.DataFrame, tmp_path: Path
) -> None:
    networks = {key: value for key, value in TINY.items() if not key.startswith("encoder.")}
    model = Resus(encoder=Bag, settings=networks).fit(log, folder=tmp_path / "run")
    assert isinstance(model._fitted().model.encoder, Bag)
    expected = model.predict(support, query)
    assert model.evaluate(log, draws=0).models.keys() >= {"RESUS-RR"}
    again = Resus.load(tmp_path / "run", encoder=Bag)
    assert again.predict(support, query).equals(expected)
    resumed = Resus(encoder=Bag, settings=networks).fit(log, folder=tmp_path / "run", resume=True)
    assert resumed.predict(support, query).equals(expected)
    with pytest.raises(ConfigError, match=r"the encoder 'Bag' .* resus.load\(folder, encoder=...\)"):
        Resus.load(tmp_path / "run")
    with pytest.raises(ConfigError, match="is 'Bag', not 'Nameless'"):
        Resus.load(tmp_path / "run", encoder=Nameless)


def test_an_encoder_of_ones_own_is_refused_where_it_does_not_fit(
    model: Resus, log: InteractionLog, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"or choose learner\.kind=ridge or nearest"):
        Resus(encoder=Bag)
    with pytest.raises(ConfigError, match="'Nameless' has no 'width'"):
        Resus(encoder=Nameless, learner="ridge").fit(log)
    model.save(tmp_path)
    with pytest.raises(ConfigError, match="DeepFM"):
        Resus.load(tmp_path, encoder=Bag)
