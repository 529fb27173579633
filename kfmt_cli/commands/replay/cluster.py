"""A client of the live cluster, with confluent-kafka: topics, offsets, records that have arrived,
groups."""

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

from kfmt_cli.commands.replay.sources import Header
from kfmt_cli.commands.replay.topic_plans import TIMESTAMP_TYPE_SETTING, TopicPlan
from kfmt_cli.commands.settings_resolver import read_properties
from kfmt_cli.errors import OutputError, UsageError

REQUEST_TIMEOUT_SECONDS = 10.0  # until the cluster has answered a request
MAX_CONNECT_TRIES = 4  # attempts to connect within the request timeout
STABLE_OFFSETS_SECONDS = 0.5  # during which log end offsets must stay unchanged
# Bytes of a batch with one record, without key, value and headers.
BATCH_OVERHEAD_BYTES = 97
MAX_READ_BACK_RECORDS = 2_000_000  # records of a partition to read back after an earlier run
RESERVED_SETTINGS = {
    *("bootstrap.servers", "enable.idempotence", "acks", "request.required.acks"),
    *("transactional.id", "message.max.bytes"),
}
_SECRET_SETTING_PATTERN = re.compile(
    r"password|secret|jaas|\.key|\.pem|token|credential", re.IGNORECASE
)
_LOGGER = logging.getLogger("kfmt.replay")
_LOGGER.addHandler(logging.NullHandler())
_LOGGER.propagate = False
# Errors that occur while a new partition, such as one of __consumer_offsets, has no leader yet.
RETRIABLE_ERRORS = {
    *(KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE),
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    *(KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE),
    KafkaError.UNKNOWN_TOPIC_OR_PART,
}
ResultT = TypeVar("ResultT")
RecordDigest = tuple[int, bytes]
"""The partition of a record, and a hash of its timestamp, key, value and headers."""


@dataclass(frozen=True, slots=True)
class TargetTopicLimits:
    """The settings of a topic in the cluster that a replay depends on."""

    max_batch_bytes: int | None = None
    """The size of the largest batch that the topic accepts; None if unknown."""
    keeps_timestamps: bool = True


def read_client_settings(path: Path | None) -> dict[str, str]:
    """The client settings in a Java properties file; raises UsageError, whose message never
    contains a value."""
    client_settings = {} if path is None else read_properties(path, has_secrets=True)
    for setting_name in sorted(RESERVED_SETTINGS & set(client_settings)):
        raise UsageError(f"{path}: {setting_name} is set by kfmt replay; remove it")
    return client_settings


@dataclass(slots=True)
class ClusterClient:
    """A client of a live cluster. bootstrap_servers: the bootstrap servers as the user gave them.
    client_settings: librdkafka settings of all clients."""

    bootstrap_servers: str
    client_settings: Mapping[str, str]
    n_brokers: int = 0
    cluster_id: str = ""
    n_partitions_by_topic: dict[str, int] = field(default_factory=dict)
    """Number of partitions of each topic."""
    _admin: Any = None
    _last_error: str = ""

    def connect(self) -> None:
        """Fetch the cluster's metadata; raises OutputError if it does not answer, UsageError for a
        setting that librdkafka rejects."""
        self._admin = self._create_client(AdminClient, {})
        with self.raise_output_errors():
            cluster_metadata = self._fetch_metadata()
        self.n_brokers, self.cluster_id = (
            len(cluster_metadata.brokers),
            cluster_metadata.cluster_id or "",
        )
        self.n_partitions_by_topic = {
            topic_name: len(topic_metadata.partitions)
            for topic_name, topic_metadata in cluster_metadata.topics.items()
            if topic_metadata.error is None
        }

    def _fetch_metadata(self) -> Any:
        """The cluster's metadata. Retries until the timeout, or until a connection error is known;
        then raises KafkaException."""
        for attempt in range(MAX_CONNECT_TRIES):
            try:
                return self._admin.list_topics(timeout=REQUEST_TIMEOUT_SECONDS / MAX_CONNECT_TRIES)
            except KafkaException:
                self._admin.poll(0)  # calls `_on_error` with the reason
                if attempt == MAX_CONNECT_TRIES - 1 or (attempt and self._last_error):
                    raise
        raise AssertionError

    def _create_client(
        self, client_class: Callable[..., Any], extra_settings: Mapping[str, object]
    ) -> Any:
        """A client that writes nothing to standard error; raises UsageError."""
        all_settings = {
            **self.client_settings,
            "bootstrap.servers": self.bootstrap_servers,
            **extra_settings,
        }
        try:
            return client_class({**all_settings, "error_cb": self._on_error}, logger=_LOGGER)
        except (KafkaException, TypeError, ValueError) as error:
            raise UsageError(f"--producer-config: {self.format_error(error)}") from None

    def _on_error(self, error: KafkaError) -> None:
        self._last_error = error.str()

    def format_error(self, error: BaseException) -> str:
        """The message of an error on one line, without secrets."""
        if error.__cause__ is not None:  # confluent-kafka hides errors of callbacks there
            error = error.__cause__
        error_argument = error.args[0] if error.args else error
        message = (
            error_argument.str() if isinstance(error_argument, KafkaError) else str(error_argument)
        )
        hides_cause = isinstance(error_argument, KafkaError) and error_argument.code() in (
            *(KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN),
            KafkaError._MSG_TIMED_OUT,
        )
        if hides_cause and self._last_error:
            message = f"{message}: {self._last_error}"
        for setting_name, setting_value in self.client_settings.items():
            if _SECRET_SETTING_PATTERN.search(setting_name) and setting_value:
                message = message.replace(setting_value, "***")
        return " ".join(message.split())

    @contextmanager
    def raise_output_errors(self, subject: str = "") -> Iterator[None]:
        """Raise OutputError if a request in the block fails. subject: what the request was for, for
        the message."""
        try:
            yield
        except (KafkaException, SystemError) as error:
            subject_prefix = f"{subject}: " if subject else ""
            raise OutputError(
                f"{self.bootstrap_servers}: {subject_prefix}{self.format_error(error)}"
            ) from None

    # Topics.

    def create_topic(self, plan: TopicPlan) -> None:
        """Create a topic and wait for its leaders; raises OutputError."""
        new_topic = NewTopic(
            plan.name,
            num_partitions=plan.n_partitions,
            replication_factor=plan.replication_factor,
            config=plan.settings,
        )
        try:
            self._admin.create_topics([new_topic], operation_timeout=REQUEST_TIMEOUT_SECONDS)[
                plan.name
            ].result()
        except KafkaException as error:
            message = (
                f"cannot be created: {self.format_error(error)}; create it yourself and run again"
            )
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                message = "exists, but this user is not allowed to describe it"
            raise OutputError(f"{self.bootstrap_servers}: {plan.name}: {message}") from None
        deadline_seconds = time.monotonic() + REQUEST_TIMEOUT_SECONDS
        while time.monotonic() < deadline_seconds:
            with self.raise_output_errors(plan.name):
                topic_metadata = self._admin.list_topics(
                    timeout=REQUEST_TIMEOUT_SECONDS
                ).topics.get(plan.name)
            partition_metadata = (
                () if topic_metadata is None else topic_metadata.partitions.values()
            )
            if len(partition_metadata) == plan.n_partitions and all(
                partition.leader >= 0 for partition in partition_metadata
            ):
                self.n_partitions_by_topic[plan.name] = plan.n_partitions
                return
            time.sleep(0.1)
        raise OutputError(
            f"{self.bootstrap_servers}: {plan.name}: was created, but has no leaders yet"
        )

    def read_topic_limits(self, topic: str) -> TargetTopicLimits:
        """The limits of a topic; the defaults if the user is not allowed to read its settings."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        try:
            futures_by_resource = self._admin.describe_configs(
                [resource], request_timeout=REQUEST_TIMEOUT_SECONDS
            )
            config_by_name = futures_by_resource[resource].result()
        except KafkaException:
            return TargetTopicLimits()
        byte_limits = (
            int(config_by_name[setting_name].value)
            for setting_name in ("max.message.bytes", "segment.bytes")
        )
        return TargetTopicLimits(
            min(byte_limits), config_by_name[TIMESTAMP_TYPE_SETTING].value != "LogAppendTime"
        )

    def read_log_end_offsets(
        self, topic_partitions: Iterable[tuple[str, int]]
    ) -> dict[tuple[str, int], int]:
        """The log end offsets of some partitions; raises OutputError."""
        latest_spec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        spec_by_partition = {
            TopicPartition(topic, partition): latest_spec for topic, partition in topic_partitions
        }
        if not spec_by_partition:
            return {}

        def list_offsets() -> dict[tuple[str, int], int]:
            partition_futures = self._admin.list_offsets(
                spec_by_partition, request_timeout=REQUEST_TIMEOUT_SECONDS
            ).items()
            return {
                (topic_partition.topic, topic_partition.partition): future.result().offset
                for topic_partition, future in partition_futures
            }

        with self.raise_output_errors(
            ", ".join(sorted({topic_partition.topic for topic_partition in spec_by_partition}))
        ):
            return _retry_request(list_offsets)

    def read_stable_log_end_offsets(
        self, topic_partitions: list[tuple[str, int]]
    ) -> dict[tuple[str, int], int]:
        """The log end offsets once they stay unchanged for `STABLE_OFFSETS_SECONDS`: requests of a
        killed run may still be on their way. Raises OutputError."""
        previous_offsets = self.read_log_end_offsets(topic_partitions)
        while True:
            time.sleep(STABLE_OFFSETS_SECONDS)
            current_offsets = self.read_log_end_offsets(topic_partitions)
            if current_offsets == previous_offsets:
                return current_offsets
            previous_offsets = current_offsets

    # Records.

    def create_producer(self, limits: TargetTopicLimits) -> Any:
        """An idempotent producer for one topic; raises UsageError."""
        producer_settings: dict[str, object] = {"enable.idempotence": True}
        if limits.max_batch_bytes is not None:
            max_message_bytes = min(
                max(limits.max_batch_bytes - BATCH_OVERHEAD_BYTES, 1000), 1_000_000_000
            )
            producer_settings |= {
                "message.max.bytes": max_message_bytes,
                "batch.size": min(max_message_bytes, 1_000_000),
            }
        default_settings = {
            "linger.ms": 20,
            "batch.num.messages": 100_000,
            "queue.buffering.max.messages": 200_000,
            "queue.buffering.max.kbytes": 128 << 10,
            "message.timeout.ms": 120_000,
        }
        producer_settings |= {
            setting_name: setting_value
            for setting_name, setting_value in default_settings.items()
            if setting_name not in self.client_settings
        }
        return self._create_client(Producer, producer_settings)

    def iter_record_digests(
        self,
        topic: str,
        partition: int,
        offset_bounds: tuple[int, int],
        *,
        includes_timestamps: bool,
    ) -> Iterator[tuple[RecordDigest, int]]:
        """The digests of the records of a partition with offsets in [begin, end), each with its
        offset. includes_timestamps: include timestamps in the digests. Raises OutputError."""
        begin_offset, end_offset = offset_bounds
        if end_offset - begin_offset > MAX_READ_BACK_RECORDS:
            reason = (
                f"{end_offset - begin_offset} records were written since the last acknowledged one"
            )
            raise OutputError(
                f"{self.bootstrap_servers}: {topic}-{partition}: {reason}, by another producer"
            )
        for message in (
            self._iter_messages(topic, partition, begin_offset, end_offset)
            if end_offset > begin_offset
            else ()
        ):
            timestamp_ms = message.timestamp()[1] if includes_timestamps else 0
            key_value_headers = message.key(), message.value(), message.headers()
            yield record_digest(partition, timestamp_ms, *key_value_headers), message.offset()

    def _iter_messages(
        self, topic: str, partition: int, begin_offset: int, end_offset: int
    ) -> Iterator[Any]:
        consumer_settings = {
            "group.id": "kfmt-replay",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_uncommitted",
        }
        consumer = self._create_client(Consumer, consumer_settings)
        try:
            consumer.assign([TopicPartition(topic, partition, begin_offset)])
            last_progress_seconds = time.monotonic()
            while time.monotonic() - last_progress_seconds < REQUEST_TIMEOUT_SECONDS:
                with self.raise_output_errors(f"{topic}-{partition}"):
                    messages = consumer.consume(500, 0.1)
                for message in messages:
                    last_progress_seconds = time.monotonic()
                    error = message.error()
                    if error is not None and error.code() == KafkaError._PARTITION_EOF:
                        return
                    if error is not None:
                        error_text = (
                            f"{topic}-{partition}: {self.format_error(KafkaException(error))}"
                        )
                        raise OutputError(f"{self.bootstrap_servers}: {error_text}")
                    if message.offset() >= end_offset:
                        return
                    yield message
                    if message.offset() == end_offset - 1:
                        return
        finally:
            consumer.close()
        error_text = f"records from offset {begin_offset} onward cannot be read"
        raise OutputError(f"{self.bootstrap_servers}: {topic}-{partition}: {error_text}")

    # Groups.

    def read_active_group_states(self, groups: Iterable[str]) -> dict[str, str]:
        """The state of each group that is neither empty nor dead; raises OutputError."""
        state_by_group = {}
        for group in sorted(groups):
            with self.raise_output_errors(f"group {group}"):
                state = _retry_request(lambda name=group: self._read_group_state(name))  # type: ignore[misc]
            if state not in (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD):
                state_by_group[group] = state.name.lower()
        return state_by_group

    def _read_group_state(self, group: str) -> ConsumerGroupState:
        """The state of a group, DEAD for an unknown one; raises KafkaException."""
        future_by_group = self._admin.describe_consumer_groups(
            [group], request_timeout=REQUEST_TIMEOUT_SECONDS
        )
        try:
            group_state: ConsumerGroupState = future_by_group[group].result().state
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return ConsumerGroupState.DEAD
            raise
        return group_state

    def commit_offsets(
        self, group: str, partition_offsets: Iterable[tuple[str, int, int, str | None]]
    ) -> None:
        """Commit the offsets of a group, as tuples of topic, partition, offset and metadata. Raises
        OutputError."""
        topic_partitions = [
            TopicPartition(topic, partition, offset, metadata or "")
            for topic, partition, offset, metadata in partition_offsets
        ]

        def alter_offsets() -> None:
            request = [ConsumerGroupTopicPartitions(group, topic_partitions)]
            future_by_group = self._admin.alter_consumer_group_offsets(
                request, request_timeout=REQUEST_TIMEOUT_SECONDS
            )
            for future in future_by_group.values():
                for topic_partition in future.result().topic_partitions:
                    if topic_partition.error is not None:
                        raise KafkaException(topic_partition.error)

        with self.raise_output_errors(f"group {group}"):
            _retry_request(alter_offsets)


def _retry_request(send_request: Callable[[], ResultT]) -> ResultT:
    """Send a request, and retry while the cluster is not ready, such as after creating a topic;
    raises KafkaException."""
    deadline_seconds = time.monotonic() + REQUEST_TIMEOUT_SECONDS
    while True:
        try:
            return send_request()
        except KafkaException as error:
            if error.args[0].code() not in RETRIABLE_ERRORS or time.monotonic() > deadline_seconds:
                raise
        time.sleep(0.2)


def record_digest(
    partition: int,
    timestamp_ms: int,
    key: bytes | None,
    value: bytes | None,
    headers: list[Header] | None,
) -> RecordDigest:
    """The digest that identifies a record in a partition, independent of its offset."""
    hasher = hashlib.blake2b(digest_size=16)
    field_values: list[bytes | None] = [b"%d" % timestamp_ms, key, value]
    for header_name, header_value in headers or ():
        field_values += [header_name.encode(), header_value]
    for field_value in field_values:
        hasher.update(b"-" if field_value is None else b"%d:" % len(field_value))
        hasher.update(field_value or b"")
    return partition, hasher.digest()
