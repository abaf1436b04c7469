"""The drift of served scores: low for traffic like the log, high for other traffic, the same over all workers."""

import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from planted_models import log_of, tiny
from service_process import InProcess, in_process, sealed

from resus import InteractionLog
from resus.artifact import Artifact, inference
from resus.data.datasets.planted import PlantedWorld, draw_events
from resus.errors import ArtifactError
from resus.serving import Engine, LoadedModel, open_store
from resus.serving.drift import REFERENCE, Place, Reference, Spread, stability_index
from resus.serving.export import export
from resus.serving.http import recent_scores
from resus.serving.http.app import build_app
from resus.serving.http.guard import Access

WORLD = PlantedWorld(users=200, items=20, events_per_user=14, seed=5)


def table() -> pl.DataFrame:
    drawn = draw_events(WORLD)
    tags = pl.concat_str([pl.col("daypart"), pl.col("device")], separator="|")
    return drawn.select("user", "time", "item", "category", "click", price=pl.col("item") * 1.5, tags=tags)


@pytest.fixture(scope="module")
def log() -> InteractionLog:
    return log_of(table())


@pytest.fixture(scope="module")
def run(log: InteractionLog, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drift")
    log.save(folder / "log")
    tiny(settings={"split.ratios": [4, 3, 3]}).fit(InteractionLog.open(folder / "log"), folder=folder / "run")
    export(folder / "run", folder / "log", folder / "export", titles={}, onnx=False)
    return folder / "export"


def test_the_index_is_that_of_the_formula() -> None:
    counts, expected = [10, 30, 60], [0.2, 0.3, 0.5]
    now = [(count + 0.5) / 101.5 for count in counts]
    assert stability_index(expected, counts) == pytest.approx(
        sum((p - q) * np.log(p / q) for p, q in zip(now, expected, strict=True))
    )
    assert stability_index([0.25] * 4, [1000] * 4) == 0
    assert np.isfinite(stability_index([0, 1], [5, 0]))


def test_chance_alone_is_no_drift() -> None:
    """Without the correction, few scores in several stages would look like a drift."""
    random = np.random.default_rng(3)
    stages = ("new", "I", "II", "III", "warm")
    found = []
    for _ in range(50):
        spreads = {stage: Spread.of(random.normal(size=200)) for stage in stages}
        reference = Reference(spreads={"residual": spreads})
        counts: Counter[Place] = Counter()
        for stage in stages:
            counts.update(place for value in random.normal(size=60) for place in reference.places(0, value, stage))
        found.append(reference.drift(counts)["residual"])
    assert np.mean(found) < 0.05


def test_a_spread_counts_every_score_and_the_bins_are_those_of_serving() -> None:
    scores = np.concatenate([np.zeros(50), np.random.default_rng(1).normal(size=450)])
    spread = Spread.of(scores)
    assert sum(spread.shares) == pytest.approx(1)
    reference = Reference(spreads={"basis": {"all": spread}})
    bins = [reference.places(float(score), 0.0, "new")[0][2] for score in scores]
    assert (np.bincount(bins, minlength=len(spread.shares)) / 500).tolist() == spread.shares


def test_the_reference_is_how_validation_users_are_scored_offline(run: Path, log: InteractionLog) -> None:
    loaded = LoadedModel.load(run)
    assert loaded.reference is not None
    users = loaded.config.user_split(log.n_users).validation
    artifact = Artifact.load(run)
    basis = inference(artifact).encode(loaded.rows(rows_of(log, users)))[0]
    spread = loaded.reference.spreads["basis"]["all"]
    assert spread.edges == pytest.approx(np.quantile(basis, np.arange(1, 10) / 10), abs=1e-5)
    residual = loaded.reference.spreads["residual"]
    assert set(residual) == {"new", "I", "II", "III", "warm"}
    assert residual["new"].edges == [0]


def rows_of(log: InteractionLog, users: np.ndarray) -> list[dict[str, object]]:
    ids = [log.user_ids[int(user)].as_py() for user in users]
    own = table().with_columns(pl.col("user").cast(pl.String)).filter(pl.col("user").is_in(ids))
    return own.select("item", "category", "price", pl.col("tags").str.split("|")).to_dicts()


def ask(client: InProcess, run: Path, log: InteractionLog, *, shifted: bool) -> None:
    """Ask as test users would: each event is scored after the events before it. If shifted, only the items of high
    price are asked for, and every label so far was positive."""
    test = LoadedModel.load(run).config.user_split(log.n_users).test
    ids = [log.user_ids[int(user)].as_py() for user in test]
    own = table().with_columns(pl.col("user").cast(pl.String)).filter(pl.col("user").is_in(ids[:30]))
    for _, events in own.group_by("user"):
        known: list[dict[str, object]] = []
        for row in events.sort("time").to_dicts():
            fields = {"item": str(row["item"]), "tags": row["tags"].split("|")}
            wanted = {"item": "unseen", "price": 900.0, "tags": []} if shifted else fields
            answer = client.post("/v1/predict", json={"events": known, "candidates": [wanted]})
            assert answer.status_code == 200, answer.text
            label = 1 if shifted else row["click"]
            known.append({"label": label, "item": fields["item"], "features": {"tags": fields["tags"]}})


def drift_in(client: InProcess) -> dict[str, float]:
    lines = [line for line in client.get("/metrics").text.splitlines() if line.startswith("resus_drift{")]
    return {line.split('score="')[1].split('"')[0]: float(line.rpartition(" ")[2]) for line in lines}


def test_traffic_like_the_log_does_not_drift_and_other_traffic_does(
    run: Path, log: InteractionLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent_scores, "ONE_IN", 1)
    found = {}
    for shifted in (False, True):
        engine = Engine(LoadedModel.load(run), open_store(str(tmp_path / f"events {shifted}"), capacity=50))
        with in_process(build_app(engine, run, Access("localhost", None))) as client:
            assert drift_in(client) == {}, "too few scores to tell"
            ask(client, run, log, shifted=shifted)
            found[shifted] = drift_in(client)
    assert max(found[False].values()) < 0.15, found
    assert found[True]["basis"] > 0.5
    assert found[True]["residual"] > 0.25


def test_a_damaged_reference_is_refused_and_an_older_export_has_none(run: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(run, tmp_path / "run"))
    (folder / REFERENCE).write_text('{"format": 1, "spreads": 3}')
    sealed(folder)
    with pytest.raises(ArtifactError, match="is not a reference of scores: make it again with 'resus export'"):
        LoadedModel.load(folder)
    (folder / REFERENCE).unlink()
    sealed(folder)
    assert LoadedModel.load(folder).reference is None
