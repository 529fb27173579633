"""Finds the encoder's mistake in a batch that does not match Kafka's layout.

Each likely mistake is a variant of the Layouts: a varint without zigzag, a fixed number in its
place, a field that is missing. The variant that makes all records end where the batch ends, with
increasing offsets, is the answer. Damaged bytes match none of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from kfmt_cli.core.layout import varint
from kfmt_cli.core.layout.field import Field
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.wire_types import (
    ArrayWireType,
    Buffer,
    BytesWireType,
    Int8,
    Int16,
    Int32,
    Int64,
    VarintWireType,
    WireError,
    ZigZag32,
)
from kfmt_cli.formats.batch import RECORD, RECORD_BATCH, RECORD_HEADER, TIMESTAMP_TYPE

MAX_EXAMINED_BYTES = 1 << 20
ALL_FIELDS = "*"
_HEADERS = "headers"


@dataclass(frozen=True, slots=True)
class _PlainVarint:
    """A varint that was written without zigzag."""

    name: str = "varint without zigzag"
    size: None = None

    def read(self, data: Buffer, position: int, end: int) -> tuple[int, int]:
        try:
            unsigned, next_position = varint.decode_uvarint(data, position, end, 64)
        except varint.VarintError as error:
            raise WireError(str(error), position, error.status) from None
        return unsigned - (unsigned >> 63 << 64), next_position


@dataclass(frozen=True, slots=True)
class _HighGroupFirstVarint:
    """A zigzag varint whose 7-bit groups were written highest first."""

    name: str = "varint, highest group first"
    size: None = None

    def read(self, data: Buffer, position: int, end: int) -> tuple[int, int]:
        unsigned = 0
        for index in range(position, min(end, position + varint.MAX_VARINT_BYTES[64])):
            unsigned = unsigned << 7 | data[index] & 0x7F
            if data[index] < 0x80:
                return varint.zigzag_decode(unsigned), index + 1
        raise WireError("not a varint", position, "VARINT_TOO_LONG")


_VARINT_TEXTS: tuple[tuple[Any, str], ...] = (
    (_PlainVarint(), "does your encoder leave out zigzag?"),
    (Int32, "does your encoder write an int32 where Kafka has a varint?"),
    (Int64, "does your encoder write an int64 where Kafka has a varint?"),
    (Int16, "does your encoder write an int16 where Kafka has a varint?"),
    (Int8, "does your encoder write an int8 where Kafka has a varint?"),
    (_HighGroupFirstVarint(), "does your encoder write the highest 7 bits first?"),
)
_FIXED_TEXTS: tuple[tuple[Any, str], ...] = (
    *(
        (wire_type, f"does your encoder write it as {wire_type.name}?")
        for wire_type in (Int8, Int16, Int32, Int64)
    ),
    (ZigZag32, "does your encoder write it as a varint?"),
)
_MISSING_TEXT = "does your encoder leave out {name}?"


@dataclass(frozen=True, slots=True)
class EncoderMistake:
    """A mistake that explains all bytes of a batch's records.

    field_path: the field that is written wrongly; the first, if several are. is_in_header: whether
    it is a field of the batch header. question_template: see `question`. wire_type: the type with
    which the field is written; None if it is missing, or correct by itself.
    """

    field_path: tuple[str, ...]
    question_template: str
    wire_type: Any = None
    is_in_header: bool = False

    @property
    def question(self) -> str:
        """The likely mistake."""
        return self.question_template.format(name=self.field_path[-1])


@dataclass(frozen=True, slots=True)
class RecordFacts:
    """The records of a batch up to the first that cannot be read: their number, their largest
    offset delta and timestamp; None if unknown."""

    n_records: int | None = None
    last_delta: int | None = None
    max_timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class _RecordVariant:
    layout: Layout
    mistake: EncoderMistake


def find_encoder_mistake(
    header_values: FieldDict, records: bytes, batch: bytes | None
) -> EncoderMistake | None:
    """The mistake that explains a batch's records, or None.

    header_values: the integer fields of the batch's header. records: its records, decompressed.
    batch: the whole batch if it is not compressed, else None.
    """
    if len(records) > MAX_EXAMINED_BYTES:
        return None
    expectation = _Expectation.from_header(header_values)
    if expectation.explains(RECORD, records, needs_times=False):
        return next(_find_in_records(expectation, records, needs_times=True), None)
    for needs_times in (True, False):
        if mistake := next(_find_in_records(expectation, records, needs_times=needs_times), None):
            return mistake
    mistake = _find_length_mistake(expectation, records)
    if mistake is None and batch is not None:
        mistake = find_header_mistake(batch)
    return mistake


def read_record_facts(header_values: FieldDict, records: bytes) -> RecordFacts:
    """The facts about a batch's records, decompressed; none if they cannot all be read, or are
    many."""
    if len(records) > MAX_EXAMINED_BYTES:
        return RecordFacts()
    position, rows = 0, []
    try:
        while position < len(records):
            row, position = RECORD.read_values(records, position, len(records))
            rows.append((row["offset_delta"], row["timestamp_delta"]))
    except WireError:
        return RecordFacts()
    if not rows:
        return RecordFacts(n_records=0)
    last_delta, max_timestamp_delta = map(max, zip(*rows, strict=True))
    return RecordFacts(len(rows), last_delta, header_values.base_timestamp + max_timestamp_delta)


@dataclass(frozen=True, slots=True)
class _Expectation:
    """What the records of a batch must amount to, as its header says."""

    n_records: int | None
    max_offset_delta: int | None
    base_timestamp: int
    max_timestamp: int | None

    @classmethod
    def from_header(cls, values: FieldDict) -> _Expectation:
        has_append_time = TIMESTAMP_TYPE.extract_value(values.attributes)
        return cls(
            values.records_count,
            values.last_offset_delta,
            values.base_timestamp,
            None if has_append_time else values.max_timestamp,
        )

    def explains(self, layout: Layout, records: bytes, *, needs_times: bool) -> bool:
        """Whether these are the records as a layout has them, up to the last byte."""
        position, previous_delta, n_records, timestamps = 0, -1, 0, []
        try:
            while position < len(records):
                row, position = layout.read_values(records, position, len(records))
                offset_delta, timestamp_delta = (
                    row.get("offset_delta"),
                    row.get("timestamp_delta"),
                )
                if isinstance(offset_delta, int):
                    if offset_delta <= previous_delta:
                        return False
                    previous_delta = offset_delta
                if isinstance(timestamp_delta, int):
                    timestamps.append(self.base_timestamp + timestamp_delta)
                n_records += 1
        except (WireError, ValueError, OverflowError):
            return False
        if self.n_records is not None and n_records != self.n_records:
            return False
        if self.max_offset_delta is not None and previous_delta > self.max_offset_delta:
            return False
        is_time_known = self.max_timestamp is not None and timestamps
        return n_records > 0 and not (
            needs_times and is_time_known and max(timestamps) != self.max_timestamp
        )


def _find_in_records(
    expectation: _Expectation, records: bytes, *, needs_times: bool
) -> Iterator[EncoderMistake]:
    if needs_times and expectation.explains(RECORD, records, needs_times=True):
        return
    for variant in _record_variants():
        if expectation.explains(variant.layout, records, needs_times=needs_times):
            yield variant.mistake


def _record_variants() -> Iterator[_RecordVariant]:
    """The Layout of a record with each likely mistake, in one field or in all."""
    paths = [path for path in _record_paths() if _varint_type(path) is not None]
    for wire_type, question in _VARINT_TEXTS:
        for group in (paths, [path for path in paths if not path[0].endswith("_delta")]):
            layout = _replace_types(dict.fromkeys(group, wire_type))
            every = "in every varint" if group is paths else "in every length and count"
            mistake = EncoderMistake(group[0], f"{question.removesuffix('?')}, {every}?", wire_type)
            yield _RecordVariant(layout, mistake)
        for path in paths:
            mistake = EncoderMistake(path, question, wire_type)
            yield _RecordVariant(_replace_types({path: wire_type}), mistake)
    for name in ("attributes", "timestamp_delta", "offset_delta", "key", "value", _HEADERS):
        fields = tuple(field for field in RECORD.fields if field.name != name)
        yield _RecordVariant(
            replace(RECORD, fields=fields, bulk=False), EncoderMistake((name,), _MISSING_TEXT)
        )
    for wire_type, question in _FIXED_TEXTS[1:]:
        yield _RecordVariant(
            _replace_types({("attributes",): wire_type}),
            EncoderMistake(("attributes",), question, wire_type),
        )


def _record_paths() -> Iterator[tuple[str, ...]]:
    for field in RECORD.fields:
        yield (field.name,)
    for field in RECORD_HEADER.fields:
        yield (_HEADERS, field.name)


def _varint_type(path: tuple[str, ...]) -> object:
    """The varint of a field: its value, length or count; None if it has none."""
    layout = RECORD if len(path) == 1 else RECORD_HEADER
    wire_type = layout.field(path[-1]).type
    for attribute in ("length_type", "count_type"):
        wire_type = getattr(wire_type, attribute, wire_type)
    return wire_type if isinstance(wire_type, VarintWireType) else None


def _replace_types(type_by_path: dict[tuple[str, ...], Any]) -> Layout:
    """The Layout of a record with other types of numbers, lengths and counts."""

    def fields_of(layout: Layout, prefix: tuple[str, ...]) -> Any:
        for field in layout.fields:
            number_type = type_by_path.get((*prefix, field.name))
            wire_type: Any = field.type
            if isinstance(wire_type, BytesWireType):
                if number_type is not None:
                    wire_type = replace(wire_type, length_type=number_type)
            elif isinstance(wire_type, ArrayWireType):
                row_layout = replace(
                    wire_type.row_layout,
                    fields=tuple(fields_of(wire_type.row_layout, (field.name,))),
                    bulk=False,
                )
                wire_type = replace(
                    wire_type, count_type=number_type or wire_type.count_type, row_layout=row_layout
                )
            elif number_type is not None:
                wire_type = number_type
            yield replace(field, type=wire_type)

    return replace(RECORD, fields=tuple(fields_of(RECORD, ())), bulk=False)


def _find_length_mistake(expectation: _Expectation, records: bytes) -> EncoderMistake | None:
    """The mistake of records whose fields are right, but whose lengths all count other bytes."""
    fields = tuple(replace(field, is_frame_size=False) for field in RECORD.fields)
    layout = replace(RECORD, fields=fields, bulk=False)
    if not expectation.explains(layout, records, needs_times=False):
        return None
    position, differences, is_itself_counted = 0, set(), True
    while position < len(records):
        row, end = layout.read_values(records, position, len(records))
        _, body_start = ZigZag32.read(records, position, len(records))
        difference = row["length"] - (end - body_start)
        differences.add(difference)
        is_itself_counted &= difference == body_start - position
        position = end
    if is_itself_counted:
        return EncoderMistake(("length",), "does your encoder count the length field itself?")
    if len(differences) > 1:
        return EncoderMistake(("length",), "the fields after it take another number of bytes")
    (difference,) = differences
    direction = "more" if difference > 0 else "fewer"
    n_bytes = abs(difference)
    question = f"it counts {n_bytes} byte{'s' * (n_bytes != 1)} {direction} than the record has"
    return EncoderMistake(("length",), question)


def find_header_mistake(batch: bytes) -> EncoderMistake | None:
    """The field of a batch header that is missing or has another size, if that makes its records
    valid; None if there is none. batch: a batch that is not compressed."""
    if len(batch) > MAX_EXAMINED_BYTES:
        return None
    # Without a length, any size of the batch fits: it is tried last.
    fields = sorted(RECORD_BATCH.fields, key=lambda field: field.name == "batch_length")
    for needs_times in (True, False):
        for field in fields:
            for wire_type, question in ((None, _MISSING_TEXT), *_FIXED_TEXTS):
                is_right = wire_type == field.type or field.name == "magic"
                if not is_right and _explains_batch(field, wire_type, batch, needs_times):
                    return EncoderMistake((field.name,), question, wire_type, is_in_header=True)
    return None


def _explains_batch(field: Field, wire_type: Any, batch: bytes, needs_times: bool) -> bool:
    """Whether a batch is right if a field of its header has another type, or None, is missing."""
    index = RECORD_BATCH.fields.index(field)
    new_fields = () if wire_type is None else (replace(field, type=wire_type),)
    fields = (*RECORD_BATCH.fields[:index], *new_fields, *RECORD_BATCH.fields[index + 1 :])
    layout = replace(RECORD_BATCH, fields=fields, bulk=False)
    try:
        values, records_start = layout.read_values(batch, 0, len(batch))
    except WireError:
        return False
    header_start = 0 if field.name == "base_offset" and wire_type is None else 12
    if field.name == "base_offset" and wire_type is not None:
        header_start = len(wire_type.encode(0)) + 4
    declared_length = values.get("batch_length", len(batch) - header_start)
    if values.magic != 2 or declared_length != len(batch) - header_start:
        return False
    expectation = _Expectation(
        values.get("records_count"),
        values.get("last_offset_delta"),
        values.get("base_timestamp", 0),
        values.get("max_timestamp"),
    )
    return expectation.explains(RECORD, batch[records_start:], needs_times=needs_times)
