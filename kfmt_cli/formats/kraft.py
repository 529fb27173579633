"""The Layouts of the values of KRaft control records, by type. Values begin with their version."""

from kfmt_cli.formats.control import CONTROL_TYPES
from kfmt_cli.formats.kafka_messages import message_layout

KRAFT_LAYOUT_BY_TYPE = {
    CONTROL_TYPES.index(type_): message_layout(name)
    for type_, name in (
        ("LEADER_CHANGE", "LeaderChangeMessage"),
        ("SNAPSHOT_HEADER", "SnapshotHeaderRecord"),
        ("SNAPSHOT_FOOTER", "SnapshotFooterRecord"),
        ("KRAFT_VERSION", "KRaftVersionRecord"),
        ("KRAFT_VOTERS", "VotersRecord"),
    )
}
