"""Control records: what the key says they are, and what stands in their values.

Source: `org.apache.kafka.common.record.ControlRecordType`, `EndTransactionMarker`.
"""

from kfmt_cli.core.field import Field
from kfmt_cli.core.layout import Layout
from kfmt_cli.core.wire import Int16, Int32
from kfmt_cli.formats.kraft import (
    KRAFT_VERSION_RECORD,
    LEADER_CHANGE_MESSAGE,
    SNAPSHOT_FOOTER_RECORD,
    SNAPSHOT_HEADER_RECORD,
    VOTERS_RECORD,
)

CONTROL_TYPES = (
    "ABORT",
    "COMMIT",
    "LEADER_CHANGE",
    "SNAPSHOT_HEADER",
    "SNAPSHOT_FOOTER",
    "KRAFT_VERSION",
    "KRAFT_VOTERS",
)

# What the values of those of KRaft are, by their type; each begins with its version.
KRAFT_MESSAGES = {
    CONTROL_TYPES.index(name): message
    for name, message in (
        ("LEADER_CHANGE", LEADER_CHANGE_MESSAGE),
        ("SNAPSHOT_HEADER", SNAPSHOT_HEADER_RECORD),
        ("SNAPSHOT_FOOTER", SNAPSHOT_FOOTER_RECORD),
        ("KRAFT_VERSION", KRAFT_VERSION_RECORD),
        ("KRAFT_VOTERS", VOTERS_RECORD),
    )
}

CONTROL_RECORD_KEY = Layout(
    "ControlRecordKey",
    "The key of a control record; bytes after it are ignored.",
    "org.apache.kafka.common.record.ControlRecordType",
    (
        Field("version", Int16, "Version of the key: 0."),
        Field("type", Int16, "What the record says.", symbols=CONTROL_TYPES),
    ),
    bulk=True,
)

END_TXN_MARKER = Layout(
    "EndTxnMarker",
    "The value of an ABORT or COMMIT control record; bytes after it are ignored.",
    "org.apache.kafka.common.record.EndTransactionMarker",
    (
        Field("version", Int16, "Version of the marker: 0."),
        Field("coordinator_epoch", Int32, "Epoch of the transaction coordinator."),
    ),
    bulk=True,
)
