"""Brokers and controllers.

Source: the messages of Kafka 4.2, `org.apache.kafka.common.metadata`.
"""

from kfmt_cli.core.layout.field import Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol import Bool, ListOf, String, UInt16, UuidType
from kfmt_cli.core.layout.wire import Int8, Int16, Int32, Int64
from kfmt_cli.topics.decoder import Message

SOURCE = "org.apache.kafka.common.metadata"
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_END_POINTS = Layout(
    "EndPoints",
    "Its listeners.",
    SOURCE,
    (
        Field("name", String, "Name."),
        Field("host", String, "Host name or address."),
        Field("port", UInt16, "Port."),
        Field("security_protocol", Int16, "The security protocol.", symbols=SECURITY_PROTOCOLS),
    ),
)

_FEATURES = Layout(
    "Features",
    "Supported features.",
    SOURCE,
    (
        Field("name", String, "Name."),
        Field("min_supported_version", Int16, "Lowest supported version."),
        Field("max_supported_version", Int16, "Highest supported version."),
    ),
)

REGISTER_BROKER_RECORD = Layout(
    "RegisterBrokerRecord",
    "A broker registers.",
    SOURCE,
    (
        Field("broker_id", Int32, "The broker."),
        Field(
            "is_migrating_zk_broker",
            Bool,
            "Whether the broker is being migrated from ZooKeeper.",
            since=2,
        ),
        Field("incarnation_id", UuidType, "Incarnation id; new at each start."),
        Field("broker_epoch", Int64, "Epoch of the broker registration."),
        Field("end_points", ListOf(_END_POINTS), "Its listeners."),
        Field("features", ListOf(_FEATURES), "Supported features."),
        Field("rack", String, "The broker's rack.", nullable_since=0),
        Field("fenced", Bool, "Whether the broker is fenced."),
        Field("in_controlled_shutdown", Bool, "Whether the broker is shutting down.", since=1),
        Field(
            "log_dirs",
            ListOf(UuidType),
            "The broker's log directories.",
            since=3,
            tag=0,
            tagged_since=3,
        ),
    ),
    versions=(0, 3),
    flexible_since=0,
)

UNREGISTER_BROKER_RECORD = Layout(
    "UnregisterBrokerRecord",
    "A broker is removed from the cluster.",
    SOURCE,
    (
        Field("broker_id", Int32, "The broker."),
        Field("broker_epoch", Int64, "Epoch of the broker registration."),
    ),
    versions=(0, 0),
    flexible_since=0,
)

FENCE_BROKER_RECORD = Layout(
    "FenceBrokerRecord",
    "A broker is fenced: it leads no partitions. Written before 3.3.",
    SOURCE,
    (
        Field("id", Int32, "The broker."),
        Field("epoch", Int64, "Epoch of the broker registration."),
    ),
    versions=(0, 0),
    flexible_since=0,
)

UNFENCE_BROKER_RECORD = Layout(
    "UnfenceBrokerRecord",
    "A broker is no longer fenced. Written before 3.3.",
    SOURCE,
    (
        Field("id", Int32, "The broker."),
        Field("epoch", Int64, "Epoch of the broker registration."),
    ),
    versions=(0, 0),
    flexible_since=0,
)

BROKER_REGISTRATION_CHANGE_RECORD = Layout(
    "BrokerRegistrationChangeRecord",
    "A broker registration changes.",
    SOURCE,
    (
        Field("broker_id", Int32, "The broker."),
        Field("broker_epoch", Int64, "Epoch of the broker registration."),
        Field("fenced", Int8, "-1 unfenced, 0 unchanged, 1 fenced.", tag=0),
        Field(
            "in_controlled_shutdown",
            Int8,
            "0 unchanged, 1 shutting down.",
            since=1,
            tag=1,
            tagged_since=1,
        ),
        Field(
            "log_dirs",
            ListOf(UuidType),
            "The broker's log directories.",
            since=2,
            tag=2,
            tagged_since=2,
        ),
    ),
    versions=(0, 2),
    flexible_since=0,
)

REGISTER_CONTROLLER_RECORD = Layout(
    "RegisterControllerRecord",
    "A controller registers.",
    SOURCE,
    (
        Field("controller_id", Int32, "The controller."),
        Field("incarnation_id", UuidType, "Incarnation id; new at each start."),
        Field("zk_migration_ready", Bool, "Whether a migration from ZooKeeper can begin."),
        Field("end_points", ListOf(_END_POINTS), "Its listeners."),
        Field("features", ListOf(_FEATURES), "Supported features."),
    ),
    versions=(0, 0),
    flexible_since=0,
)

MESSAGES = (
    Message(0, REGISTER_BROKER_RECORD),
    Message(1, UNREGISTER_BROKER_RECORD),
    Message(7, FENCE_BROKER_RECORD),
    Message(8, UNFENCE_BROKER_RECORD),
    Message(17, BROKER_REGISTRATION_CHANGE_RECORD),
    Message(27, REGISTER_CONTROLLER_RECORD),
)
