"""Internal topics of Kafka and related tools, and the decoders of their records.

To add one, write its decoder and add a line to `_DECODED_TOPICS`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from kfmt_cli.core.lazy import import_object

if TYPE_CHECKING:
    from kfmt_cli.core.layout.layout import Layout
    from kfmt_cli.topics.decoder import Decoder, MessageType

CLUSTER_METADATA = "__cluster_metadata"
_CONNECT_PREFIX = r"(?:.*[._-])?(?:connect|mm2|mirrormaker2?)(?:[._-].*)?[._-]"


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """An internal topic."""

    name: str
    """Its default name."""
    doc: str
    """A description of its content."""
    pattern: str = ""
    """A regular expression for its names, if the name is configurable."""
    messages_target: str = ""
    """Its `MessageType`s, as `module:name`; empty if Kafka or the decoder defines them."""
    decoder_target: str = ""
    """Its decoder, as `module:name`; empty if the message types determine it."""


_DECODED_TOPICS = (
    KnownTopic(
        "__consumer_offsets",
        "consumer groups, their members and committed offsets",
    ),
    KnownTopic(
        "__transaction_state",
        "transactional ids and the state of their transactions",
    ),
    KnownTopic(
        "__share_group_state",
        "delivery state of share groups",
    ),
    KnownTopic(
        CLUSTER_METADATA,
        "the metadata of a KRaft cluster",
    ),
    KnownTopic(
        "__remote_log_metadata",
        "the segments in remote storage",
    ),
    KnownTopic(
        "connect-configs",
        "Kafka Connect: the configurations of connectors and tasks",
        pattern=_CONNECT_PREFIX + r"configs?(?:\..*)?",
        decoder_target="kfmt_cli.topics.connect:CONFIGS_DECODER",
    ),
    KnownTopic(
        "connect-status",
        "Kafka Connect: the state of connectors and tasks",
        pattern=_CONNECT_PREFIX + r"status(?:es)?(?:\..*)?",
        decoder_target="kfmt_cli.topics.connect:STATUS_DECODER",
    ),
    KnownTopic(
        "connect-offsets",
        "Kafka Connect: offsets of source connectors",
        pattern=_CONNECT_PREFIX + r"offsets?(?:\..*)?",
        decoder_target="kfmt_cli.topics.connect:OFFSETS_DECODER",
    ),
    KnownTopic(
        "mm2-offset-syncs",
        "MirrorMaker: matching offsets of source and mirrored partitions",
        pattern=r"mm2-offset-syncs([._-]).+\1internal",
        decoder_target="kfmt_cli.topics.mirror:OFFSET_SYNC_DECODER",
    ),
    KnownTopic(
        "checkpoints",
        "MirrorMaker: group offsets translated to the mirror",
        pattern=r".+([._-])checkpoints\1internal",
        decoder_target="kfmt_cli.topics.mirror:CHECKPOINT_DECODER",
    ),
    KnownTopic(
        "heartbeats",
        "MirrorMaker: heartbeats of each flow",
        pattern=r"(?:.+\.)?heartbeats",
        decoder_target="kfmt_cli.topics.mirror:HEARTBEAT_DECODER",
    ),
    KnownTopic(
        "_schemas",
        "Schema registry: schemas",
        decoder_target="kfmt_cli.topics.schema_registry:REGISTRY_DECODER",
    ),
)
# Topics that are recognised but not decoded.
_UNDECODED_TOPICS = (
    KnownTopic("ksqlDB's commands", "ksqlDB: its statements", r"_confluent-ksql-.*_command_topic"),
    KnownTopic("ksqlDB's log", "ksqlDB: its processing log", r".*ksql_processing_log"),
    KnownTopic(
        "Streams' changelog",
        "Kafka Streams or ksqlDB: state store changelog",
        r".+-changelog",
    ),
    KnownTopic(
        "Streams' repartition topic",
        "Kafka Streams or ksqlDB: repartition topic",
        r".+-(?:repartition|subscription-(?:registration|response)-topic)",
    ),
    KnownTopic("Confluent's metrics", "Confluent: metrics", r"_confluent-(?:telemetry-)?metrics"),
    KnownTopic("Confluent's commands", "Confluent: licences", r"_confluent-(?:command|license)"),
    KnownTopic(
        "Control Center", "Confluent: state of Control Center", r"_confluent-controlcenter-.*"
    ),
    KnownTopic("Self-Balancing", "Confluent: state of Self-Balancing", r"_confluent[_-]balancer.*"),
    KnownTopic("Confluent's other topics", "Confluent: other internal state", r"_confluent[-_].*"),
    KnownTopic("__consumer_timestamps", "Confluent Replicator: group positions as timestamps"),
    KnownTopic("Cruise Control's metrics", "Cruise Control: metrics", r"__CruiseControlMetrics"),
    KnownTopic(
        "Cruise Control's samples", "Cruise Control: samples", r"__KafkaCruiseControl.*Samples"
    ),
    KnownTopic("Strimzi's topics", "Strimzi: state of its operator", r"__strimzi[-_].*"),
    KnownTopic("__amazon_msk_canary", "Amazon MSK: heartbeats", r"__amazon_msk_canary.*"),
)
DECODED_TOPICS: dict[str, KnownTopic] = {topic.name: topic for topic in _DECODED_TOPICS}


@cache
def find_known_topic(topic_name: str | None) -> KnownTopic | None:
    """The known topic with this name, or None."""
    if topic_name is None:
        return None
    for known_topic in (*DECODED_TOPICS.values(), *_UNDECODED_TOPICS):
        if topic_name == known_topic.name or (
            known_topic.pattern and re.fullmatch(known_topic.pattern, topic_name)
        ):
            return known_topic
    return None


def topic_message_types(topic: str) -> tuple[MessageType, ...]:
    """The message types of a topic in `DECODED_TOPICS`; empty if its records are JSON."""
    return _load_decoder(DECODED_TOPICS[topic]).message_types


def _kafka_message_types(topic: str) -> tuple[MessageType, ...]:
    from kfmt_cli.formats.kafka_messages import load_message_definitions, message_layout
    from kfmt_cli.topics.decoder import MessageType

    layouts_by_type_id: dict[int, dict[str, Layout]] = {}
    for message_name, definition in load_message_definitions().items():
        if definition["where"] == topic:
            layout_argument = "key_layout" if message_name.endswith("Key") else "value_layout"
            layouts_by_type_id.setdefault(definition["id"], {})[layout_argument] = message_layout(
                message_name
            )
    return tuple(
        MessageType(type_id, **layout_by_argument)
        for type_id, layout_by_argument in layouts_by_type_id.items()
    )


@cache
def _load_decoder(known_topic: KnownTopic) -> Decoder:
    if known_topic.decoder_target:
        decoder: Decoder = import_object(known_topic.decoder_target)
        return decoder
    message_types: tuple[MessageType, ...]
    message_types = (
        import_object(known_topic.messages_target)
        if known_topic.messages_target
        else _kafka_message_types(known_topic.name)
    )
    if any(message_type.key_layout is not None for message_type in message_types):
        from kfmt_cli.topics.coordinator_records import KeyedDecoder

        return KeyedDecoder(message_types)
    from kfmt_cli.topics.enveloped_records import EnvelopedDecoder

    return EnvelopedDecoder(message_types)


def find_decoder(topic: str | None) -> Decoder | None:
    """The decoder for a topic's records, or None if kfmt does not decode them."""
    known_topic = find_known_topic(topic)
    return (
        _load_decoder(known_topic)
        if known_topic is not None and known_topic.name in DECODED_TOPICS
        else None
    )
