"""_schemas: the schemas of the subjects of a schema registry, and the schema of each id.

An id is never reused. Its schema stays known as long as the log contains a record of it, even if
the schema has been deleted since.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kfmt_cli.broker.state.replay import CompactedTopicReplay, RecordFields
from kfmt_cli.log.record_stream import Record
from kfmt_cli.rows.types.state_rows import SCHEMA_ROW, StateType
from kfmt_cli.topics.payloads import RegisteredSchema, SchemaRegistry

DEFAULT_SCHEMA_TYPE = "AVRO"  # the type of schemas that do not name one


class SchemaRegistryReplay(CompactedTopicReplay):
    """The schemas of each subject. all_schemas: all schemas in the log, including deleted ones."""

    topic = "_schemas"
    row_types = (SCHEMA_ROW,)

    def __init__(self) -> None:
        super().__init__()
        self.all_schemas = SchemaRegistry()

    def apply_record(self, record: Record) -> None:
        super().apply_record(record)
        if record.key is None or record.value is None:
            return
        decoded = self.decoder.decode_value(record.key, record.value)
        data = None if decoded is None or decoded.name != "Schema" else decoded.data
        id_ = None if data is None else data.get("id")
        if data is None or not isinstance(id_, int):
            return
        references = data.get("references")
        self.all_schemas.add(
            id_,
            _subject_version(data),
            RegisteredSchema(
                str(data.get("schemaType") or DEFAULT_SCHEMA_TYPE),
                str(data.get("schema")),
                tuple(
                    _subject_version(reference)
                    for reference in (references if isinstance(references, list) else ())
                    if isinstance(reference, dict)
                ),
            ),
        )

    def iter_rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        for name, key, value in self.iter_current():
            if name == "Schema":
                yield SCHEMA_ROW, _schema_row(key, value)


def _subject_version(value: Mapping[str, Any]) -> tuple[str, int]:
    """A subject and its version."""
    return str(value.get("subject")), _version_number(value.get("version"))


def _version_number(value: object) -> int:
    return value if isinstance(value, int) else -1


def _schema_row(key: RecordFields, value: RecordFields) -> dict[str, Any]:
    return {
        "subject": key.get("subject"),
        "version": _version_number(key.get("version")),
        "schema_id": value.get("id"),
        "schema_type": value.get("schemaType") or DEFAULT_SCHEMA_TYPE,
        "deleted": bool(value.get("deleted")),
        "schema": value.get("schema"),
        "references": value.get("references"),
    }
