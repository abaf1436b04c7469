"""Kafka, spoken by the brokers that librdkafka brings for tests: real connections and groups, nothing on a disk."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import confluent_kafka as kafka
import pytest
from service_process import wait_until

from resus.errors import ConfigError
from resus.ingest.consumer import Consumer
from resus.ingest.sources import open_source
from resus.serving import Engine

TOPIC = "clicks"


@pytest.fixture(scope="module")
def brokers() -> Iterator[tuple[str, Any]]:
    """Their addresses, and a producer."""
    producer = kafka.Producer({"bootstrap.servers": "unused:1", "test.mock.num.brokers": 1})
    found = producer.list_topics(timeout=10).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in found), producer
    producer.flush(5)


def test_events_of_a_topic_are_stored_once(brokers: tuple[str, Any], engine: Engine) -> None:
    """And acknowledged, for the whole group; what is no event is in the other topic, with the reason."""
    servers, producer = brokers
    producer.list_topics(TOPIC, timeout=10)  # which creates it here
    producer.list_topics(f"{TOPIC}.dead", timeout=10)

    def send(*bodies: str) -> None:
        for body in bodies:
            producer.produce(TOPIC, value=body)
        assert producer.flush(10) == 0

    topic = f"kafka://{servers}?topic={TOPIC}&session.timeout.ms=3000&heartbeat.interval.ms=300"

    def run(count: int, name: str) -> Consumer:
        source = open_source(topic, group="resus", consumer=name)
        consumer, stopping = Consumer(source, engine, print), threading.Event()
        thread = threading.Thread(target=consumer.run, args=[stopping])
        thread.start()
        try:
            wait_until(lambda: consumer.counts["messages"] >= count, "all messages")
        finally:
            stopping.set()
            thread.join()
            source.close()
        return consumer

    def event(number: int) -> str:
        return json.dumps({"id": f"e{number}", "user": "ann", "time": number, "label": 1, "item": "1"})

    send(event(1), "no event", event(2))
    first = run(3, "first")
    assert (first.counts["added"], first.counts["refused"]) == (2, 1)
    assert [one.id for one in engine.store.read("ann").events] == ["e1", "e2"]
    asking = kafka.Consumer({"bootstrap.servers": servers, "group.id": "resus"})
    partitions = producer.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions
    offsets = asking.committed([kafka.TopicPartition(TOPIC, partition) for partition in partitions], timeout=10)
    assert sum(max(one.offset, 0) for one in offsets) == 3, "the group goes on after all three"
    asking.close()
    dead = kafka.Consumer({"bootstrap.servers": servers, "group.id": "look", "auto.offset.reset": "earliest"})
    of_dead = producer.list_topics(f"{TOPIC}.dead", timeout=10).topics[f"{TOPIC}.dead"].partitions
    dead.assign([kafka.TopicPartition(f"{TOPIC}.dead", partition, 0) for partition in of_dead])
    aside: Any = dead.poll(60)
    assert aside.value() == b"no event"
    assert dict(aside.headers())["reason"].startswith(b"its event is not a JSON object")
    dead.close()


def test_mistakes_are_one_sentence(brokers: tuple[str, Any]) -> None:
    servers, _ = brokers
    with pytest.raises(ConfigError, match=r"--from names no topic: add \?topic=NAME"):
        open_source(f"kafka://{servers}", group="g", consumer="c")
    with pytest.raises(ConfigError, match="Kafka makes groups by itself"):
        open_source(f"kafka://{servers}?topic=x", group="g", consumer="c", create=True)
    with pytest.raises(ConfigError, match="--from is no address of Kafka"):
        open_source(f"kafka://{servers}?topic=x&no.such.setting=1", group="g", consumer="c")
