"""Kafka: a topic, a consumer group, and a topic for messages that are no events."""

from collections.abc import Sequence
from typing import Any

from resus.errors import ConfigError, StorageError
from resus.extras import need
from resus.ingest.sources.base import Address, Entry, Refused

ANSWER_SECONDS = 10.0  # for the brokers to answer
MORE_SECONDS = 0.05  # that the first message of a batch waits for others


class KafkaTopic:
    """`kafka://HOST:PORT,HOST:PORT?topic=NAME`; `dead=NAME` names the topic of refused messages. Options with a dot are
    settings of librdkafka, such as `security.protocol=SSL`."""

    def __init__(self, address: Address, *, group: str, consumer: str, create: bool) -> None:
        need("kafka", "a topic in Kafka")
        import confluent_kafka as kafka

        address.refuse_others(("topic", "dead"), allow=lambda name: "." in name)
        if create:
            raise ConfigError("Kafka makes groups by itself: leave out --create-group, and create the topic in Kafka")
        self._topic = address.option("topic")
        self._kafka: Any = kafka  # Any: its types say None where there is an error to ask for
        self._dead = address.option("dead", f"{self._topic}.dead")
        self._trouble: Any = None
        servers: dict[str, Any] = {name: value for name, value in address.options.items() if "." in name}
        servers |= {"bootstrap.servers": address.url.partition("://")[2].strip("/"), "error_cb": self._note}
        servers["log_level"] = 2  # errors come to `_note`
        reading = servers | {"group.id": group, "client.id": consumer}
        reading |= {"enable.auto.commit": False, "auto.offset.reset": "earliest"}
        try:
            self._consumer: Any = kafka.Consumer(reading)
            self._producer: Any = kafka.Producer(servers | {"acks": "all"})
        except (kafka.KafkaException, ValueError) as error:
            raise ConfigError(f"--from is no address of Kafka ({_reason(error)}): correct it") from None
        try:
            self._check()
        except (ConfigError, StorageError):
            self._consumer.close()
            raise
        self._consumer.subscribe([self._topic])

    def read(self, limit: int, wait: float) -> Sequence[Entry]:
        first = self._consumer.poll(wait)
        found = [first, *self._consumer.consume(limit - 1, MORE_SECONDS)] if first is not None else []
        entries = []
        for message in found:
            if message.error() is None:
                place = f"offset {message.offset()} of partition {message.partition()}"
                entries.append(Entry(place, message.value() or b"", (message.partition(), message.offset())))
            elif message.error().code() != self._kafka.KafkaError._PARTITION_EOF:
                self._trouble = message.error()
        if not entries and self._trouble is not None:
            trouble, self._trouble = self._trouble, None
            raise StorageError(f"Kafka cannot be read ({_reason(trouble)}): check its brokers and the address")
        return entries

    def done(self, entries: Sequence[Entry], refused: Sequence[Refused]) -> None:
        if not entries:
            return
        try:
            self._put_aside(refused)
            last: dict[int, int] = {}
            for entry in entries:
                partition, offset = entry.key
                last[partition] = max(last.get(partition, 0), offset + 1)
            places = [self._kafka.TopicPartition(self._topic, *place) for place in last.items()]
            self._consumer.commit(offsets=places, asynchronous=False)
        except self._kafka.KafkaException as error:
            if not self._is_taken_away(error):
                raise StorageError(f"Kafka did not acknowledge ({_reason(error)}): check its brokers") from None

    def close(self) -> None:
        self._consumer.close()

    def _put_aside(self, refused: Sequence[Refused]) -> None:
        failures: list[Any] = []
        for entry, reason in refused:
            self._producer.produce(
                self._dead,
                value=entry.body,
                headers={"reason": reason, "place": entry.place},
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
        if self._producer.flush(ANSWER_SECONDS) or failures:
            why = _reason(failures[0]) if failures else f"no answer in {ANSWER_SECONDS:g} s"
            raise StorageError(f"Kafka did not take refused messages into '{self._dead}' ({why}): create this topic")

    def _is_taken_away(self, error: Any) -> bool:
        """Whether the partitions are another consumer's by now, which reads the messages again."""
        kind = self._kafka.KafkaError
        return error.args[0].code() in (
            kind.ILLEGAL_GENERATION,
            kind.UNKNOWN_MEMBER_ID,
            kind.REBALANCE_IN_PROGRESS,
            kind._STATE,
        )

    def _check(self) -> None:
        try:
            found = self._consumer.list_topics(self._topic, timeout=ANSWER_SECONDS).topics[self._topic]
        except self._kafka.KafkaException as error:
            raise StorageError(f"Kafka cannot be reached ({_reason(error)}): check its brokers and --from") from None
        if found.error is not None or not found.partitions:
            raise ConfigError(f"there is no topic '{self._topic}' in Kafka: correct ?topic=NAME, or create it")

    def _note(self, error: Any) -> None:
        self._trouble = error


def _reason(error: Any) -> str:
    found = error.args[0] if isinstance(error, Exception) and error.args else error
    text = found.str() if hasattr(found, "str") else str(found)
    return " ".join(str(text).split()).rstrip(".")
