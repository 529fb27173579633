"""Settings, features, quotas, producer ids, and transactions of metadata records.

Source: the messages of Kafka 4.2, `org.apache.kafka.common.metadata`.
"""

from kfmt_cli.core.layout.field import Field, numbered
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol import Bool, Float64, ListOf, String
from kfmt_cli.core.layout.wire import Int8, Int16, Int32, Int64
from kfmt_cli.topics.decoder import Message

SOURCE = "org.apache.kafka.common.metadata"
CONFIG_RESOURCES = numbered(
    {0: "UNKNOWN", 2: "TOPIC", 4: "BROKER", 8: "BROKER_LOGGER", 16: "CLIENT_METRICS", 32: "GROUP"}
)
MIGRATION_STATES = ("NONE", "PRE_MIGRATION", "MIGRATION", "POST_MIGRATION", "ZK")

CONFIG_RECORD = Layout(
    "ConfigRecord",
    "A setting is set or removed.",
    SOURCE,
    (
        Field("resource_type", Int8, "Type of the resource.", symbols=CONFIG_RESOURCES),
        Field("resource_name", String, "Name of the resource."),
        Field("name", String, "Name of the setting."),
        Field("value", String, "Its value; null removes the setting.", nullable_since=0),
    ),
    versions=(0, 0),
    flexible_since=0,
)

FEATURE_LEVEL_RECORD = Layout(
    "FeatureLevelRecord",
    "A feature is enabled at a level.",
    SOURCE,
    (
        Field("name", String, "The feature."),
        Field("feature_level", Int16, "Level at which the feature is enabled."),
    ),
    versions=(0, 0),
    flexible_since=0,
)

_ENTITY = Layout(
    "Entity",
    "Entity of the quota, with one entry per entity type.",
    SOURCE,
    (
        Field("entity_type", String, "user, client-id or ip."),
        Field(
            "entity_name",
            String,
            "Name of the entity; null is the default of its type.",
            nullable_since=0,
        ),
    ),
)

CLIENT_QUOTA_RECORD = Layout(
    "ClientQuotaRecord",
    "A quota is set or removed.",
    SOURCE,
    (
        Field("entity", ListOf(_ENTITY), "Entity of the quota, with one entry per entity type."),
        Field("key", String, "Name of the quota."),
        Field("value", Float64, "Its value."),
        Field("remove", Bool, "Whether the quota is removed."),
    ),
    versions=(0, 0),
    flexible_since=0,
)

PRODUCER_IDS_RECORD = Layout(
    "ProducerIdsRecord",
    "A block of producer ids is allocated to a broker.",
    SOURCE,
    (
        Field("broker_id", Int32, "The broker that the block is allocated to."),
        Field("broker_epoch", Int64, "Epoch of that broker registration."),
        Field("next_producer_id", Int64, "First id of the next block."),
    ),
    versions=(0, 0),
    flexible_since=0,
)

NO_OP_RECORD = Layout(
    "NoOpRecord",
    "Nothing: it only advances the log end offset.",
    SOURCE,
    (),
    versions=(0, 0),
    flexible_since=0,
)

ZK_MIGRATION_STATE_RECORD = Layout(
    "ZkMigrationStateRecord",
    "State of a migration from ZooKeeper.",
    SOURCE,
    (
        Field(
            "zk_migration_state",
            Int8,
            "State of the migration from ZooKeeper.",
            symbols=MIGRATION_STATES,
        ),
    ),
    versions=(0, 0),
    flexible_since=0,
)

BEGIN_TRANSACTION_RECORD = Layout(
    "BeginTransactionRecord",
    "The records that follow take effect together, at EndTransactionRecord.",
    SOURCE,
    (Field("name", String, "Purpose of the transaction.", nullable_since=0, tag=0),),
    versions=(0, 0),
    flexible_since=0,
)

END_TRANSACTION_RECORD = Layout(
    "EndTransactionRecord",
    "The transaction takes effect.",
    SOURCE,
    (),
    versions=(0, 0),
    flexible_since=0,
)

ABORT_TRANSACTION_RECORD = Layout(
    "AbortTransactionRecord",
    "The transaction has no effect.",
    SOURCE,
    (Field("reason", String, "Why it was aborted.", nullable_since=0, tag=0),),
    versions=(0, 0),
    flexible_since=0,
)

MESSAGES = (
    Message(4, CONFIG_RECORD),
    Message(12, FEATURE_LEVEL_RECORD),
    Message(14, CLIENT_QUOTA_RECORD),
    Message(15, PRODUCER_IDS_RECORD),
    Message(20, NO_OP_RECORD),
    Message(21, ZK_MIGRATION_STATE_RECORD),
    Message(23, BEGIN_TRANSACTION_RECORD),
    Message(24, END_TRANSACTION_RECORD),
    Message(25, ABORT_TRANSACTION_RECORD),
)
