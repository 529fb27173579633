"""The partition of an internal topic that an id belongs to, and so the broker that coordinates it.

Source: `kafka.coordinator.group.GroupMetadataManager.partitionFor`,
`TransactionStateManager.partitionFor`, `org.apache.kafka.common.utils.Utils.abs`.
"""

from __future__ import annotations

GROUPS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
LEAST = -(1 << 31)  # the number whose absolute value does not fit an int
PARTITIONS = 50  # offsets.topic.num.partitions and transaction.state.log.num.partitions


def string_hash(text: str) -> int:
    """`java.lang.String.hashCode`, over UTF-16 code units, as a signed 32-bit number."""
    units = text.encode("utf-16-be", "surrogatepass")
    number = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        number = (31 * number + (high << 8 | low)) & 0xFFFFFFFF
    return number - (1 << 32) if number >> 31 else number


def partition_of_id(text: str, partitions: int = PARTITIONS) -> int:
    """The partition of a group or a transactional id."""
    number = string_hash(text)
    return 0 if number == LEAST else abs(number) % partitions
