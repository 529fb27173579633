"""Control records: their types, and the Layouts of their keys and values.

Source: `org.apache.kafka.common.record.ControlRecordType`, `EndTransactionMarker`.
"""

from kfmt_cli.core.layout.field import Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.wire_types import Int16, Int32

CONTROL_TYPES = (
    "ABORT",
    "COMMIT",
    "LEADER_CHANGE",
    "SNAPSHOT_HEADER",
    "SNAPSHOT_FOOTER",
    "KRAFT_VERSION",
    "KRAFT_VOTERS",
)
ABORT, COMMIT = CONTROL_TYPES.index("ABORT"), CONTROL_TYPES.index("COMMIT")

# The first KRaft type; the Layouts of these values are in `formats/kraft.py`.
FIRST_KRAFT_TYPE = CONTROL_TYPES.index("LEADER_CHANGE")

CONTROL_RECORD_KEY = Layout(
    "ControlRecordKey",
    "The key of a control record; bytes after it are ignored.",
    "org.apache.kafka.common.record.ControlRecordType",
    (
        Field("version", Int16, "Version of the key: 0."),
        Field("type", Int16, "Type of the control record.", symbols=CONTROL_TYPES),
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
