"""Records of a metadata log that a broker applies to its image, or halts at."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.broker.test_cluster_state import ID_A, ID_B, TOPIC_A, Record, encoded
from tests.support.samples import kfmt

_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
REGISTERED: Record = (
    "RegisterBrokerRecord",
    1,
    {
        "broker_id": 1,
        "broker_epoch": 5,
        "incarnation_id": ID_A,
        "end_points": [],
        "features": [],
        "rack": None,
        "fenced": True,
        "is_migrating_zk_broker": False,
        "in_controlled_shutdown": False,
    },
)
PARTITION: Record = (
    "PartitionRecord",
    1,
    {
        "partition_id": 0,
        "topic_id": ID_A,
        "replicas": [1, 2],
        "isr": [1, 2],
        "removing_replicas": [],
        "adding_replicas": [],
        "leader": 1,
        "leader_epoch": 0,
        "partition_epoch": 0,
        "leader_recovery_state": 0,
        "directories": [ID_A, ID_B],
    },
)
ACL: Record = (
    "AccessControlEntryRecord",
    0,
    {
        "id": ID_A,
        "resource_type": 2,
        "resource_name": "a",
        "pattern_type": 3,
        "principal": "User:a",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    },
)


def _changed(record: Record, **fields: Any) -> Record:
    return record[0], record[1], record[2] | fields


def change(**fields: Any) -> Record:
    """A PartitionChangeRecord."""
    return "PartitionChangeRecord", 1, {"partition_id": 0, "topic_id": ID_A} | fields


def fence(name: str, broker_id: int, epoch: int) -> Record:
    """A FenceBrokerRecord or an UnfenceBrokerRecord."""
    return name, 0, {"id": broker_id, "epoch": epoch}


def broker_change(**fields: Any) -> Record:
    """A BrokerRegistrationChangeRecord."""
    return "BrokerRegistrationChangeRecord", 1, {"broker_id": 1, "broker_epoch": 5} | fields


def _removed(name: str, /, **fields: Any) -> Record:
    return name, 0, fields


BEGIN: Record = ("BeginTransactionRecord", 0, {})
END: Record = ("EndTransactionRecord", 0, {})
ABORT: Record = ("AbortTransactionRecord", 0, {})
UNREGISTERED = _removed("UnregisterBrokerRecord", broker_id=1, broker_epoch=5)
REMOVED_TOPIC = _removed("RemoveTopicRecord", topic_id=ID_A)
REMOVED_ACL = _removed("RemoveAccessControlEntryRecord", id=ID_A)
_NOT_REGISTERED = "broker {}, but that broker was not registered."
_OTHER_EPOCH = "broker 1, but the given epoch, 6, did not match the current broker epoch, 5"

FAULTS: dict[str, tuple[list[Record], str]] = {
    "fence unknown": (
        [REGISTERED, fence("FenceBrokerRecord", 2, 5)],
        f"Tried to fence {_NOT_REGISTERED.format(2)}",
    ),
    "fence epoch": (
        [REGISTERED, fence("FenceBrokerRecord", 1, 6)],
        f"Tried to fence {_OTHER_EPOCH}",
    ),
    "fence unregistered": (
        [REGISTERED, UNREGISTERED, fence("FenceBrokerRecord", 1, 5)],
        f"Tried to fence {_NOT_REGISTERED.format(1)}",
    ),
    "unfence epoch": (
        [REGISTERED, fence("UnfenceBrokerRecord", 1, 6)],
        f"Tried to unfence {_OTHER_EPOCH}",
    ),
    "change unknown": ([broker_change()], f"Tried to change {_NOT_REGISTERED.format(1)}"),
    "change epoch": (
        [REGISTERED, broker_change(broker_epoch=6)],
        f"Tried to change {_OTHER_EPOCH}",
    ),
    "change fenced 2": (
        [REGISTERED, broker_change(fenced=2)],
        "unknown value for fenced field: 2",
    ),
    "change shutdown 2": (
        [REGISTERED, broker_change(in_controlled_shutdown=2)],
        "unknown value for inControlledShutdown field: 2",
    ),
    "partition without topic": ([PARTITION], f"no topic has id {ID_A} (NullPointerException)"),
    "partition of a removed topic": (
        [TOPIC_A, REMOVED_TOPIC, PARTITION],
        f"no topic has id {ID_A} (NullPointerException)",
    ),
    "partition directories": (
        [TOPIC_A, _changed(PARTITION, directories=[ID_A])],
        "The lengths for replicas and directories do not match: 2 and 1",
    ),
    "partition recovery state": (
        [TOPIC_A, _changed(PARTITION, leader_recovery_state=2)],
        "Value 2 is not a valid leader recovery state",
    ),
    "change without topic": ([change()], f"no topic has id {ID_A} (NullPointerException)"),
    "change without partition": (
        [TOPIC_A, PARTITION, change(partition_id=1)],
        f"Unable to find partition {ID_A}:1",
    ),
    "change replicas": (
        [TOPIC_A, PARTITION, change(replicas=[1])],
        "The lengths for replicas and directories do not match: 1 and 2",
    ),
    "change recovery state": (
        [TOPIC_A, PARTITION, change(leader_recovery_state=2)],
        "Value 2 is not a valid leader recovery state",
    ),
    "remove topic": (
        [TOPIC_A, REMOVED_TOPIC, REMOVED_TOPIC],
        f"Unable to delete topic with id {ID_A}: no such topic found.",
    ),
    "remove acl": (
        [ACL, REMOVED_ACL, REMOVED_ACL],
        f"Failed to find existing ACL with ID {ID_A} in either image or changes",
    ),
    "begin twice": (
        [BEGIN, BEGIN],
        "Encountered BeginTransactionRecord while already in a transaction",
    ),
    "end without begin": (
        [TOPIC_A, END],
        "Encountered EndTransactionRecord without having seen a BeginTransactionRecord",
    ),
    "abort without begin": (
        [BEGIN, END, ABORT],
        "Encountered AbortTransactionRecord without having seen a BeginTransactionRecord",
    ),
}
"""The last record stops a broker: the records, and the beginning of the reason."""
LOADED: dict[str, list[Record]] = {
    "fenced and changed": [
        REGISTERED,
        fence("UnfenceBrokerRecord", 1, 5),
        broker_change(fenced=-1, in_controlled_shutdown=1),
        fence("FenceBrokerRecord", 1, 5),
        UNREGISTERED,
    ],
    "unregister unknown": [UNREGISTERED],
    "migrating directories": [
        TOPIC_A,
        _changed(PARTITION, directories=[_NO_ID, _NO_ID]),
        change(replicas=[1, 2, 3]),
    ],
    "no directories": [TOPIC_A, _changed(PARTITION, directories=[]), change(replicas=[1])],
    "a topic in a transaction": [BEGIN, TOPIC_A, PARTITION, END, change(leader=-2), REMOVED_TOPIC],
    "an aborted topic": [BEGIN, TOPIC_A, ABORT, TOPIC_A, REMOVED_TOPIC],
    "remove scram": [_removed("RemoveUserScramCredentialRecord", name="a", mechanism=1)],
    "remove scram of an unknown mechanism": [
        _removed("RemoveUserScramCredentialRecord", name="a", mechanism=9)
    ],
    "remove token": [("RemoveDelegationTokenRecord", 0, {"token_id": "a"})],
    "remove quota": [
        _removed("ClientQuotaRecord", entity=[], key="producer", value=0.0, remove=True)
    ],
    "remove setting": [
        _removed("ConfigRecord", resource_type=2, resource_name="a", name="b", value=None)
    ],
    "acl again": [ACL, ACL, REMOVED_ACL],
}


def write_log(directory: Path, records: Sequence[Record], base_offset: int = 0) -> None:
    """Write a log with a batch for each record."""
    lines = directory.parent / f"{directory.name}.jsonl"
    with lines.open("w") as file:
        for offset, record in enumerate(records, base_offset):
            line = {"type": "record", "offset": offset, "timestamp": 1}
            line |= {"value": encoded(*record), "value_encoding": "hex"}
            print(json.dumps(line), file=file)
    assert kfmt("build", lines, directory, "--force").code == 0
