"""Marks the fields of a batch that findings are about, each with the reason and the likely mistake
of the program that encoded it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kfmt_cli.core.codecs.checksum import compute_crc
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.core.layout.tree import FieldNode
from kfmt_cli.core.times import format_time, suggest_time_unit
from kfmt_cli.findings import codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.formats.batch import CODECS, COMPRESSION, RECORD_BATCH, TIMESTAMP_TYPE
from kfmt_cli.log.anatomy.encoder_mistakes import EncoderMistake, RecordFacts
from kfmt_cli.log.block import (
    CHECKSUMMED_START_BY_MAGIC,
    CRC_POSITION_BY_MAGIC,
    LOG_OVERHEAD_BYTES,
    POLYNOMIAL_BY_MAGIC,
)

# The header field that each finding is about.
FIELD_BY_CODE = {
    codes.CODEC_UNKNOWN: "attributes",
    codes.MAX_TIMESTAMP_MISMATCH: "max_timestamp",
    codes.OFFSET_OUT_OF_SEGMENT: "base_offset",
    codes.RECORDS_COUNT_MISMATCH: "records_count",
    codes.RECORDS_BEYOND_OFFSETS: "records_count",
}
# The bytes with which other formats begin than the one that attributes name.
_COMPRESSED_PREFIXES = (
    (b"\x1f\x8b", "gzip"),
    (b"\x82SNAPPY\x00", "snappy"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
)
_ZLIB_PREFIXES = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
# What a batch length counts besides the bytes after it, by the excess; see `RECORD_BATCH`.
_LENGTH_QUESTIONS = {
    LOG_OVERHEAD_BYTES: "does your encoder count the bytes before it too?",
    4: "does your encoder count the length field itself?",
    **{
        LOG_OVERHEAD_BYTES - RECORD_BATCH.field_start(name): f"does your encoder count from {text}?"
        for name, text in (("magic", "magic"), ("crc", "crc"), ("attributes", "attributes"))
    },
    LOG_OVERHEAD_BYTES - RECORD_BATCH.dtype.itemsize: "does your encoder count only the records?",
}


@dataclass(frozen=True, slots=True)
class HeaderMarks:
    """Marks the fields of a batch header."""

    findings: Iterable[Finding] = ()
    mistake: EncoderMistake | None = None

    def mark(self, header_node: FieldNode, facts: RecordFacts) -> None:
        """Mark the fields of a header. facts: about the records."""
        for finding in self.findings:
            name = FIELD_BY_CODE.get(finding.code)
            if finding.code is codes.OFFSETS_BACKWARDS:
                is_end = finding.detail.lstrip().startswith("ends")
                name = "last_offset_delta" if is_end else "base_offset"
            if name is not None:
                node = header_node.require_child(name)
                _mark_field(node, finding.detail.lstrip(": "), facts)
        self.mark_mistake(header_node)
        _describe_unmarked({child.name: child for child in header_node.children}, facts)

    def mark_mistake(self, header_node: FieldNode) -> None:
        """Mark the field of a header that is missing or has another size."""
        mistake = self.mistake
        if mistake is None or not mistake.is_in_header:
            return
        for child in header_node.children:
            if child.name == mistake.field_path[0]:
                child.is_invalid = True
                child.meaning = f"✗ {mistake.question}"


def _mark_field(node: FieldNode, reason: str, facts: RecordFacts) -> None:
    if not node.is_invalid:
        node.is_invalid = True
        question = _value_question(node, _expected_value(node.name, facts))
        node.meaning = f"✗ {reason}{f'; {question}' if question else ''}"


def _describe_unmarked(node_by_name: Mapping[str, FieldNode], facts: RecordFacts) -> None:
    """Describe values that are no damage, but that no producer of Kafka writes."""
    values = {
        name: node.value for name, node in node_by_name.items() if isinstance(node.value, int)
    }
    for name in ("base_timestamp", "max_timestamp"):
        node, value = node_by_name[name], values.get(name, -1)
        if not node.meaning and value != -1:
            node.meaning = suggest_time_unit(value)
            if not node.meaning and not _is_recent(value):
                node.meaning = _swap_question(node, _is_recent)
    delta_node = node_by_name["last_offset_delta"]
    is_later = facts.last_delta is not None and values["last_offset_delta"] > facts.last_delta
    if is_later and not delta_node.is_invalid:
        delta_node.meaning += (
            f"; the last record has delta {facts.last_delta}: compaction leaves such batches, "
            "encoders do not"
        )
        if question := _swap_question(delta_node, lambda value: value == facts.last_delta):
            delta_node.meaning = question
    if values.get("producer_id") == -1:
        for name in ("producer_epoch", "base_sequence"):
            if values.get(name, -1) != -1:
                node_by_name[name].meaning = "unused without a producer id; Kafka writes -1"


def mark_length(length_node: FieldNode, batch_bytes: int) -> None:
    """Mark a wrong batch length. batch_bytes: the batch's size."""
    right_length = batch_bytes - LOG_OVERHEAD_BYTES
    length_node.is_invalid = True
    length_node.meaning = f"✗ should be {right_length}, according to the checksum"
    question = _swap_question(length_node, lambda value: value == right_length)
    if isinstance(length_node.value, int):
        question = question or _LENGTH_QUESTIONS.get(length_node.value - right_length, "")
    if question:
        length_node.meaning += f"; {question}"


def mark_record(record_node: FieldNode, mistake: EncoderMistake, data: bytes) -> bool:
    """Mark the field of a record that an encoder wrote wrongly; returns whether its bytes show the
    mistake, or the record ends before them. data: the records."""
    node = _find_field(record_node, mistake.field_path)
    has_length = bool(node.children) and node.children[0].name == "length"
    holder = node.children[0] if has_length else node
    value_text, shows_mistake = "", True
    if mistake.wire_type is not None:
        value = _read_otherwise(mistake.wire_type, data, holder)
        shows_mistake = value != holder.value or not record_node.is_complete
        hex_text = data[holder.start : max(holder.end, holder.start + 1)].hex(" ")
        is_plain = mistake.wire_type.name.endswith("zigzag")
        reading = f"unsigned, {hex_text} is" if is_plain else f"as {mistake.wire_type.name} it is"
        value_text = f"{reading} {value}; "
    if shows_mistake:
        for marked_node in (node, holder) if node.value is None else (holder,):
            marked_node.is_invalid = True
            marked_node.meaning = f"✗ {value_text}{mistake.question}"
    return shows_mistake


def _find_field(record_node: FieldNode, field_path: tuple[str, ...]) -> FieldNode:
    """The field of a record, in its first header for one of a header; the last that could be read
    if it is not there."""
    node = record_node
    for name in field_path:
        parents = [node, *(child for child in node.children if child.name == "0")]
        children = [child for parent in parents for child in parent.children]
        match = next((child for child in children if child.name == name), None)
        if match is None:
            return children[-1] if children else node
        node = match
    return node


def mark_deltas(record_node: FieldNode, header_values: FieldDict, previous_delta: int) -> int:
    """Mark the offset of a record that does not follow the previous record's, or that is not in the
    batch, and a timestamp that is not a delta; returns the offset delta."""
    base_offset, last_delta = header_values.base_offset, header_values.last_offset_delta
    node_by_name = {child.name: child for child in record_node.children}
    time_node, offset_node = node_by_name.get("timestamp_delta"), node_by_name.get("offset_delta")
    if time_node is not None and isinstance(time_node.value, int):
        base_timestamp = header_values.base_timestamp
        if _is_recent(time_node.value) and base_timestamp > 0:
            time_node.is_invalid = True
            time_node.meaning = (
                f"✗ {format_time(base_timestamp + time_node.value)}; does your encoder write the "
                "timestamp, not its distance from the base?"
            )
    if offset_node is None or not isinstance(offset_node.value, int):
        return previous_delta
    delta, reason = offset_node.value, ""
    if delta < 0 or delta > last_delta >= 0:
        reason = f"the batch has offsets {base_offset}–{base_offset + last_delta}"
    elif delta <= previous_delta:
        reason = f"the record before it has offset {base_offset + previous_delta}"
    if not reason:
        return delta
    if base_offset and base_offset <= delta <= base_offset + last_delta:
        reason += "; does your encoder write the offset, not its distance from the base?"
    elif previous_delta == last_delta == header_values.records_count - 1:
        reason += "; does your encoder count from 1?"
    offset_node.is_invalid = True
    offset_node.meaning = f"✗ offset {base_offset + delta}, but {reason}"
    return delta


def mark_magic(header_node: FieldNode, data: bytes) -> None:
    """Mark the magic of a batch that its checksum shows to be magic 2 although its magic byte
    differs."""
    start = CHECKSUMMED_START_BY_MAGIC[2]
    stored_crc = int.from_bytes(data[CRC_POSITION_BY_MAGIC[2] : start], "big")
    node = next((child for child in header_node.children if child.name == "magic"), None)
    if node is None or compute_crc(POLYNOMIAL_BY_MAGIC[2], data[start:]) != stored_crc:
        return
    node.is_invalid = True
    node.meaning = "✗ as magic 2, the checksum matches; does your encoder write another magic?"


def describe_compressed_bytes(codec: str, data: bytes) -> str:
    """The actual format of compressed bytes that do not match the codec in the attributes; empty if
    unknown."""
    if codec == "gzip" and data.startswith(_ZLIB_PREFIXES):
        return "they are in zlib format; gzip has a header of its own"
    for prefix, name in _COMPRESSED_PREFIXES:
        if data.startswith(prefix):
            if name == codec:
                return ""
            needed = "no codec" if codec == "none" else codec
            return (
                f"they begin as {name} does, codec {CODECS.index(name)}; attributes name {needed}"
            )
    if codec == "lz4":
        return "an LZ4 frame begins with 04 22 4d 18; does your encoder write an LZ4 block?"
    return ""


def _read_otherwise(wire_type: object, data: bytes, node: FieldNode) -> object:
    """The number at a node as another type; None if it cannot be read so."""
    try:
        return wire_type.read(data, node.start, len(data))[0]  # type: ignore[attr-defined]
    except ValueError:
        return None


def _expected_value(name: str, facts: RecordFacts) -> int | None:
    if name == "max_timestamp":
        return facts.max_timestamp
    if name == "last_offset_delta":
        return None if facts.n_records is None else facts.n_records - 1
    return facts.n_records if name == "records_count" else None


def _value_question(node: FieldNode, expected: int | None) -> str:
    """The likely mistake that led to a wrong value; empty if unknown."""
    if not isinstance(node.value, int):
        return ""
    if node.name.endswith("_timestamp"):
        return suggest_time_unit(node.value) or _swap_question(node, _is_recent)
    if expected is None:
        return ""
    if node.name == "last_offset_delta" and node.value == expected + 1:
        return "does your encoder write the number of records?"
    return _swap_question(node, lambda value: value == expected)


def _is_recent(time_ms: int) -> bool:
    """Whether a time is one of this century, as Kafka's timestamps are."""
    return 946_684_800_000 <= time_ms < 4_102_444_800_000


def _swap_question(node: FieldNode, is_right: Callable[[int], bool]) -> str:
    """The question whether a number is little-endian, if it is then right."""
    size = node.end - node.start
    if not isinstance(node.value, int) or not size:
        return ""
    swapped = int.from_bytes(node.value.to_bytes(size, "little", signed=True), "big", signed=True)
    if not is_right(swapped):
        return ""
    return f"little-endian it is {swapped}: does your encoder write little-endian numbers?"


def describe_attributes(attributes: int) -> str:
    """The unusual attributes of a batch, as text; empty if there are none."""
    swapped = (attributes & 0xFF) << 8 | (attributes >> 8 & 0xFF)
    known = COMPRESSION.mask | TIMESTAMP_TYPE.mask | 0x70
    if attributes & ~known & 0xFFFF:
        question = "; does your encoder write little-endian numbers?" if swapped <= known else ""
        return f"bits above 6 are unused{question}"
    return ""
