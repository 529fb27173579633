"""Internal topics of Kafka and of tools around it, and the decoders of their records.

To add one, write its decoder and add a line to `TOPICS`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from kfmt_cli.core.lazy import load

if TYPE_CHECKING:
    from kfmt_cli.core.layout.layout import Layout
    from kfmt_cli.topics.decoder import Decoder, Message

CLUSTER_METADATA = "__cluster_metadata"
_CONNECT = r"(?:.*[._-])?(?:connect|mm2|mirrormaker2?)(?:[._-].*)?[._-]"


@dataclass(frozen=True, slots=True)
class Topic:
    """A known topic."""

    name: str
    """Its default name."""
    doc: str
    """Its content."""
    pattern: str = ""
    """A pattern for its names, if the name is configurable."""
    messages: str = ""
    """The module and name of its kinds of records, unless Kafka or the decoder defines them."""
    decoder: str = ""
    """The module and name of its decoder, unless that follows from the messages."""


_READ = (
    Topic(
        "__consumer_offsets",
        "consumer groups, their members and committed offsets",
    ),
    Topic(
        "__transaction_state",
        "transactional ids and the state of their transactions",
    ),
    Topic(
        "__share_group_state",
        "delivery state of share groups",
    ),
    Topic(
        CLUSTER_METADATA,
        "the metadata of a KRaft cluster",
    ),
    Topic(
        "__remote_log_metadata",
        "the segments in remote storage",
    ),
    Topic(
        "connect-configs",
        "Kafka Connect: the configurations of connectors and tasks",
        pattern=_CONNECT + r"configs?(?:\..*)?",
        decoder="kfmt_cli.topics.connect:CONFIGS",
    ),
    Topic(
        "connect-status",
        "Kafka Connect: the state of connectors and tasks",
        pattern=_CONNECT + r"status(?:es)?(?:\..*)?",
        decoder="kfmt_cli.topics.connect:STATUS",
    ),
    Topic(
        "connect-offsets",
        "Kafka Connect: offsets of source connectors",
        pattern=_CONNECT + r"offsets?(?:\..*)?",
        decoder="kfmt_cli.topics.connect:OFFSETS",
    ),
    Topic(
        "mm2-offset-syncs",
        "MirrorMaker: matching offsets of source and mirrored partitions",
        pattern=r"mm2-offset-syncs\..+\.internal",
        decoder="kfmt_cli.topics.mirror:OFFSET_SYNC",
    ),
    Topic(
        "checkpoints",
        "MirrorMaker: group offsets translated to the mirror",
        pattern=r".+\.checkpoints\.internal",
        decoder="kfmt_cli.topics.mirror:CHECKPOINT",
    ),
    Topic(
        "heartbeats",
        "MirrorMaker: heartbeats of each flow",
        pattern=r"(?:.+\.)?heartbeats",
        decoder="kfmt_cli.topics.mirror:HEARTBEAT",
    ),
    Topic(
        "_schemas",
        "Schema registry: schemas",
        decoder="kfmt_cli.topics.schema_registry:REGISTRY",
    ),
)
# Topics known only by name.
_NAMED = (
    Topic("ksqlDB's commands", "ksqlDB: its statements", r"_confluent-ksql-.*_command_topic"),
    Topic("ksqlDB's log", "ksqlDB: its processing log", r".*ksql_processing_log"),
    Topic(
        "Streams' changelog",
        "Kafka Streams or ksqlDB: state store changelog",
        r".+-changelog",
    ),
    Topic(
        "Streams' repartition topic",
        "Kafka Streams or ksqlDB: repartition topic",
        r".+-(?:repartition|subscription-(?:registration|response)-topic)",
    ),
    Topic("Confluent's metrics", "Confluent: metrics", r"_confluent-(?:telemetry-)?metrics"),
    Topic("Confluent's commands", "Confluent: licences", r"_confluent-(?:command|license)"),
    Topic("Control Center", "Confluent: state of Control Center", r"_confluent-controlcenter-.*"),
    Topic("Self-Balancing", "Confluent: state of Self-Balancing", r"_confluent[_-]balancer.*"),
    Topic("Confluent's other topics", "Confluent: other internal state", r"_confluent[-_].*"),
    Topic("__consumer_timestamps", "Confluent Replicator: group positions as timestamps"),
    Topic("Cruise Control's metrics", "Cruise Control: metrics", r"__CruiseControlMetrics"),
    Topic("Cruise Control's samples", "Cruise Control: samples", r"__KafkaCruiseControl.*Samples"),
    Topic("Strimzi's topics", "Strimzi: state of its operator", r"__strimzi[-_].*"),
    Topic("__amazon_msk_canary", "Amazon MSK: heartbeats", r"__amazon_msk_canary.*"),
)
TOPICS: dict[str, Topic] = {topic.name: topic for topic in _READ}


@cache
def known_topic(name: str | None) -> Topic | None:
    """The known topic with this name, or None."""
    if name is None:
        return None
    for topic in (*TOPICS.values(), *_NAMED):
        if name == topic.name or (topic.pattern and re.fullmatch(topic.pattern, name)):
            return topic
    return None


def messages_of(topic: str) -> tuple[Message, ...]:
    """The kinds of records of a topic in `TOPICS`; empty if they are JSON."""
    return _decoder(TOPICS[topic]).messages


def _defined_by_kafka(topic: str) -> tuple[Message, ...]:
    from kfmt_cli.formats.kafka_messages import definitions, message
    from kfmt_cli.topics.decoder import Message

    layouts: dict[int, dict[str, Layout]] = {}
    for name, definition in definitions().items():
        if definition["where"] == topic:
            part = "key" if name.endswith("Key") else "value"
            layouts.setdefault(definition["id"], {})[part] = message(name)
    return tuple(Message(number, **parts) for number, parts in layouts.items())


@cache
def _decoder(topic: Topic) -> Decoder:
    if topic.decoder:
        decoder: Decoder = load(topic.decoder)
        return decoder
    messages: tuple[Message, ...]
    messages = load(topic.messages) if topic.messages else _defined_by_kafka(topic.name)
    if any(message.key is not None for message in messages):
        from kfmt_cli.topics.keyed import KeyedDecoder

        return KeyedDecoder(messages)
    from kfmt_cli.topics.enveloped import EnvelopedDecoder

    return EnvelopedDecoder(messages)


def decoder_for(topic: str | None) -> Decoder | None:
    """The decoder for a topic's records, or None if kfmt does not decode them."""
    known = known_topic(topic)
    return _decoder(known) if known is not None and known.name in TOPICS else None
