"""The catalogue, titles and test users of a log, against the log itself."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from planted_models import KEEP, events, log_of

from resus import TableSchema, build_log
from resus.checked_folder import FACTS, CheckedFolder, write_facts
from resus.data.datasets.planted import PlantedWorld, planted_log
from resus.data.fields.categorical import CategoricalField
from resus.data.fields.feature_map import FeatureMap
from resus.data.fields.numeric import NumericField
from resus.data.log.log import InteractionLog
from resus.data.split import UserSplit, split_users
from resus.episodes.batch import features_of
from resus.errors import ArtifactError, DataError
from resus.model.inference.parts import Rows
from resus.serving import histories
from resus.serving.catalogue import CATALOGUE, MAX_CHOICES, Catalogue
from resus.serving.export import read_titles
from resus.serving.histories import TEST_USERS, histories_of, read_histories, write_histories

WORLD = PlantedWorld(users=60, items=25, events_per_user=12, seed=5)


@cache
def log(kind: str) -> InteractionLog:
    """Only categories; or also numbers and lists, with two context fields that are not categories."""
    if kind == "planted":
        return planted_log(WORLD)
    table = events().with_columns(hour=pl.col("time") * 0.1 + 1000, moods=pl.col("tags"), price=pl.col("price"))
    fields = {"price": "numeric", "category": "categorical", "hour": "numeric", "moods": "multi"}
    schema = {"user": "user", "item": "item", "label": "click", "fields": fields}
    return build_log(table, TableSchema.model_validate(schema), KEEP)


@cache
def split(kind: str) -> UserSplit:
    return split_users(log(kind).n_users, ratios=(7, 2, 1), order="random", seed=1)


@cache
def catalogue(kind: str) -> Catalogue:
    return Catalogue.of(log(kind), split(kind))


def raw(kind: str, row: int) -> dict[str, Any]:
    of = log(kind)
    return of.features.decode(of.ids[row], None if of.weights is None else of.weights[row])


def read(kind: str, rows: Sequence[dict[str, Any]]) -> Rows:
    return Rows(*log(kind).features.encode_rows(rows))


def filled(kind: str, *rows: dict[str, Any]) -> Rows:
    return catalogue(kind).fill(rows, read(kind, rows), "item")


def opened(folder: Path) -> CheckedFolder:
    """A folder with the facts of a model, which list its files."""
    write_facts(folder, {"resus": "test"}, [path.name for path in folder.iterdir() if path.name != FACTS])
    return CheckedFolder.open(folder)


both = pytest.mark.parametrize("kind", ["planted", "mixed"])


@pytest.mark.parametrize(
    ("kind", "own", "context"),
    [
        ("planted", {"item", "category", "brand"}, {"age", "gender", "daypart", "device"}),
        ("mixed", {"item", "price", "category"}, {"hour", "moods"}),
    ],
)
def test_the_fields_that_describe_an_item_are_found(kind: str, own: set[str], context: set[str]) -> None:
    assert set(catalogue(kind).fields) == own
    assert catalogue(kind).context.keys() == context


@both
@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_an_item_with_its_context_is_the_row_of_the_log(kind: str, data: st.DataObject) -> None:
    row = data.draw(st.integers(0, log(kind).n_rows - 1))
    values = raw(kind, row)
    context = {name: values[name] for name in catalogue(kind).context}
    made = filled(kind, {"item": values["item"], **context})
    expected = features_of(log(kind), np.array([row]))
    assert np.array_equal(made.ids, expected.ids)
    if expected.weights is None:
        assert made.weights is None
    else:
        assert made.weights is not None
        assert np.array_equal(made.weights, expected.weights)


@both
def test_many_items_are_read_as_one_by_one(kind: str) -> None:
    context = {name: values[-1] for name, values in catalogue(kind).context.items()}
    rows = [{"item": item, **context} for item in (*catalogue(kind).items[::-1], "new", catalogue(kind).items[3], "")]
    made = filled(kind, *rows)
    ones = [filled(kind, row) for row in rows]
    assert np.array_equal(made.ids, np.concatenate([one.ids for one in ones]))
    unknown = read(kind, [context])
    assert np.array_equal(made.ids[[-3, -1]], unknown.ids.repeat(2, axis=0))
    if made.weights is not None and unknown.weights is not None:
        assert np.array_equal(made.weights[[-3, -1]], unknown.weights.repeat(2, axis=0))


@both
@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_the_catalogue_fills_in_only_missing_values(kind: str, data: st.DataObject) -> None:
    one, other = (raw(kind, data.draw(st.integers(0, log(kind).n_rows - 1))) for _ in range(2))
    sent = data.draw(st.sets(st.sampled_from(sorted(one))))
    nulls = data.draw(st.sets(st.sampled_from(sorted(one))))
    row = dict.fromkeys(nulls) | {name: other[name] for name in sent} | {"item": one["item"]}
    own = {name: one[name] for name in catalogue(kind).fields}
    whole = own | {name: value for name, value in row.items() if value is not None}
    expected = read(kind, [whole, {**row, "item": "new"}])
    made = filled(kind, row, {**row, "item": "new"})
    for mine, theirs in zip(made, expected, strict=True):
        assert mine is theirs or (mine is not None and theirs is not None and np.array_equal(mine, theirs))


@both
def test_counts_and_means_are_those_of_training_users(kind: str) -> None:
    rows = [int(row) for row in log(kind).rows_of(split(kind).train)]
    met: dict[str, list[float]] = {item: [] for item in catalogue(kind).items}
    for row in rows:
        met[raw(kind, row)["item"]].append(float(log(kind).labels[row]))
    assert catalogue(kind).counts == tuple(len(labels) for labels in met.values())
    expected = [np.mean(labels) if labels else None for labels in met.values()]
    assert list(catalogue(kind).means) == pytest.approx(expected)


def test_an_item_has_its_most_frequent_value() -> None:
    table = events().with_columns(
        category=pl.when(pl.int_range(pl.len()) % 15 == 0).then(99).otherwise(pl.col("category"))
    )
    noisy = log_of(table)
    made = Catalogue.of(noisy, split_users(noisy.n_users, ratios=(7, 2, 1), order="random", seed=1))
    assert "category" in made.fields
    for item in made.items:
        most = table.filter(pl.col("item") == int(item))["category"].mode().cast(pl.String).to_list()
        place = noisy.features.fields.index(next(f for f in noisy.features.fields if f.name == "category"))
        column = sum(noisy.features.column_counts[:place])
        number = int(made.ids[made.places[item], column]) - noisy.features.first_ids[place]
        assert noisy.features.fields[place].values[number - 1] in most


def test_choices_are_the_most_frequent_values_first() -> None:
    choices = catalogue("mixed").context
    hours = events().select(hour=pl.col("time") * 0.1 + 1000)["hour"].round(6)
    counts = dict(hours.value_counts().iter_rows())
    times = [counts[round(float(value), 6)] for value in choices["hour"]]
    assert times == sorted(counts.values(), reverse=True)[:MAX_CHOICES]
    assert choices["moods"] == next(f for f in log("mixed").features.fields if f.name == "moods").values


@settings(deadline=None)
@given(st.integers(-1000, 1000), st.sampled_from([0.0, 1919.0, -3.5]), st.sampled_from([1.0, 56.0, 81.0, 0.3]))
@example(tenths=35, center=-3.5, scale=81.0)
def test_a_number_comes_back_as_it_was_written(tenths: int, center: float, scale: float) -> None:
    field = NumericField("n", center=center, scale=scale)
    written = center + tenths / 10
    ids, weights = field.encode_values([written])
    assert weights is not None
    number = field.decode(ids[0], weights[0])
    assert number is not None
    assert number == pytest.approx(written, abs=1e-3)
    assert len(str(number)) <= len(repr(written))


@both
def test_a_catalogue_comes_back_from_its_file(kind: str, tmp_path: Path) -> None:
    made = catalogue(kind).with_titles({"7": "Seven", "8": "Acht: «ü»"})
    made.save(tmp_path)
    read = Catalogue.load(opened(tmp_path), log(kind).features)
    for name in ("items", "titles", "counts", "means", "fields", "context"):
        assert getattr(read, name) == getattr(made, name)
    for name in ("field_of", "ids", "weights") if log(kind).weights is not None else ("field_of", "ids"):
        assert np.array_equal(getattr(read, name), getattr(made, name))


@pytest.mark.parametrize("keep", [0, 8, 500, -20])
def test_a_damaged_catalogue_is_refused(tmp_path: Path, keep: int) -> None:
    catalogue("planted").save(tmp_path)
    path = tmp_path / CATALOGUE
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ArtifactError, match="make it again with 'resus export'"):
        Catalogue.load(opened(tmp_path), log("planted").features)


def test_a_catalogue_that_would_unpack_to_many_times_its_size_is_refused(tmp_path: Path) -> None:
    item = pa.table({"item": pa.array(["x" * (1 << 26)])})
    with pa.ipc.new_file(tmp_path / CATALOGUE, item.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as file:
        file.write_table(item)
    del item
    assert (tmp_path / CATALOGUE).stat().st_size < 10_000
    before = pa.default_memory_pool().bytes_allocated()
    with pytest.raises(ArtifactError, match="it is compressed"):
        Catalogue.load(opened(tmp_path), log("planted").features)
    assert pa.default_memory_pool().bytes_allocated() <= before


def changed(made: Catalogue, what: str) -> Catalogue:
    ids, fields = made.ids.copy(), made.fields
    if what == "an id beyond the model":
        ids[3, 1] = 10_000
    if what == "a negative id":
        ids[3, 1] = -1
    if what == "an id of another field":
        ids[3, 0] = ids[3, 1]
    if what == "one column less":
        return replace(made, ids=ids[:, 1:], field_of=made.field_of[1:])
    if what == "another field":
        fields = (*fields[:-1], "colour")
    if what == "a column of no field":
        return replace(made, field_of=made.field_of + 7)
    if what == "weights":
        return replace(made, weights=np.ones(ids.shape, dtype=np.float32))
    return replace(made, ids=ids, fields=fields)


@pytest.mark.parametrize(
    "what",
    [
        "an id beyond the model",
        "a negative id",
        "an id of another field",
        "one column less",
        "another field",
        "a column of no field",
        "weights",
    ],
)
def test_a_catalogue_that_does_not_fit_the_model_is_refused(tmp_path: Path, what: str) -> None:
    changed(catalogue("planted"), what).save(tmp_path)
    with pytest.raises(ArtifactError, match="make it again with 'resus export'"):
        Catalogue.load(opened(tmp_path), log("planted").features)


def test_a_log_without_items_is_refused() -> None:
    features = FeatureMap((CategoricalField("day", ("m",)),))
    of = log("planted")
    ids = np.zeros((of.n_rows, 1), dtype=np.int32)
    without = InteractionLog(features, ids, None, of.labels, of.offsets, of.user_ids, ordered=True)
    with pytest.raises(DataError, match="has no item field"):
        Catalogue.of(without, split("planted"))


def test_search_finds_ids_and_titles_the_most_frequent_first() -> None:
    titled = catalogue("planted").with_titles({"7": "The Seventh", "21": "seven more", "3": "Three"})
    found = titled.search("SEVEN", 10)
    assert {titled.items[place] for place in found} == {"7", "21"}
    counts = [titled.counts[place] for place in titled.search("", 8)]
    assert counts == sorted(titled.counts, reverse=True)[:8]
    assert titled.search("no such", 5) == []


@both
def test_histories_are_those_of_test_users_in_the_log(kind: str, tmp_path: Path) -> None:
    found = histories_of(log(kind), split(kind).test, catalogue(kind), seed=1)
    write_histories(tmp_path, found)
    assert list(read_histories(opened(tmp_path))) == found
    for history, user in zip(found, split(kind).test, strict=True):
        rows = log(kind).rows_of(np.array([user]))
        expected = features_of(log(kind), rows).ids.tolist()
        made = filled(kind, *({"item": event.item, **event.context} for event in history.events)).ids.tolist()
        labels = [event.label for event in history.events]
        told, meant = list(zip(made, labels, strict=True)), list(zip(expected, log(kind).labels[rows], strict=True))
        assert told == meant if log(kind).ordered else sorted(told) == sorted(meant)


def test_histories_are_limited_in_number_and_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histories, "MAX_HISTORIES", 3)
    monkeypatch.setattr(histories, "MAX_HISTORY_EVENTS", 2)
    found = histories_of(log("planted"), split("planted").test, catalogue("planted"), seed=1)
    assert [len(history.events) for history in found] == [2, 2, 2]


def test_a_file_that_holds_no_histories_is_refused(tmp_path: Path) -> None:
    (tmp_path / TEST_USERS).write_text("[]")
    with pytest.raises(ArtifactError, match="not a file of test users"):
        read_histories(opened(tmp_path))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("titles.csv", 'item,title\n1,"One, or two"\n2,Zwei\n1,again\n3,\n'),
        ("titles.csv", 'movie,what\n1,"One, or two"\n2,Zwei\n'),
        ("titles.tsv", "item\ttitle\n1\tOne, or two\n2\tZwei\n"),
        ("meta.csv", 'item\tpackage\tname\tprice\n1\ta.b\tOne, or two\tFree\n2\tc "d\tZwei\tFree\n'),
        ("movies.dat", "1::One, or two::A|B\n2::Zwei::C\n"),
    ],
)
def test_titles_are_read_from_each_kind_of_file(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    assert read_titles(tmp_path / name) == {"1": "One, or two", "2": "Zwei"}


@pytest.mark.parametrize(
    ("content", "what"),
    [("item,a,b\n1,2,3\n", "no column 'title' among item, a, b"), ("", "empty"), ("item,title\n1\n", "1 field")],
)
def test_a_file_without_titles_is_refused(content: str, what: str, tmp_path: Path) -> None:
    (tmp_path / "titles.csv").write_text(content)
    with pytest.raises(DataError, match=what):
        read_titles(tmp_path / "titles.csv")
