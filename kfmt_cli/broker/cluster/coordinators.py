"""The partition of an internal topic that an id belongs to, and so the broker that coordinates it.

Source: `kafka.coordinator.group.GroupMetadataManager.partitionFor`,
`TransactionStateManager.partitionFor`, `org.apache.kafka.common.utils.Utils.abs`.
"""

from __future__ import annotations

GROUPS_TOPIC, TRANSACTIONS_TOPIC = "__consumer_offsets", "__transaction_state"
MIN_INT32 = -(1 << 31)  # its absolute value does not fit an int
# offsets.topic.num.partitions and transaction.state.log.num.partitions.
DEFAULT_INTERNAL_PARTITIONS = 50


def java_string_hash(text: str) -> int:
    """`java.lang.String.hashCode`, over UTF-16 code units, as a signed 32-bit number."""
    utf16_bytes = text.encode("utf-16-be", "surrogatepass")
    hash_value = 0
    for high_byte, low_byte in zip(utf16_bytes[::2], utf16_bytes[1::2], strict=True):
        hash_value = (31 * hash_value + (high_byte << 8 | low_byte)) & 0xFFFFFFFF
    return hash_value - (1 << 32) if hash_value >> 31 else hash_value


def compute_coordinator_partition(
    coordinator_key: str, n_partitions: int = DEFAULT_INTERNAL_PARTITIONS
) -> int:
    """The partition of a group or a transactional id."""
    hash_value = java_string_hash(coordinator_key)
    return 0 if hash_value == MIN_INT32 else abs(hash_value) % n_partitions
