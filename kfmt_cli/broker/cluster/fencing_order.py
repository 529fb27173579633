"""The order in which a controller fences brokers whose sessions expire at the same time.

A controller that becomes active gives every broker that the metadata calls unfenced a new session.
If none of them is back in time, all expire at once, and are fenced in the order of a hash table.
Source: `org.apache.kafka.controller.ClusterControlManager.activate`, `BrokerHeartbeatManager`
(until 3.9: `BrokerHeartbeatStateList`; from 4.0 on `BrokerHeartbeatTracker`),
`org.apache.kafka.timeline.BaseHashTable`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_FIBONACCI_MULTIPLIER = -7046029254386353131
_UINT64_MASK = (1 << 64) - 1
_LOAD_FACTOR = 0.75
_INITIAL_BINS = 16  # of a new java.util.concurrent.ConcurrentHashMap


def predict_fencing_order(
    broker_epochs: Sequence[tuple[int, int]], stale_brokers: Iterable[int], *, feature_level: int
) -> list[int]:
    """The stale brokers in the order in which they are fenced.

    broker_epochs: the id and the broker epoch of each broker, in the order of their registrations.
    feature_level: the feature level of metadata.version, which decides how the controller stores
    sessions.
    """
    stale_nodes = set(stale_brokers)
    node_order = (
        _order_as_timeline_map(broker_epochs)
        if feature_level < _TRACKER_FEATURE_LEVEL
        else _order_as_concurrent_map(broker_epochs, stale_nodes, feature_level)
    )
    return [node for node in node_order if node in stale_nodes]


# The first levels of 4.0, which tracks sessions by id and broker epoch, and of 4.2, which hashes
# them differently.
_TRACKER_FEATURE_LEVEL, _RECORD_FEATURE_LEVEL = 22, 28


def _order_as_timeline_map(broker_epochs: Sequence[tuple[int, int]]) -> list[int]:
    """The order of a TimelineHashMap: slots by Fibonacci hashing, the last node of a slot first."""
    slots: list[list[int]] = [[], []]
    for n_inserted, (node, _) in enumerate(broker_epochs):
        if (n_inserted + 1) * _LOAD_FACTOR > len(slots):
            present_nodes = [present_node for slot in slots for present_node in slot]
            slots = [[] for _ in range(2 * len(slots))]
            for present_node in present_nodes:
                slots[_slot_index(present_node, len(slots))].append(present_node)
        slots[_slot_index(node, len(slots))].append(node)
    return [node for slot in slots for node in reversed(slot)]


def _slot_index(node: int, n_slots: int) -> int:
    return ((node * _FIBONACCI_MULTIPLIER) & _UINT64_MASK) >> (65 - n_slots.bit_length())


def _order_as_concurrent_map(
    broker_epochs: Sequence[tuple[int, int]], stale_nodes: set[int], feature_level: int
) -> list[int]:
    """The order of a ConcurrentHashMap of the ids and broker epochs of stale brokers."""
    stale_broker_epochs = [(node, epoch) for node, epoch in broker_epochs if node in stale_nodes]
    n_bins = _INITIAL_BINS
    while len(stale_broker_epochs) >= _LOAD_FACTOR * n_bins:
        n_bins *= 2
    # A record's hash begins with the first field.
    hash_seed = 0 if feature_level >= _RECORD_FEATURE_LEVEL else 31 * 31
    bins: list[list[int]] = [[] for _ in range(n_bins)]
    for node, epoch in stale_broker_epochs:
        hash_value = (hash_seed + 31 * node + (epoch ^ (epoch >> 32))) & 0xFFFFFFFF
        bins[(hash_value ^ (hash_value >> 16)) & (n_bins - 1)].append(node)
    return [node for bin_nodes in bins for node in bin_nodes]
