"""A schema registry: the schemas of its subjects, and the schema of each id.

An id is never reused. It stays known as long as the log contains a record of it, even if the schema
has been deleted since.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kfmt_cli.broker.state.replay import Data, LatestOfKeys
from kfmt_cli.log.stream import Record
from kfmt_cli.rows.types.state_types import SCHEMA, StateType
from kfmt_cli.topics.payloads import Registered, SchemaRegistry

AVRO = "AVRO"  # the type of schemas that do not name one


class RegistryReplay(LatestOfKeys):
    """The schemas of each subject. every: all schemas in the log, including deleted ones."""

    topic = "_schemas"
    types = (SCHEMA,)

    def __init__(self) -> None:
        super().__init__()
        self.every = SchemaRegistry()

    def take(self, record: Record) -> None:
        super().take(record)
        if record.key is None or record.value is None:
            return
        said = self.decoder.value(record.key, record.value)
        data = None if said is None or said.name != "Schema" else said.data
        id_ = None if data is None else data.get("id")
        if data is None or not isinstance(id_, int):
            return
        references = data.get("references")
        self.every.add(
            id_,
            _version(data),
            Registered(
                str(data.get("schemaType") or AVRO),
                str(data.get("schema")),
                tuple(
                    _version(reference)
                    for reference in (references if isinstance(references, list) else ())
                    if isinstance(reference, dict)
                ),
            ),
        )

    def rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        for name, key, value in self.said():
            if name == "Schema":
                yield SCHEMA, _row(key, value)


def _version(value: Mapping[str, Any]) -> tuple[str, int]:
    """A subject and its version."""
    return str(value.get("subject")), _number(value.get("version"))


def _number(value: object) -> int:
    return value if isinstance(value, int) else -1


def _row(key: Data, value: Data) -> dict[str, Any]:
    return {
        "subject": key.get("subject"),
        "version": _number(key.get("version")),
        "schema_id": value.get("id"),
        "schema_type": value.get("schemaType") or AVRO,
        "deleted": bool(value.get("deleted")),
        "schema": value.get("schema"),
        "references": value.get("references"),
    }
