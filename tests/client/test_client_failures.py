"""What goes wrong between client and service: what is tried again, for how long, and what is told."""

import json
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from faulty_proxy import FaultyProxy, faulty_proxy
from service_process import Serving

from resus import Client, ConfigError, DataError, ResusError, ServiceError
from resus.client import (
    BadRequestError,
    BrokenAnswerError,
    BusyError,
    FailedServiceError,
    NoAnswerError,
)
from resus.client import events as sent_events
from resus.client.answers import seconds_of
from resus.client.attempts import FIRST_WAIT, Attempts, Patience
from resus.client.calls import Call
from resus.client.messages import Reloaded
from resus.serving.http.guard import REQUEST_BYTES
from resus.serving.limits import MAX_EVENTS

pytestmark = pytest.mark.integration

BUSY = (503, {"retry-after": "2"}, b'{"error": "the store is busy: try again"}')


@pytest.fixture
def proxy(service: Serving) -> Iterator[FaultyProxy]:
    with faulty_proxy(str(service.client.base_url)) as running:
        yield running


def test_an_event_whose_answer_is_lost_counts_once(opened: Any, proxy: FaultyProxy, waits: list[float]) -> None:
    client = opened(proxy.address)
    proxy.faults += ["lose answer", "lose request", "lose answer"]
    answer = client.add_events([{"user": "lost", "item": 1, "label": 1}, {"user": "lost", "item": 2, "label": 0}])
    assert [result.status for result in answer.results] == ["known", "known"]
    assert client.read_user("lost").support == 2
    assert len(set(proxy.bodies[:4])) == 1  # the same ids and times each time
    assert len(waits) == 3
    assert all(0 <= wait <= FIRST_WAIT * 2**place for place, wait in enumerate(waits))
    client.delete_user("lost")


def test_retries_end_and_the_events_can_be_sent_again(opened: Any, proxy: FaultyProxy, waits: list[float]) -> None:
    client = opened(proxy.address, retries=1)
    many = [{"user": "many", "item": 1, "label": 1, "time": number} for number in range(MAX_EVENTS + 5)]
    proxy.faults += [(200, {}, json.dumps({"results": [{"id": "x", "status": "added"}] * MAX_EVENTS}).encode())]
    proxy.faults += ["lose answer", "lose answer"]
    with pytest.raises(NoAnswerError, match="broke off before it answered POST /v1/events") as failed:
        client.add_events(many)
    assert (failed.value.tries, len(waits)) == (2, 1)
    assert [event["time"] for event in failed.value.unacknowledged] == list(range(MAX_EVENTS, MAX_EVENTS + 5))
    again = client.add_events(failed.value.unacknowledged)
    assert {result.status for result in again.results} == {"known"}
    client.delete_user("many")


def test_the_wait_is_what_the_service_asks_for(opened: Any, proxy: FaultyProxy, waits: list[float]) -> None:
    proxy.faults += [BUSY, (429, {"retry-after": "1"}, b'{"error": "too many"}')]
    assert opened(proxy.address).readyz().status == "ok"
    assert 2 <= waits[0] <= 2 + FIRST_WAIT
    assert 1 <= waits[1] <= 1 + 2 * FIRST_WAIT


def test_a_service_that_asks_for_more_patience_is_not_asked_again(
    opened: Any, proxy: FaultyProxy, waits: list[float]
) -> None:
    proxy.faults += [(503, {"retry-after": "11"}, b'{"error": "the store is out of order"}')]
    with pytest.raises(BusyError, match=r"GET /readyz: the store is out of order \(503\)") as failed:
        opened(proxy.address).readyz()
    assert (failed.value.retry_after, failed.value.sentence, waits) == (11.0, "the store is out of order", [])


def test_a_service_that_hangs_is_left(opened: Any, proxy: FaultyProxy, waits: list[float]) -> None:
    proxy.faults += ["hang"] * 2
    with pytest.raises(NoAnswerError, match=r"did not answer POST /v1/predict within 0.05 seconds") as failed:
        opened(proxy.address, timeout=0.05, retries=1).predict(items=[1])
    assert failed.value.tries == 2


def test_an_address_where_nobody_answers(opened: Any, waits: list[float]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(NoAnswerError, match=f"127.0.0.1:{port} cannot be reached .*check the address") as failed:
        opened(f"http://127.0.0.1:{port}", retries=2).healthz()
    assert (failed.value.tries, len(waits), failed.value.may_have_happened) == (3, 2, False)


@pytest.mark.parametrize(
    ("answer", "kind", "sentence"),
    [
        ((500, {}, b'{"error": "the service failed"}'), FailedServiceError, "the service failed"),
        ((418, {}, b"<html>teapot</html>"), BadRequestError, "no reason given"),
        ((302, {"location": "http://example.org"}, b""), BrokenAnswerError, "resus never sends"),
        ((200, {}, b"<html>a proxy</html>"), BrokenAnswerError, "check the address"),
        ((200, {}, b'{"status": "unknown"}'), BrokenAnswerError, r"\(at status\)"),
    ],
)
def test_other_answers_are_told_at_once(
    opened: Any, proxy: FaultyProxy, waits: list[float], answer: Any, kind: type[ServiceError], sentence: str
) -> None:
    proxy.faults += [answer]
    with pytest.raises(kind, match=sentence):
        opened(proxy.address).healthz()
    assert waits == []


def test_a_newer_service_may_say_more(opened: Any, proxy: FaultyProxy) -> None:
    proxy.faults += [(200, {}, b'{"status": "ok", "since": 3}')]
    assert opened(proxy.address).healthz().status == "ok"


@pytest.mark.parametrize(
    ("error", "again"),
    [("never sent", True), ("lost", False), ("busy 429", True), ("busy 503", False)],
)
def test_what_must_not_be_done_twice_is_repeated_only_if_it_was_not_done(error: str, again: bool) -> None:
    failure = NoAnswerError("no answer") if "busy" not in error else BusyError("busy")
    failure.may_have_happened = error in ("lost", "busy 503")
    attempts = Attempts(Call("POST", "/v1/rollback", Reloaded, repeatable=False), Patience(1, 3, 10))
    if again:
        assert attempts.wait_after(failure) <= FIRST_WAIT
    else:
        with pytest.raises(type(failure)):
            attempts.wait_after(failure)


def test_waits_grow_to_a_bound() -> None:
    attempts = Attempts(Call("GET", "/healthz", Reloaded), Patience(1, 100, 3.0))
    waits = [attempts.wait_after(NoAnswerError("no answer")) for _ in range(100)]
    assert max(waits) <= 3.0
    assert max(waits[20:]) > 1  # a chance of 3⁻⁸⁰ to fail


def test_retry_after_may_be_a_date_or_nonsense() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=30))
    assert 27 <= (seconds_of(later) or 0) <= 30
    assert seconds_of("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert [seconds_of(text) for text in (None, "soon", "nan", "-3")] == [None, None, None, 0]


def test_the_bounds_are_those_of_the_service(opened: Any, service: Serving) -> None:
    assert sent_events.MAX_EVENTS == MAX_EVENTS
    long = [{"user": "long", "item": 1, "label": 1, "fields": {"text": "ü" * 600}} for _ in range(400)]
    batches = sent_events.Batches(sent_events.prepared(long))
    sizes = [len(call.content() or b"") for call in batches.calls()]
    assert len(sizes) == 2
    assert REQUEST_BYTES * 0.9 < sizes[0] <= REQUEST_BYTES


@pytest.mark.parametrize(
    ("events", "sentence"),
    [
        ({"user": "u", "label": 1}, "put the event into a list"),
        ([("u", 1)], r"events\[0\] is a tuple: give a dictionary"),
        ([{"user": "u", "item": object(), "label": 1}], "object is not a value of JSON"),
        ([{"user": "u", "item": 1, "label": float("nan")}], "cannot be written as JSON"),
    ],
)
def test_events_that_cannot_be_sent(events: Any, sentence: str) -> None:
    with Client() as client, pytest.raises(DataError, match=sentence):
        client.add_events(events)


def test_a_bad_event_is_told_in_the_words_of_the_service(opened: Any) -> None:
    with pytest.raises(BadRequestError) as refused:
        opened().add_events([{"user": "u", "item": 1, "label": 2}])
    assert refused.value.sentence == "events[0].label: a label is 0 or 1"
    assert len(refused.value.unacknowledged) == 1
    assert isinstance(refused.value, ResusError)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"address": "localhost:8000"}, "must begin with http:// or https://"),
        ({"address": "http://u:p@host"}, "takes no password"),
        ({"address": "http://host:port"}, "cannot be read"),
        ({"address": 8000}, "give a text"),
        ({"token": "with space"}, "the token must be printable ASCII"),
        ({"timeout": 0}, "timeout is 0"),
        ({"timeout": float("inf")}, "timeout is inf"),
        ({"retries": -1}, "retries is -1"),
    ],
)
def test_an_option_that_cannot_be(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        Client(**options)


def test_a_token_is_never_shown(opened: Any) -> None:
    with Client(token="very-secret-token-1") as client:
        assert "secret" not in repr(client) + repr(vars(client)["_address"])
