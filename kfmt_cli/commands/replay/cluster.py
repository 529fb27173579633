"""The live cluster, through confluent-kafka: topics, offsets, records that have arrived, groups."""

from __future__ import annotations

import hashlib
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
)

from kfmt_cli.commands.log_settings import properties_in
from kfmt_cli.commands.replay.sources import Header
from kfmt_cli.commands.replay.topic_plans import TIMESTAMP_TYPE, TopicPlan
from kfmt_cli.errors import OutputError, UsageError

PATIENCE = 10.0  # seconds for an answer of the cluster
TRIES = 4  # to connect, in that time
TAIL_PATIENCE = 0.5  # seconds in which the end of a partition must stay the same
OVERHEAD = 97  # bytes of a batch with one record, besides key, value and headers
MOST_IN_TAIL = 2_000_000  # records
OURS = {
    *("bootstrap.servers", "enable.idempotence", "acks", "request.required.acks"),
    *("transactional.id", "message.max.bytes"),
}
_SECRET = re.compile(r"password|secret|jaas|\.key|\.pem|token|credential", re.IGNORECASE)
_LOG = logging.getLogger("kfmt.replay")
_LOG.addHandler(logging.NullHandler())
_LOG.propagate = False
# Errors while a new partition, also of the groups' topic, has no leader yet.
MOMENTARY = {
    *(KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE),
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    *(KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE),
    KafkaError.UNKNOWN_TOPIC_OR_PART,
}
T = TypeVar("T")
Digest = tuple[int, bytes]
"""The partition of a record and a hash of all that it consists of."""


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """Settings of a topic in the cluster that a replay depends on."""

    most_bytes: int | None = None
    """The largest batch that it takes; None if unknown."""
    keeps_timestamps: bool = True


def producer_settings(path: Path | None) -> dict[str, str]:
    """The client settings in a Java properties file; raises UsageError without their values."""
    settings = {} if path is None else properties_in(path, has_secrets=True)
    for name in sorted(OURS & set(settings)):
        raise UsageError(f"{path}: {name} is set by kfmt replay; remove it")
    return settings


@dataclass(slots=True)
class LiveCluster:
    """A cluster that answers. address: as given. settings: of all clients."""

    address: str
    settings: Mapping[str, str]
    brokers: int = 0
    cluster_id: str = ""
    partitions: dict[str, int] = field(default_factory=dict)
    """Number of partitions of each topic."""
    _admin: Any = None
    _last_error: str = ""

    def connect(self) -> None:
        """Ask for its topics; raises OutputError, UsageError for a setting that it rejects."""
        self._admin = self._client(AdminClient, {})
        with self.asking():
            metadata = self._first_answer()
        self.brokers, self.cluster_id = len(metadata.brokers), metadata.cluster_id or ""
        self.partitions = {
            name: len(topic.partitions)
            for name, topic in metadata.topics.items()
            if topic.error is None
        }

    def _first_answer(self) -> Any:
        """The cluster's metadata, once it answers; raises KafkaException if it does not, at once
        if nobody listens."""
        for tries in range(TRIES):
            try:
                return self._admin.list_topics(timeout=PATIENCE / TRIES)
            except KafkaException:
                self._admin.poll(0)  # for the reason
                if tries == TRIES - 1 or (tries and self._last_error):
                    raise
        raise AssertionError

    def _client(self, of: Callable[..., Any], settings: Mapping[str, object]) -> Any:
        """A client that writes nothing to standard error; raises UsageError."""
        given = {**self.settings, "bootstrap.servers": self.address, **settings}
        try:
            return of({**given, "error_cb": self._remember}, logger=_LOG)
        except (KafkaException, TypeError, ValueError) as error:
            raise UsageError(f"--producer-config: {self.reason(error)}") from None

    def _remember(self, error: KafkaError) -> None:
        self._last_error = error.str()

    def reason(self, error: BaseException) -> str:
        """Why something failed, on one line, without secrets."""
        if error.__cause__ is not None:  # of a callback, which hides it
            error = error.__cause__
        said = error.args[0] if error.args else error
        words = said.str() if isinstance(said, KafkaError) else str(said)
        hides = isinstance(said, KafkaError) and said.code() in (
            *(KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN),
            KafkaError._MSG_TIMED_OUT,
        )
        if hides and self._last_error:
            words = f"{words}: {self._last_error}"
        for name, value in self.settings.items():
            if _SECRET.search(name) and value:
                words = words.replace(value, "***")
        return " ".join(words.split())

    @contextmanager
    def asking(self, what: str = "") -> Iterator[None]:
        """Raise OutputError if the cluster does not do what it is asked to."""
        try:
            yield
        except (KafkaException, SystemError) as error:
            place = f"{what}: " if what else ""
            raise OutputError(f"{self.address}: {place}{self.reason(error)}") from None

    # Topics.

    def create(self, plan: TopicPlan) -> None:
        """Create a topic and wait for its leaders; raises OutputError."""
        new = NewTopic(
            plan.name,
            num_partitions=plan.partitions,
            replication_factor=plan.replication_factor,
            config=plan.settings,
        )
        try:
            self._admin.create_topics([new], operation_timeout=PATIENCE)[plan.name].result()
        except KafkaException as error:
            words = f"cannot be created: {self.reason(error)}; create it yourself and run again"
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                words = "exists, but this user is not allowed to describe it"
            raise OutputError(f"{self.address}: {plan.name}: {words}") from None
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with self.asking(plan.name):
                topic = self._admin.list_topics(timeout=PATIENCE).topics.get(plan.name)
            known = () if topic is None else topic.partitions.values()
            if len(known) == plan.partitions and all(each.leader >= 0 for each in known):
                self.partitions[plan.name] = plan.partitions
                return
            time.sleep(0.1)
        raise OutputError(f"{self.address}: {plan.name}: was created, but has no leaders yet")

    def limits(self, topic: str) -> TopicLimits:
        """Settings of a topic; the defaults if they may not be read."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        try:
            answer = self._admin.describe_configs([resource], request_timeout=PATIENCE)
            found = answer[resource].result()
        except KafkaException:
            return TopicLimits()
        sizes = (int(found[name].value) for name in ("max.message.bytes", "segment.bytes"))
        return TopicLimits(min(sizes), found[TIMESTAMP_TYPE].value != "LogAppendTime")

    def ends(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The log end offsets of some partitions; raises OutputError."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = {TopicPartition(topic, number): latest for topic, number in places}
        if not asked:
            return {}

        def ask() -> dict[tuple[str, int], int]:
            answers = self._admin.list_offsets(asked, request_timeout=PATIENCE).items()
            return {
                (place.topic, place.partition): answer.result().offset for place, answer in answers
            }

        with self.asking(", ".join(sorted({place.topic for place in asked}))):
            return _patiently(ask)

    def settled_ends(self, places: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The same, once they stay the same: a killed run may have left a request on its way."""
        before = self.ends(places)
        while True:
            time.sleep(TAIL_PATIENCE)
            after = self.ends(places)
            if after == before:
                return after
            before = after

    # Records.

    def producer(self, limits: TopicLimits) -> Any:
        """An idempotent producer for one topic; raises UsageError."""
        settings: dict[str, object] = {"enable.idempotence": True}
        if limits.most_bytes is not None:
            most = min(max(limits.most_bytes - OVERHEAD, 1000), 1_000_000_000)
            settings |= {"message.max.bytes": most, "batch.size": min(most, 1_000_000)}
        ours = {
            "linger.ms": 20,
            "batch.num.messages": 100_000,
            "queue.buffering.max.messages": 200_000,
            "queue.buffering.max.kbytes": 128 << 10,
            "message.timeout.ms": 120_000,
        }
        settings |= {name: value for name, value in ours.items() if name not in self.settings}
        return self._client(Producer, settings)

    def arrived(
        self, topic: str, number: int, between: tuple[int, int], *, times: bool
    ) -> Iterator[tuple[Digest, int]]:
        """What the records of a partition between two offsets consist of, each with its offset.
        times: including their timestamps. Raises OutputError."""
        begin, end = between
        if end - begin > MOST_IN_TAIL:
            words = f"{end - begin} records were written since the last acknowledged one"
            raise OutputError(f"{self.address}: {topic}-{number}: {words}, by another producer")
        for message in self._read(topic, number, begin, end) if end > begin else ():
            at = message.timestamp()[1] if times else 0
            content = message.key(), message.value(), message.headers()
            yield digest(number, at, *content), message.offset()

    def _read(self, topic: str, number: int, begin: int, end: int) -> Iterator[Any]:
        settings = {
            "group.id": "kfmt-replay",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_uncommitted",
        }
        consumer = self._client(Consumer, settings)
        try:
            consumer.assign([TopicPartition(topic, number, begin)])
            waited = time.monotonic()
            while time.monotonic() - waited < PATIENCE:
                with self.asking(f"{topic}-{number}"):
                    messages = consumer.consume(500, 0.1)
                for message in messages:
                    waited = time.monotonic()
                    error = message.error()
                    if error is not None and error.code() == KafkaError._PARTITION_EOF:
                        return
                    if error is not None:
                        words = f"{topic}-{number}: {self.reason(KafkaException(error))}"
                        raise OutputError(f"{self.address}: {words}")
                    if message.offset() >= end:
                        return
                    yield message
                    if message.offset() == end - 1:
                        return
        finally:
            consumer.close()
        words = f"records from offset {begin} onward cannot be read"
        raise OutputError(f"{self.address}: {topic}-{number}: {words}")

    # Groups.

    def active_groups(self, groups: Iterable[str]) -> dict[str, str]:
        """The groups with members, each with its state; raises OutputError."""
        found = {}
        for name in sorted(groups):
            with self.asking(f"group {name}"):
                state = _patiently(lambda name=name: self._state_of(name))  # type: ignore[misc]
            if state not in (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD):
                found[name] = state.name.lower()
        return found

    def _state_of(self, group: str) -> ConsumerGroupState:
        """The state of a group; raises KafkaException."""
        answers = self._admin.describe_consumer_groups([group], request_timeout=PATIENCE)
        try:
            state: ConsumerGroupState = answers[group].result().state
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return ConsumerGroupState.DEAD
            raise
        return state

    def commit(self, group: str, offsets: Iterable[tuple[str, int, int, str | None]]) -> None:
        """Commit offsets of a group: topic, partition, offset, metadata. Raises OutputError."""
        places = [
            TopicPartition(topic, number, offset, metadata or "")
            for topic, number, offset, metadata in offsets
        ]

        def ask() -> None:
            asked = [ConsumerGroupTopicPartitions(group, places)]
            answers = self._admin.alter_consumer_group_offsets(asked, request_timeout=PATIENCE)
            for answer in answers.values():
                for place in answer.result().topic_partitions:
                    if place.error is not None:
                        raise KafkaException(place.error)

        with self.asking(f"group {group}"):
            _patiently(ask)


def _patiently(ask: Callable[[], T]) -> T:
    """Ask again while the cluster is not ready, as when it has just made a topic; raises
    KafkaException."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in MOMENTARY or time.monotonic() > end:
                raise
        time.sleep(0.2)


def digest(
    partition: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    headers: list[Header] | None,
) -> Digest:
    """What identifies a record in a partition, whatever its offset."""
    made = hashlib.blake2b(digest_size=16)
    parts: list[bytes | None] = [b"%d" % timestamp, key, value]
    for name, content in headers or ():
        parts += [name.encode(), content]
    for part in parts:
        made.update(b"-" if part is None else b"%d:" % len(part))
        made.update(part or b"")
    return partition, made.digest()
