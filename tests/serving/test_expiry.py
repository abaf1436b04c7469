"""Old events are deleted in the background by one process at a time; answers are then as if they had never been."""

import contextlib
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from resus_process import refused_here, succeed_here
from service_fixtures import CAPACITY, Place
from service_process import serving, wait_until

from resus.errors import ConfigError
from resus.serving import Engine, LoadedModel
from resus.serving.expiry import Expiry, expiring, seconds_in
from resus.serving.messages import PostedEvent, PredictRequest
from resus.serving.store import Event, open_store

DAY = 86_400.0


def posted(user: str, number: int, age: float) -> PostedEvent:
    """An event of this age in days."""
    return PostedEvent(
        id=f"e{number}", user=user, time=time.time() - age * DAY, label=float(number % 2), item=str(number)
    )


def scores(engine: Engine, user: str) -> list[float]:
    answers = engine.predict(PredictRequest(user=user, items=[str(item) for item in range(6)])).answers
    return [answer.probability for answer in answers]


@pytest.mark.parametrize("learner", ["exported", "third"])
def test_answers_are_those_of_users_who_never_had_the_old_events(
    request: pytest.FixtureRequest, learner: str, place: Place
) -> None:
    """For users in memory, users who are not, and users whose events are all old."""
    loaded = LoadedModel.load(request.getfixturevalue(learner))
    with contextlib.closing(open_store(place(), capacity=CAPACITY)) as store:
        engine = Engine(loaded, store, capacity=CAPACITY)
        old = [posted("ann", number, 100 - number) for number in range(4)]
        new = [posted("ann", number, 5 - number) for number in range(4, 6)]
        engine.observe([*old, *new, posted("gone", 1, 95)])
        before = scores(engine, "ann"), scores(engine, "gone")
        counted: list[tuple[int, int]] = []
        expiry = Expiry(store, 90 * DAY, count=lambda events, users: counted.append((events, users)))
        assert expiry.run_pass()
        assert [sum(numbers) for numbers in zip(*counted, strict=True)] == [5, 1]
        engine.observe([one.model_copy(update={"user": "bob"}) for one in new])
        assert scores(engine, "ann") == pytest.approx(scores(engine, "bob"), abs=1e-6)
        assert scores(engine, "gone") == scores(engine, "never seen")
        assert scores(engine, "ann") != before[0]
        assert scores(engine, "gone") != before[1]
        assert engine.user("gone") is None


def test_writers_do_not_wait_and_the_thread_ends(place: Place) -> None:
    """While a thread deletes step by step, each write of another is done between two steps."""
    with contextlib.closing(open_store(place(), capacity=1000)) as store:
        engine_like = [(f"user {number % 50}", posted("x", number, 100)) for number in range(1000)]
        store.add([(user, _event(one)) for user, one in engine_like])
        deleted = threading.Semaphore(0)
        expiry = Expiry(store, 90 * DAY, count=lambda events, _: deleted.release(events) if events else None)
        expiry.start()
        written = 0
        while store.users() > 1:
            store.add([("new", _event(posted("x", written, 0)))])
            written += 1
        expiry.stop()
        assert len(store.read("new").events) == min(written, 1000)
        for _ in range(1000):
            assert deleted.acquire(blocking=False)
        assert not deleted.acquire(blocking=False)


def _event(one: PostedEvent) -> Event:
    return Event(one.id, one.time, one.label, {"item": one.item})


@pytest.mark.integration
def test_a_service_of_two_workers_forgets_once(
    exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, now = ["--store", tmp_path / "store", "--workers", 2], time.time()
    with serving(exported, *words) as service:
        service.events(
            {"id": "old", "user": "ann", "time": now - 91 * DAY, "label": 1, "item": "1"},
            {"id": "new", "user": "ann", "time": now, "label": 1, "item": "2"},
            {"id": "old", "user": "gone", "time": now - 91 * DAY, "label": 1, "item": "1"},
        )
    with serving(exported, *words, "--forget-after", "90d") as service:
        wait_until(lambda: service.predict(user="ann", items=["1"])["support"] == 1, "the end of old events")
        assert service.client.get("/v1/users/gone").status_code == 404
        wait_until(lambda: "resus_forgotten_events_total 2.0" in service.client.get("/metrics").text, "the count")
        assert "resus_forgotten_users_total 1.0" in service.client.get("/metrics").text
    said = capsys.readouterr().err
    assert "events older than 90d are deleted" in said
    assert said.count("deleted old events: 2; users deleted with their last event: 1") == 1


def test_one_command_deletes_once(tmp_path: Path, place: Place) -> None:
    where = place()
    with contextlib.closing(open_store(where, capacity=2)) as store:
        store.add([(f"user {number}", _event(posted("x", number, number))) for number in range(100)])
    said = succeed_here("store", "forget", where, "--after", "50d", cwd=tmp_path)
    assert said.strip() == "events older than 50d that were deleted: 50; users deleted with their last event: 50"
    with contextlib.closing(open_store(where, capacity=2)) as store:
        assert store.users() == 50
    assert "deleted: 0; " in succeed_here("store", "forget", where, "--after", "1200h", cwd=tmp_path)


@pytest.mark.parametrize("age", ["90", "d", "0d", "-1d", "1.5h", "90 days", "1w", "9999999d", "", "٣d"])
def test_nonsense_is_refused_in_one_sentence(age: str, exported: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no time after which events are deleted: write it as 90d, 12h or 30m"):
        seconds_in(age)
    assert "write it as 90d, 12h or 30m" in refused_here("serve", exported, "--forget-after", age, cwd=tmp_path)


def test_times_are_read() -> None:
    assert (seconds_in("90d"), seconds_in("12h"), seconds_in("30m")) == (90 * DAY, DAY / 2, DAY / 48)


def test_a_store_that_cannot_is_refused() -> None:
    class Other:
        pass

    other: Any = Other()
    with pytest.raises(ConfigError, match="a Other cannot delete old events: use SQLite or Redis"):
        expiring(other)


def test_there_is_a_file_to_forget_in(tmp_path: Path) -> None:
    assert "no.sqlite is not a file" in refused_here("store", "forget", "no.sqlite", "--after", "1d", cwd=tmp_path)
    assert not list(tmp_path.iterdir())
