"""A log on disk is the log in memory, mapped; anything else in its place is named."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resus.data.datasets.planted import PlantedWorld, planted_log
from resus.data.fields.categorical import CategoricalField
from resus.data.fields.feature_map import FeatureMap
from resus.data.given import build_log
from resus.data.log.log import FEATURES, MANIFEST, USERS, InteractionLog
from resus.data.log.manifest import Manifest
from resus.data.schema import TableSchema
from resus.errors import ArtifactError, DataError

FEATURE_MAP = FeatureMap((CategoricalField("item", ("a",)),), item="item")
PARTS = ("ids", "weights", "labels", "offsets", "truth", "crowd")


def weighted_log(ordered: bool = True) -> InteractionLog:
    table = {
        "user": ["b", "a", "b", "ä", "ä", "a"],
        "item": [1, 2, 3, 1, 2, 3],
        "price": [0.5, 1.5, 2.5, 3.5, 4.5, 5.5],
        "tags": ["x|y", "x", "", "z", "y|z|x", "x"],
        "time": [3, 1, 2, 1, 2, 2],
        "click": [1, 0, 1, 0, 1, 1],
    }
    schema = {"user": "user", "item": "item", "label": "click", "fields": {"price": "numeric", "tags": "multi"}}
    return build_log(table, TableSchema.model_validate(schema | ({"time": "time"} if ordered else {})))


LOGS: dict[str, Callable[[], InteractionLog]] = {
    "planted": lambda: planted_log(PlantedWorld(users=15, items=5, events_per_user=4)),
    "weighted": weighted_log,
    "unordered": lambda: weighted_log(ordered=False),
}


@pytest.fixture(params=LOGS)
def log(request: pytest.FixtureRequest) -> InteractionLog:
    return LOGS[request.param]()


def test_a_saved_log_opens_as_it_was(log: InteractionLog, tmp_path: Path) -> None:
    saved = log.save(tmp_path / "log", protocol="paper")
    opened = InteractionLog.open(tmp_path / "log")
    for other in (saved, opened):
        for part in PARTS:
            before, after = getattr(log, part), getattr(other, part)
            assert (before is None) == (after is None), part
            assert before is None or (np.array_equal(before, after) and before.dtype == after.dtype), part
        assert other.user_ids.to_pylist() == log.user_ids.to_pylist()
        assert other.features == log.features
        assert (other.ordered, other.name, other.content_hash) == (log.ordered, log.name, log.content_hash)
        assert other.manifest.protocol == "paper"
        assert other.manifest.counts is not None
        assert other.manifest.counts.positives == int(log.labels.sum())


def test_an_open_log_is_mapped_and_not_to_be_written(log: InteractionLog, tmp_path: Path) -> None:
    log.save(tmp_path / "log")
    before = pa.total_allocated_bytes()
    opened = InteractionLog.open(tmp_path / "log")
    assert pa.total_allocated_bytes() == before
    with pytest.raises(ValueError, match="read-only"):
        opened.ids[0, 0] = 1


def test_a_log_can_be_saved_over_the_folder_it_is_read_from(log: InteractionLog, tmp_path: Path) -> None:
    opened = log.save(tmp_path / "log")
    again = opened.save(str(tmp_path / "log"), source="second")
    assert np.array_equal(again.ids, log.ids)
    assert again.manifest.source == "second"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log"]


def test_the_hash_tells_apart_what_a_model_can_see(log: InteractionLog) -> None:
    flipped = log.labels.copy()
    flipped[0] = 1 - flipped[0]
    assert replace(log, labels=flipped).content_hash != log.content_hash
    assert replace(log, ordered=not log.ordered).content_hash != log.content_hash
    assert replace(log, manifest=Manifest(name="renamed")).content_hash == log.content_hash


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_rows_of_users_come_user_by_user(data: st.DataObject) -> None:
    lengths = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=8))
    users = data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=8))
    offsets = np.cumsum([0, *lengths])
    whole = log_with(offsets)
    expected = [row for user in users for row in range(offsets[user], offsets[user + 1])]
    assert whole.rows_of(np.array(users, dtype=np.int64)).tolist() == expected


def log_with(offsets: np.ndarray[tuple[int], np.dtype[np.int64]]) -> InteractionLog:
    rows = int(offsets[-1])
    ids = np.zeros((rows, 1), dtype=np.int32)
    users = pa.array([str(user) for user in range(len(offsets) - 1)])
    return InteractionLog(FEATURE_MAP, ids, None, np.zeros(rows, np.float32), offsets, users, ordered=True)


def test_a_log_without_events_is_refused() -> None:
    with pytest.raises(DataError, match="the log has no event"):
        log_with(np.array([0]))


@pytest.mark.parametrize("offsets", [[0, 2, 2, 4], [1, 2, 4], [0, 3, 2, 4]])
def test_offsets_that_are_no_partition_are_refused(offsets: list[int]) -> None:
    with pytest.raises(AssertionError):
        log_with(np.array(offsets))


def test_a_folder_that_is_no_log_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(ArtifactError, match=r"is not a prepared log \(no manifest.json\): make one with"):
            InteractionLog.open(folder)
    (tmp_path / MANIFEST).write_text("[]")
    with pytest.raises(ArtifactError, match="does not have the format"):
        InteractionLog.open(tmp_path)


def cut_short(part: Path, kept: float) -> None:
    whole = part.read_bytes()
    part.write_bytes(whole[: int(kept * len(whole))])


def put_foreign(part: Path) -> None:
    """An Arrow file with columns of the same names."""
    table = pa.table({"ids": [1, 2], "label": ["a", "b"], "user": ["u", "v"]})
    with pa.OSFile(str(part), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def put_other(part: Path) -> None:
    """The same part of another log."""
    planted_log(PlantedWorld(users=16, items=6, events_per_user=4)).save(part.parents[1] / "other")
    (part.parents[1] / "other" / part.name).replace(part)


DAMAGES: list[Callable[[Path], object]] = [
    *(partial(cut_short, kept=kept) for kept in (0.0, 0.1, 0.5, 0.9, 0.999)),
    Path.unlink,
    put_foreign,
    put_other,
]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("part", ["ids.npy", "labels.npy", USERS, FEATURES, MANIFEST])
def test_a_damaged_part_is_refused(
    log: InteractionLog, tmp_path: Path, part: str, damage: Callable[[Path], object]
) -> None:
    log.save(tmp_path / "log")
    damage(tmp_path / "log" / part)
    with pytest.raises(ArtifactError, match=str(tmp_path / "log")):
        InteractionLog.open(tmp_path / "log")


def test_any_damage_is_one_sentence_or_a_log(log: InteractionLog, tmp_path: Path) -> None:
    log.save(tmp_path / "log")
    parts = {path: path.read_bytes() for path in sorted((tmp_path / "log").iterdir())}
    for seed in range(300):
        draw = random.Random(seed)
        path = draw.choice(list(parts))
        bent = bytearray(parts[path])
        for _ in range(draw.choice([1, 1, 3, 10])):
            bent[draw.randrange(min(len(bent), draw.choice([130, 1 << 20])))] = draw.randrange(256)
        path.write_bytes(bent)
        try:
            InteractionLog.open(tmp_path / "log").user_ids.to_pylist()
        except ArtifactError as error:
            said = str(error)
            assert "\n" not in said, f"seed {seed}: {said}"  # most damage raises, some does not
        path.write_bytes(parts[path])


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("format", 1, "does not have the format"),
        ("counts", {}, r"damaged \(counts.rows"),
        ("counts", None, "is a damaged prepared log"),
        ("ordered", None, "is a damaged prepared log"),
    ],
)
def test_an_edited_manifest_is_refused(tmp_path: Path, key: str, value: object, sentence: str) -> None:
    weighted_log().save(tmp_path / "log")
    manifest = json.loads((tmp_path / "log" / MANIFEST).read_text())
    manifest[key] = value
    if value is None:
        del manifest[key]
    (tmp_path / "log" / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(ArtifactError, match=sentence):
        InteractionLog.open(tmp_path / "log")


def test_a_manifest_of_other_columns_is_refused(tmp_path: Path) -> None:
    log = weighted_log().save(tmp_path / "log")
    manifest = (tmp_path / "log" / MANIFEST).read_text()
    (tmp_path / "log" / MANIFEST).write_text(manifest.replace(f'"rows": {log.n_rows}', '"rows": 3'))
    with pytest.raises(ArtifactError, match=rf"ids.npy has {log.n_rows} rows, not 3"):
        InteractionLog.open(tmp_path / "log")
