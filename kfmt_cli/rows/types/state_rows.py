"""The rows of the state in an internal topic, from `states.md`.

Any column may be null.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kfmt_cli.findings.package_pages import read_page
from kfmt_cli.rows.column import Column, ColumnKind, RowType
from kfmt_cli.rows.type_pages import read_row_types

StateType = RowType

_type = read_row_types(read_page(__name__, "states.md"))["State"].__getitem__
_LOAD_ERROR = "load_error"
GROUP_ROW = _type("group")
MEMBER_ROW = _type("member")
COMMITTED_OFFSET_ROW = _type("committed_offset")
TRANSACTIONAL_ID_ROW = _type("transactional_id")
SHARE_PARTITION_ROW = _type("share_partition")
REMOTE_SEGMENT_ROW = _type("remote_segment")
REMOTE_PARTITION_ROW = _type("remote_partition")
BROKER_ROW = _type("broker")
CONTROLLER_ROW = _type("controller")
TOPIC_ROW = _type("topic")
PARTITION_STATE_ROW = _type("partition")
CONFIG_ROW = _type("config")
FEATURE_ROW = _type("feature")
ACL_ROW = _type("acl")
QUOTA_ROW = _type("quota")
SCRAM_USER_ROW = _type("scram_user")
DELEGATION_TOKEN_ROW = _type("delegation_token")
PRODUCER_IDS_ROW = _type("producer_ids")
CONNECTOR_ROW = _type("connector")
CONNECTOR_TASK_ROW = _type("connector_task")
CONNECTOR_STATUS_ROW = _type("connector_status")
TASK_STATUS_ROW = _type("task_status")
CONNECTOR_TOPIC_ROW = _type("connector_topic")
SOURCE_OFFSET_ROW = _type("source_offset")
MIRROR_SYNC_ROW = _type("mirror_sync")
MIRROR_CHECKPOINT_ROW = _type("mirror_checkpoint")
MIRROR_HEARTBEAT_ROW = _type("mirror_heartbeat")
SCHEMA_ROW = _type("schema")


def add_change_columns(row_type: RowType) -> RowType:
    """The row type plus columns for the change of each row between two offsets."""
    change_column = Column("change", ColumnKind.TEXT, "added, changed or removed since the offset.")
    before_column = Column(
        "before",
        ColumnKind.JSON,
        "Previous values of changed columns.",
        present_if=("is_changed", 1),
    )
    return replace(row_type, columns=(*row_type.columns, change_column, before_column))


def without_load_errors(
    row_type: RowType, rows: list[tuple[Any, ...]]
) -> tuple[RowType, list[tuple[Any, ...]]]:
    """A row type and its rows without the column load_error, if all of it is null."""
    names = [column.name for column in row_type.columns]
    if _LOAD_ERROR not in names:
        return row_type, rows
    index = names.index(_LOAD_ERROR)
    if any(row[index] is not None for row in rows):
        return row_type, rows
    columns = (*row_type.columns[:index], *row_type.columns[index + 1 :])
    return replace(row_type, columns=columns), [(*row[:index], *row[index + 1 :]) for row in rows]
