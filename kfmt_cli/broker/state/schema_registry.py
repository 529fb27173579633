"""_schemas: the schemas of the subjects of a schema registry, and the schema of each id.

An id is never reused. Its schema stays known as long as the log contains a record of it, even if
the schema has been deleted since.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kfmt_cli.broker.state.replay import CompactedTopicReplay, RecordFields
from kfmt_cli.log.record_stream import StreamedRecord
from kfmt_cli.rows.types.state_rows import SCHEMA_ROW, StateType
from kfmt_cli.topics.payloads import RegisteredSchema, SchemaRegistry

DEFAULT_SCHEMA_TYPE = "AVRO"  # the type of schemas that do not name one


class SchemaRegistryReplay(CompactedTopicReplay):
    """The schemas of each subject. all_schemas: all schemas in the log, including deleted ones."""

    topic = "_schemas"
    row_types = (SCHEMA_ROW,)
    needs_only_latest = False

    def __init__(self) -> None:
        super().__init__()
        self.all_schemas = SchemaRegistry()

    def apply_record(self, record: StreamedRecord) -> None:
        super().apply_record(record)
        if record.key is None or record.value is None:
            return
        decoded_value = self.decoder.decode_value(record.key, record.value)
        schema_fields = (
            None
            if decoded_value is None or decoded_value.message_name != "Schema"
            else decoded_value.stored_values
        )
        if schema_fields is not None:
            add_registered_schema(self.all_schemas, schema_fields)

    def iter_rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        for message_name, key_fields, schema_fields in self.iter_current_records():
            if message_name == "Schema":
                yield SCHEMA_ROW, _schema_row(key_fields, schema_fields)


def add_registered_schema(registry: SchemaRegistry, schema_fields: Mapping[str, Any]) -> bool:
    """Add a schema, as the topic and the registry's REST API have it; returns whether it has an
    id."""
    schema_id = schema_fields.get("id")
    if not isinstance(schema_id, int):
        return False
    references = schema_fields.get("references")
    registry.add_schema(
        schema_id,
        _subject_and_version(schema_fields),
        RegisteredSchema(
            str(schema_fields.get("schemaType") or DEFAULT_SCHEMA_TYPE),
            str(schema_fields.get("schema")),
            tuple(
                _subject_and_version(reference)
                for reference in (references if isinstance(references, list) else ())
                if isinstance(reference, dict)
            ),
        ),
    )
    return True


def _subject_and_version(reference: Mapping[str, Any]) -> tuple[str, int]:
    """A subject and its version."""
    return str(reference.get("subject")), _version_or_minus_one(reference.get("version"))


def _version_or_minus_one(version: object) -> int:
    return version if isinstance(version, int) else -1


def _schema_row(key_fields: RecordFields, schema_fields: RecordFields) -> dict[str, Any]:
    return {
        "subject": key_fields.get("subject"),
        "version": _version_or_minus_one(key_fields.get("version")),
        "schema_id": schema_fields.get("id"),
        "schema_type": schema_fields.get("schemaType") or DEFAULT_SCHEMA_TYPE,
        "deleted": bool(schema_fields.get("deleted")),
        "schema": schema_fields.get("schema"),
        "references": schema_fields.get("references"),
    }
