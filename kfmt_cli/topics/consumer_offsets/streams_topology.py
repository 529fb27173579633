"""The topology of a group of Kafka Streams (KIP-1071).

Source: the messages of Kafka 4.2, `org.apache.kafka.coordinator.group.generated`.
"""

from kfmt_cli.core.layout.field import Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol import ListOf, String
from kfmt_cli.core.layout.wire import Int16, Int32
from kfmt_cli.topics.decoder import Message

SOURCE = "org.apache.kafka.coordinator.group.generated"

STREAMS_GROUP_TOPOLOGY_KEY = Layout(
    "StreamsGroupTopologyKey",
    "The topology of a streams group.",
    SOURCE,
    (Field("group_id", String, "The group."),),
    versions=(0, 0),
)

_TOPIC_CONFIGS = Layout(
    "TopicConfigs",
    "Settings of the topic.",
    SOURCE,
    (
        Field("key", String, "Name."),
        Field("value", String, "Value."),
    ),
)

_STATE_CHANGELOG_TOPICS = Layout(
    "StateChangelogTopics",
    "Changelog topics of its state stores.",
    SOURCE,
    (
        Field("name", String, "Name."),
        Field("partitions", Int32, "Number of partitions; 0 if it follows from the topology."),
        Field("replication_factor", Int16, "Replication factor; 0 for the broker default."),
        Field("topic_configs", ListOf(_TOPIC_CONFIGS), "Settings of the topic."),
    ),
)

_COPARTITION_GROUPS = Layout(
    "CopartitionGroups",
    "Topics that must be co-partitioned.",
    SOURCE,
    (
        Field("source_topics", ListOf(Int16), "Source topics."),
        Field("source_topic_regex", ListOf(Int16), "Regular expressions for source topics."),
        Field(
            "repartition_source_topics",
            ListOf(Int16),
            "Repartition topics that the subtopology reads.",
        ),
    ),
)

_SUBTOPOLOGIES = Layout(
    "Subtopologies",
    "The subtopologies.",
    SOURCE,
    (
        Field("subtopology_id", String, "The subtopology."),
        Field("source_topics", ListOf(String), "Source topics."),
        Field("source_topic_regex", ListOf(String), "Regular expressions for source topics."),
        Field(
            "state_changelog_topics",
            ListOf(_STATE_CHANGELOG_TOPICS),
            "Changelog topics of its state stores.",
        ),
        Field(
            "repartition_sink_topics",
            ListOf(String),
            "Repartition topics that the subtopology writes.",
        ),
        Field(
            "repartition_source_topics",
            ListOf(_STATE_CHANGELOG_TOPICS),
            "Repartition topics that the subtopology reads.",
        ),
        Field(
            "copartition_groups",
            ListOf(_COPARTITION_GROUPS),
            "Topics that must be co-partitioned.",
        ),
    ),
)

STREAMS_GROUP_TOPOLOGY_VALUE = Layout(
    "StreamsGroupTopologyValue",
    "Its subtopologies and their topics.",
    SOURCE,
    (
        Field("epoch", Int32, "Epoch of the topology."),
        Field("subtopologies", ListOf(_SUBTOPOLOGIES), "The subtopologies."),
    ),
    versions=(0, 0),
    flexible_since=0,
)

MESSAGES = (Message(23, STREAMS_GROUP_TOPOLOGY_VALUE, STREAMS_GROUP_TOPOLOGY_KEY),)
