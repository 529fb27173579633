"""The objects that commands output besides rows of tables, with their members declared once, in
`documents.md`.

JSON, CSV, the Python API, Arrow and `docs/json.md` all derive from these types.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping

from kfmt_cli.findings.finding import SEVERITIES
from kfmt_cli.findings.package_pages import read_page
from kfmt_cli.rows.column import RowType
from kfmt_cli.rows.type_pages import read_row_types

TYPES_BY_CHAPTER = read_row_types(read_page(__name__, "documents.md"))
"""The types of each chapter of the page, by their names."""
_type = dict(ChainMap(*TYPES_BY_CHAPTER.values())).__getitem__

FINDING_ROW = _type("finding")
SUPPRESSED_FINDINGS_ROW = _type("findings_left_out")

PARTITION_ROW = _type("partition")
BROKER_START_ROW = _type("broker_start")
NEXT_STEP_ROW = _type("next")
LOG_DIRECTORY_ROW = _type("log_directory")
STATISTICS_ROW = _type("stat")
DISK_USAGE_ROW = _type("disk_usage")
WHAT_IF_ROW = _type("what_if")
RETENTION_ROW = _type("retention")
ROLL_ROW = _type("roll")
FREED_ROW = _type("freed")
COMPACTION_ROW = _type("compaction")
KEY_OUTCOME_ROW = _type("key")
TRANSACTIONS_ROW = _type("transactions")
DIFF_ROW = _type("diff")
HOLE_ROW = _type("hole")
MISSING_OFFSETS_ROW = _type("missing")
REARRANGED_ROW = _type("rearranged")
RESTORED_MARKERS_ROW = _type("restored")
LOOKUP_ROW = _type("lookup")
CODE_ROW = _type("code")
EXPLAIN_PAGE_ROW = _type("topic")
WHEEL_STEP_ROW = _type("step")
FORMAT_ROW = _type("format")
FORMAT_FIELD_ROW = _type("format_field")
VARINT_ROW = _type("varint")
UNKNOWN_FILE_ROW = _type("unknown_file")
QUERY_ROW = _type("row")
PLACEMENT_ROW = _type("partition_of")
KEY_PLACEMENT_ROW = _type("partition_of_key")
REPLAYED_ROW = _type("replayed")
REPLAYED_GROUP_ROW = _type("replayed_group")

MATCH_ROW = _type("found")
TRANSACTION_ROW = _type("transaction")

DIRECTORY_ROW = _type("directory")
MERGE_ROW = _type("merge")
REPLICA_ROW = _type("replica")
REPLICAS_ROW = _type("replicas")
START_ORDER_ROW = _type("start_order")

TIME_BUCKET_ROW = _type("time_bucket")
CODEC_USE_ROW = _type("codec_use")
TIME_ORDER_ROW = _type("time_order")
SEGMENT_MAP_ROW = _type("segment_strip")
REPORT_ROW = _type("report")

COMPARED_RANGE_ROW = _type("compared_range")
COUNTED_TOPIC_ROW = _type("counted_topic")
COUNTED_PARTITION_ROW = _type("counted_partition")
COUNTED_PRODUCER_ROW = _type("counted_producer")

STATS_ROW_BY_TABLE = {
    "topics": COUNTED_TOPIC_ROW,
    "partitions": COUNTED_PARTITION_ROW,
    "producers": COUNTED_PRODUCER_ROW,
}
"""The rows of `pipeline stats`, by the names of the tables."""
SEVERITY_COUNT_COLUMNS = tuple(
    column for column in PARTITION_ROW.columns if column.name.removesuffix("s") in SEVERITIES
)


def build_members(row_type: RowType, value_by_member: Mapping[str, object]) -> dict[str, object]:
    """The members of an object in the order of its type; raises KeyError for an unknown name.

    Members without a value are null, unless the type allows omitting them.
    """
    for member_name in value_by_member:
        if member_name not in row_type.leaf_by_name:
            raise KeyError(f"{row_type.name} has no {member_name}")
    return {
        column.name: value_by_member.get(column.name)
        for column in row_type.columns
        if column.present_if is None or column.name in value_by_member
    }


def build_row(
    row_type: RowType, source: object, overrides: Mapping[str, object]
) -> dict[str, object]:
    """The members of an object, from `overrides` or else the source's attributes of that name."""
    member_names = (column.name for column in row_type.columns)
    return {
        member_name: overrides[member_name]
        if member_name in overrides
        else getattr(source, member_name)
        for member_name in member_names
    }
