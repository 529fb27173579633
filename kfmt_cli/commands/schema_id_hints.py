"""Hints that keys or values have a schema registry's framing: a zero byte, and a schema's id."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kfmt_cli.log.records import RecordColumns

MAX_SAMPLED_RECORDS = 200
MAX_SCHEMA_ID = 1 << 24  # ids count up from 1; others are numbers, or text in UTF-16
_NUMBER_SIZES = (4, 8)  # bytes of an int and of a long
_HEADER_BYTES = 5


@dataclass(slots=True)
class _Sample:
    n_payloads: int = 0
    n_framed: int = 0
    schema_ids: set[int] = field(default_factory=set)

    def add_payload(self, payload_start: bytes, size: int) -> None:
        """Count a key or value. payload_start: its first bytes."""
        self.n_payloads += 1
        schema_id = int.from_bytes(payload_start[1:_HEADER_BYTES], "big")
        has_room = size > _HEADER_BYTES and size not in _NUMBER_SIZES
        if has_room and payload_start[0] == 0 and 0 < schema_id < MAX_SCHEMA_ID:
            self.n_framed += 1
            self.schema_ids.add(schema_id)

    @property
    def is_framed(self) -> bool:
        """Whether nearly all have an id; control records, for example, have none."""
        return self.n_framed > 0 and self.n_framed >= self.n_payloads * 0.9


@dataclass(slots=True)
class SchemaIdHints:
    """Examines the first records that are shown as stored."""

    _sample_by_part: dict[str, _Sample] = field(
        default_factory=lambda: {"key": _Sample(), "value": _Sample()}
    )

    def add_records(self, records: RecordColumns) -> None:
        """Examine some records."""
        for part, sample in self._sample_by_part.items():
            n_rows = MAX_SAMPLED_RECORDS - sample.n_payloads
            if n_rows <= 0:
                continue
            positions = records.rows[part][:n_rows].tolist()
            sizes = records.rows[f"{part}_size"][:n_rows].tolist()
            for position, size in zip(positions, sizes, strict=True):
                if size >= 0:
                    payload_start = bytes(records.data[position : position + min(size, 5)])
                    sample.add_payload(payload_start, size)

    def iter_hints(self) -> Iterator[str]:
        """A hint for keys and one for values: the schema ids that they seem to have, and the
        options that decode them."""
        for part, sample in self._sample_by_part.items():
            if sample.is_framed:
                ids = sorted(sample.schema_ids)
                ids_text = ", ".join(map(str, ids[:3])) + (", …" if len(ids) > 3 else "")
                schema_text = f"{'schema id' if len(ids) == 1 else 'schema ids'} {ids_text}"
                yield f"{part}s look like {schema_text}: --{part}-format confluent --schemas DIR"
