"""Messages that members of classic consumer groups exchange through the coordinator.

Source: the messages of Kafka 4.2, `org.apache.kafka.common.message`.
"""

from kfmt_cli.core.layout.field import Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol import Blob, ListOf, String
from kfmt_cli.core.layout.wire import Int32

SOURCE = "org.apache.kafka.common.message"

_OWNED_PARTITIONS = Layout(
    "OwnedPartitions",
    "Partitions the member previously owned.",
    SOURCE,
    (
        Field("topic", String, "The topic."),
        Field("partitions", ListOf(Int32), "The partitions."),
    ),
)

CONSUMER_PROTOCOL_SUBSCRIPTION = Layout(
    "ConsumerProtocolSubscription",
    "Subscription of a classic consumer group member.",
    SOURCE,
    (
        Field("topics", ListOf(String), "The topics."),
        Field("user_data", Blob, "Opaque data of the assignor.", nullable_since=0),
        Field(
            "owned_partitions",
            ListOf(_OWNED_PARTITIONS),
            "Partitions the member previously owned.",
            since=1,
        ),
        Field(
            "generation_id", Int32, "Generation in which the member owned its partitions.", since=2
        ),
        Field("rack_id", String, "The member's rack.", since=3, nullable_since=3),
    ),
    versions=(0, 3),
)

CONSUMER_PROTOCOL_ASSIGNMENT = Layout(
    "ConsumerProtocolAssignment",
    "Assignment of a classic consumer group member.",
    SOURCE,
    (
        Field(
            "assigned_partitions", ListOf(_OWNED_PARTITIONS), "Partitions assigned to the member."
        ),
        Field("user_data", Blob, "Opaque data of the assignor.", nullable_since=0),
    ),
    versions=(0, 3),
)
