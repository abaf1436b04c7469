"""A stream in a real Redis: every event is stored once, whatever is killed; what is no event is put aside."""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from redis_process import RedisProcess
from resus_process import COMMAND, environment, refused_here
from service_process import serving, wait_until

from resus.errors import StorageError
from resus.ingest.consumer import Consumer
from resus.ingest.sources import open_source
from resus.serving import Engine
from resus.serving.messages import PostedEvent

STREAM, GROUP = "clicks", "resus"


@pytest.fixture
def stream(server: RedisProcess) -> Iterator[redis.Redis]:
    server.empty()
    with redis.Redis.from_url(server.url) as client:
        client.xgroup_create(STREAM, GROUP, "0", mkstream=True)
        yield client


def sent(number: int, user: str = "ann", **more: Any) -> dict[str, Any]:
    return {"id": f"e{number}", "user": user, "time": float(number), "label": 1, "item": "1", **more}


def send(client: redis.Redis, *bodies: Any) -> None:
    for body in bodies:
        client.xadd(STREAM, {"event": body if isinstance(body, str) else json.dumps(body)})


def address(server: RedisProcess, **options: Any) -> str:
    return f"{server.url}?stream={STREAM}" + "".join(f"&{name}={value}" for name, value in options.items())


def consumer_of(server: RedisProcess, engine: Engine, name: str = "one", **options: Any) -> tuple[Consumer, list[str]]:
    said: list[str] = []
    source = open_source(address(server, **options), group=GROUP, consumer=name)
    return Consumer(source, engine, said.append), said


def run_until(consumer: Consumer, happened: Any) -> None:
    """Run a consumer in this process until something happened."""
    stopping = threading.Event()
    thread = threading.Thread(target=consumer.run, args=[stopping])
    thread.start()
    try:
        wait_until(happened, "the work of the consumer")
    finally:
        stopping.set()
        thread.join()


def is_done(client: redis.Redis) -> bool:
    (group,) = client.xinfo_groups(STREAM)
    return bool(group["pending"] == 0 and group["lag"] == 0)


def ids(engine: Engine, user: str = "ann") -> list[str]:
    return [event.id for event in engine.store.read(user).events]


MISTAKES = {
    "{": "its event is not a JSON object: write one as in POST /v1/events",
    "[1]": "its event is not a JSON object: write one as in POST /v1/events",
    json.dumps(sent(1, label=2)): "label: a label is 0 or 1",
    json.dumps(sent(1, features={"price": "dear"})): "'dear' is not a number",
    json.dumps(sent(1) | {"time": 1e13}): "time: 1e+13 is more than a day ahead",
    json.dumps({key: value for key, value in sent(1).items() if key != "user"}): "user: missing; add it",
}


def test_what_is_no_event_is_put_aside_and_blocks_nothing(
    server: RedisProcess, stream: redis.Redis, engine: Engine
) -> None:
    for place, mistake in enumerate(MISTAKES):
        send(stream, sent(10 + place), mistake)
    stream.xadd(STREAM, {"evnt": "{}"})
    consumer, said = consumer_of(server, engine)
    run_until(consumer, lambda: is_done(stream))
    assert ids(engine) == [f"e{10 + place}" for place in range(len(MISTAKES))]
    found: Any = stream.xrange(f"{STREAM}:dead")
    aside = [fields for _, fields in found]
    assert [fields[b"event"].decode() for fields in aside] == [*MISTAKES, ""]
    for fields, reason in zip(aside, [*MISTAKES.values(), "it has no field 'event'"], strict=True):
        assert reason in fields[b"reason"].decode()
        assert stream.xrange(STREAM, fields[b"id"], fields[b"id"]), "the id of the entry that is refused"
    assert consumer.counts["refused"] == len(MISTAKES) + 1
    assert f"{len(MISTAKES) + 1} refused" in consumer.summary()
    assert [line.partition(" is refused: ")[2] for line in said] == [*MISTAKES.values()][:1], "others only aside"


def test_entries_of_a_consumer_that_is_gone_are_taken_over(
    server: RedisProcess, stream: redis.Redis, engine: Engine
) -> None:
    """It had read two of them, and stored one without acknowledging it."""
    send(stream, sent(1), sent(2), sent(3))
    gone = open_source(address(server), group=GROUP, consumer="gone")
    first, _ = gone.read(2, 0.1)
    engine.observe([PostedEvent.model_validate_json(first.body)])
    consumer, _ = consumer_of(server, engine, "heir", claim=0.05)
    run_until(consumer, lambda: is_done(stream))
    assert ids(engine) == ["e1", "e2", "e3"]
    assert (consumer.counts["added"], consumer.counts["known"]) == (2, 1)
    consumer.source.close()
    names = {one["name"] for one in stream.xinfo_consumers(STREAM, GROUP)}
    assert names == {b"gone"}, "who leaves in order is no member any more"


def test_nothing_is_acknowledged_while_the_store_is_out_of_order(
    server: RedisProcess, stream: redis.Redis, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(stream, sent(1))
    tries = []
    add = engine.store.add_traced  # type: ignore[attr-defined]

    def broken(batch: Any) -> Any:
        tries.append(batch)
        if len(tries) < 3:
            assert stream.xpending(STREAM, GROUP)["pending"] == 1
            raise StorageError("the disk is full")
        return add(batch)

    monkeypatch.setattr(engine.store, "add_traced", broken)
    consumer, said = consumer_of(server, engine)
    run_until(consumer, lambda: is_done(stream))
    assert (len(tries), ids(engine)) == (3, ["e1"])
    assert said == ["the disk is full; trying again"]


def test_a_redis_that_hangs_is_waited_for(server: RedisProcess, stream: redis.Redis, engine: Engine) -> None:
    from resus.ingest.sources import redis_streams

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redis_streams, "ANSWER_SECONDS", 0.3)
        consumer, said = consumer_of(server, engine)
        stopping = threading.Event()
        thread = threading.Thread(target=consumer.run, args=[stopping])
        with server.stopped():
            thread.start()
            wait_until(lambda: said, "a line about the Redis")
        send(stream, sent(1))
        wait_until(lambda: is_done(stream), "the event")
        stopping.set()
        thread.join()
    assert ids(engine) == ["e1"]
    assert "the Redis of the stream does not answer" in said[0]


def test_mistakes_of_the_command_are_one_sentence(
    exported: Path, tmp_path: Path, server: RedisProcess, stream: redis.Redis
) -> None:
    stream.set("text", "no stream")
    mistakes = {
        f"{server.url}?stream=click": "there is no stream 'click' in Redis: correct its name, or create it",
        f"{server.url}?stream=text": "'text' in Redis is a string, not a stream",
        f"{server.url}?strem=x": "--from has an unknown option 'strem': did you mean 'stream'?",
        server.url: "--from names no stream: add ?stream=NAME to the address",
        f"{server.url}?stream=clicks&claim=soon": "--from has claim=soon: give a number of seconds",
        "redis://127.0.0.1:1/0?stream=clicks": "the Redis of the stream cannot be reached",
        "amqp://host?queue=x": "no stream at 'amqp:': give an address that begins with redis:",
    }
    for source, said in mistakes.items():
        assert said in refused_here("consume", exported, "--from", source, "--group", GROUP, cwd=tmp_path)
    words = ["consume", exported, "--from", f"{server.url}?stream=clicks", "--group", "other"]
    assert "the stream 'clicks' has no group 'other' (there are resus)" in refused_here(*words, cwd=tmp_path)


@pytest.mark.integration
def test_killed_consumers_lose_nothing_and_double_nothing(
    exported: Path, tmp_path: Path, server: RedisProcess, stream: redis.Redis
) -> None:
    """Consumers are killed at any moment while events come; SIGTERM ends one in order. The service sees all events."""
    place, numbers, ended = tmp_path / "store", iter(range(10**6)), threading.Event()
    total = 0

    def produce() -> None:
        nonlocal total
        with redis.Redis.from_url(server.url) as client:
            while not ended.is_set():
                some = [next(numbers) for _ in range(20)]
                send(client, *(sent(number, f"u{number % 40}") for number in some), "no event")
                total += len(some)
                time.sleep(0.005)

    words = [*COMMAND, "consume", exported, "--group", GROUP, "--store", place, "--remember", 10_000]
    words += ["--from", address(server, claim=0.2)]
    command, producer = [str(word) for word in words], threading.Thread(target=produce)
    with serving(exported, "--store", place, "--remember", 10_000) as service:
        producer.start()
        for _ in range(3):
            with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                assert "consumes as " in process.stdout.readline()
                read = stream.xinfo_groups(STREAM)[0]["entries-read"]
                wait_until(lambda read=read: stream.xinfo_groups(STREAM)[0]["entries-read"] != read, "some reading")
                process.kill()
        ended.set()
        producer.join()
        with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as process:
            wait_until(lambda: is_done(stream), "the end of the stream")
            os.kill(process.pid, signal.SIGTERM)
            assert process.stdout is not None
            said = process.stdout.read()
        assert process.returncode == 0
        assert " refused; " in said
        for user in range(40):
            found = service.client.get(f"/v1/users/u{user}").json()["events"]
            assert [event["id"] for event in found] == [f"e{number}" for number in range(user, total, 40)]
    assert stream.xlen(f"{STREAM}:dead") == total // 20
