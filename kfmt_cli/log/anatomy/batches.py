"""The anatomy of a batch of any magic, including its compressed block."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from kfmt_cli.core.codecs.decompress import CompressionError, DecompressionLimit, decompress
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.core.layout.tree import FieldNode, read_field_tree
from kfmt_cli.core.layout.varint import VarintError, decode_uvarint, zigzag_decode
from kfmt_cli.core.times import format_time
from kfmt_cli.findings.finding import Finding
from kfmt_cli.formats.batch import (
    CODECS,
    COMPRESSION,
    CONTROL,
    MAX_SEQUENCE,
    RECORD,
    RECORD_BATCH,
    TIMESTAMP_TYPE,
)
from kfmt_cli.formats.legacy import MESSAGE_LAYOUTS
from kfmt_cli.log.anatomy.encoder_mistakes import (
    EncoderMistake,
    RecordFacts,
    find_encoder_mistake,
    find_header_mistake,
    read_record_facts,
)
from kfmt_cli.log.anatomy.field_marks import (
    HeaderMarks,
    describe_attributes,
    describe_compressed_bytes,
    mark_deltas,
    mark_length,
    mark_magic,
    mark_record,
)
from kfmt_cli.log.anatomy.part import AnatomyPart, set_checksum_meaning
from kfmt_cli.log.anatomy.payloads import decode_payload_nodes, payload_bounds
from kfmt_cli.log.block import (
    BATCH_HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    Block,
    checksummed_bytes,
)
from kfmt_cli.topics.decoder import Decoder


@dataclass(frozen=True, slots=True)
class BatchAnatomy:
    """One batch of a block, as structures with their meanings."""

    block: Block
    batch_index: int
    data: bytes
    """The batch's bytes as stored; in the block, a wrong length is fixed."""
    decoder: Decoder | None
    decompression_limit: DecompressionLimit
    only_record_index: int | None = None
    """The index of the one record to show with the header, None for all."""
    findings: Sequence[Finding] | None = None
    """The findings about the batch and its records, to mark their fields; None to mark none."""

    def iter_parts(self) -> Iterator[AnatomyPart]:
        """The batch, then its decompressed records or messages if it is compressed."""
        return (
            self._iter_v2_parts()
            if self.block.batches.is_v2[self.batch_index]
            else self._iter_legacy_parts()
        )

    def _header_value(self, column: str) -> int:
        return int(self.block.batches[column][self.batch_index])

    def _batch_part(self, nodes: Iterator[FieldNode]) -> AnatomyPart:
        base_offset = self._header_value("base_offset")
        last_offset = self._header_value("last_offset")
        offsets_text = (
            f"offset {last_offset}"
            if base_offset == last_offset
            else f"offsets {base_offset}–{last_offset}"
        )
        if not self._header_value("has_base_offset"):
            offsets_text = f"offsets up to {last_offset}"
        position = self._header_value("position")
        batch_label = f"batch {self._header_value('number')} at byte {position}"
        title = f"{batch_label}, {len(self.data)} bytes, {offsets_text}"
        return AnatomyPart(title, self.data, position, nodes)

    def _set_crc_meaning(self, node: FieldNode, uncompressed: bytes | None = None) -> None:
        """Show on its node whether the checksum matches, and which one it is if not.
        uncompressed: the batch with its records decompressed."""
        magic, position = self._header_value("magic"), self._header_value("position")
        target = checksummed_bytes(self.data, position, magic, uncompressed)
        set_checksum_meaning(
            node, target, self._header_value("crc_computed"), position + self._header_value("size")
        )

    def _decompress(
        self, compressed_node: FieldNode, compressed_range: tuple[int, int]
    ) -> bytes | None:
        """The bytes of a node decompressed; None for a failure, which is set as its error."""
        codec = self._header_value("compression")
        compressed_data = self.data[slice(*compressed_range)]
        if codec >= len(CODECS):
            compressed_node.error = f"codec {codec} is unknown"
            return None
        try:
            max_output_bytes = self.decompression_limit.max_output_bytes(len(compressed_data))
            magic = self._header_value("magic")
            decompressed = decompress(CODECS[codec], compressed_data, max_output_bytes, magic)
        except CompressionError as error:
            hint = describe_compressed_bytes(CODECS[codec], compressed_data)
            compressed_node.error = f"{error}{f'; {hint}' if hint else ''}"
            return None
        compressed_node.meaning = f"{CODECS[codec]}: {len(decompressed)} bytes decompressed"
        return decompressed

    def _iter_compressed_parts(
        self,
        nodes: Iterable[FieldNode],
        decompressed: bytes | None,
        compressed_range: tuple[int, int],
        iter_inner_nodes: Callable[[bytes], Iterator[FieldNode]],
    ) -> Iterator[AnatomyPart]:
        """The batch, then its compressed bytes decompressed, if that was possible."""
        yield self._batch_part(iter(nodes))
        if decompressed is not None:
            first_byte, end_byte = (
                self._header_value("position") + range_end for range_end in compressed_range
            )
            title = f"bytes {first_byte:x}..{end_byte - 1:x}, decompressed"
            codec = CODECS[self._header_value("compression")]
            inner_nodes = iter_inner_nodes(decompressed)
            yield AnatomyPart(title, decompressed, first_byte, inner_nodes, codec)

    def _iter_v2_parts(self) -> Iterator[AnatomyPart]:
        data, batches = self.data, self.block.batches
        header_node = read_field_tree(RECORD_BATCH, data, 0, BATCH_HEADER_BYTES)
        header_values = _integer_header_values(header_node)
        base_offset, last_offset_delta = header_values.base_offset, header_values.last_offset_delta
        header_node.require_child(
            "last_offset_delta"
        ).meaning = f"→ offset {base_offset + last_offset_delta}"
        if batches.delete_horizon[self.batch_index]:
            header_node.require_child("base_timestamp").meaning += " delete horizon"
        length_node = header_node.require_child("batch_length")
        length_node.meaning = "bytes after this field"
        if header_values.batch_length != len(data) - LOG_OVERHEAD_BYTES:
            mark_length(length_node, len(data))
        if header_values.base_sequence >= 0:
            last_sequence = (header_values.base_sequence + last_offset_delta) & MAX_SEQUENCE
            header_node.require_child("base_sequence").meaning = f"last is {last_sequence}"
        compressed_range = BATCH_HEADER_BYTES, len(data)
        compressed_node = FieldNode("records", "bytes", *compressed_range)
        is_compressed = bool(batches.compression[self.batch_index])
        records: bytes | None = data[BATCH_HEADER_BYTES:]
        if is_compressed:
            records = self._decompress(compressed_node, compressed_range)
            stored_facts = read_record_facts(header_values, data[BATCH_HEADER_BYTES:])
            if records is None and stored_facts.n_records:
                compressed_node.error = f"{compressed_node.error}; they are records, uncompressed"
        uncompressed = data[:BATCH_HEADER_BYTES] + records if is_compressed and records else None
        self._set_crc_meaning(header_node.require_child("crc"), uncompressed)
        record_node_reader = _RecordNodeReader(
            header_values,
            bool(batches.control[self.batch_index]),
            self.decoder,
            self.only_record_index,
        )
        if self.findings is not None:
            mistake = self._mark_header(header_node, header_values, records, is_compressed)
            record_node_reader = replace(record_node_reader, mistake=mistake, marks_deltas=True)
        if is_compressed:
            return self._iter_compressed_parts(
                (header_node, compressed_node),
                records,
                compressed_range,
                lambda decompressed: record_node_reader.iter_record_nodes(decompressed, 0),
            )
        record_nodes = record_node_reader.iter_record_nodes(data, BATCH_HEADER_BYTES)
        return iter([self._batch_part(chain([header_node], record_nodes))])

    def _mark_header(
        self,
        header_node: FieldNode,
        header_values: FieldDict,
        records: bytes | None,
        is_compressed: bool,
    ) -> EncoderMistake | None:
        """Mark the header's fields; returns the mistake that explains the records, if any."""
        mistake = None
        facts = RecordFacts() if records is None else read_record_facts(header_values, records)
        if self.findings and records is not None:
            batch = None if is_compressed else self.data
            mistake = find_encoder_mistake(header_values, records, batch)
        HeaderMarks(self.findings or (), mistake).mark(header_node, facts)
        attributes_node = header_node.require_child("attributes")
        if not attributes_node.is_invalid:
            attributes_node.meaning = describe_attributes(header_values.attributes)
            if not is_compressed and records and self.findings:
                hint = describe_compressed_bytes(CODECS[0], records)
                attributes_node.is_invalid = bool(hint)
                attributes_node.meaning = f"✗ the records: {hint}" if hint else ""
        return mistake

    def _iter_legacy_parts(self) -> Iterator[AnatomyPart]:
        """A message of magic 0 or 1."""
        magic = self._header_value("magic")
        stored_bytes, size_field_start = (
            self.data,
            MESSAGE_LAYOUTS[magic].field_start("message_size"),
        )
        corrected_data = (
            stored_bytes[:size_field_start]
            + (len(stored_bytes) - LOG_OVERHEAD_BYTES).to_bytes(4, "big")
            + stored_bytes[size_field_start + 4 :]
        )
        message_node = read_field_tree(
            MESSAGE_LAYOUTS[magic], corrected_data, 0, len(corrected_data)
        )
        message_node.name = f"message of magic {magic}"
        size_node = message_node.require_child("message_size")
        if corrected_data != stored_bytes:
            size_node.value = int.from_bytes(
                stored_bytes[size_field_start : size_field_start + 4], "big", signed=True
            )
            mark_length(size_node, len(stored_bytes))
        self._set_crc_meaning(message_node.require_child("crc"))
        if message_node.require_child("crc").is_invalid:
            mark_magic(message_node, stored_bytes)
        value_node = next((child for child in message_node.children if child.name == "value"), None)
        value_range = None if value_node is None else payload_bounds(value_node)
        if not self._header_value("compression") or value_node is None or value_range is None:
            if value_node is not None:
                decode_payload_nodes(
                    message_node.require_child("key"),
                    value_node,
                    corrected_data,
                    False,
                    self.decoder,
                )
            return iter([self._batch_part(iter((message_node,)))])
        return self._iter_compressed_parts(
            (message_node,),
            self._decompress(value_node, value_range),
            value_range,
            self._iter_inner_message_nodes,
        )

    def _iter_inner_message_nodes(self, decompressed: bytes) -> Iterator[FieldNode]:
        """The messages in a wrapper."""
        message_nodes = list(_iter_message_nodes(decompressed, self.decoder))
        if self._header_value("magic"):
            _set_absolute_offsets(message_nodes, self._header_value("last_offset"))
        return iter(
            message_nodes
            if self.only_record_index is None
            else message_nodes[self.only_record_index : self.only_record_index + 1]
        )


def invalid_batch_part(data: bytes, position: int) -> AnatomyPart:
    """Bytes that are not a batch of the log, decoded as a batch up to the first error."""
    magic_position = RECORD_BATCH.field_start("magic")
    magic = data[magic_position] if len(data) > magic_position else 2
    layout = MESSAGE_LAYOUTS[magic] if magic < len(MESSAGE_LAYOUTS) else RECORD_BATCH
    header_node = read_field_tree(layout, data, 0, len(data))
    title = f"byte {position} is not inside any batch; decoded as if a batch started there"
    header_values = _integer_header_values(header_node)
    if (
        magic == 2
        and header_node.is_complete
        and not COMPRESSION.extract_value(header_values.attributes)
    ):
        is_control = bool(CONTROL.extract_value(header_values.attributes))
        iter_record_nodes = _RecordNodeReader(header_values, is_control, None).iter_record_nodes
        return AnatomyPart(
            title, data, position, chain([header_node], iter_record_nodes(data, header_node.end))
        )
    mistake = find_header_mistake(data) if magic != 2 else None
    if mistake is not None:
        HeaderMarks((), mistake).mark_mistake(header_node)
    elif magic != 2:
        mark_magic(header_node, data)
    nodes = [header_node]
    if header_node.end < len(data):
        nodes.append(
            FieldNode("rest", "bytes", header_node.end, len(data), meaning="decoding stops here")
        )
    return AnatomyPart(title, data, position, iter(nodes))


def _integer_header_values(header_node: FieldNode) -> FieldDict:
    """The integer fields of a header."""
    value_by_name = {child.name: child.value for child in header_node.children}
    return FieldDict(
        {name: value for name, value in value_by_name.items() if isinstance(value, int)}
    )


@dataclass(frozen=True, slots=True)
class _RecordNodeReader:
    """The records of a batch."""

    header_values: FieldDict
    """The integer fields of the batch's header."""
    is_control: bool
    decoder: Decoder | None
    only_record_index: int | None = None
    """The index of the one record to show, None for all."""
    mistake: EncoderMistake | None = None
    """The mistake that explains the records, to mark on the first that shows it."""
    marks_deltas: bool = False
    """Whether to mark wrong offsets and timestamps."""

    def iter_record_nodes(self, data: bytes, position: int) -> Iterator[FieldNode]:
        """The records in a buffer, starting at a byte."""
        n_declared = self.header_values.records_count
        record_index, previous_delta, mistake = 0, -1, self.mistake
        if mistake is not None and mistake.is_in_header:
            mistake = None
        if self.only_record_index is not None:
            record_index, position = self._skip_records(self.only_record_index, data, position)
        while position < len(data):
            if record_index >= max(n_declared, 0):
                error = f"{len(data) - position} bytes after the last record"
                yield FieldNode("rest", "bytes", position, len(data), error=error)
                return
            record_node = read_field_tree(RECORD, data, position, len(data))
            record_node.name = f"record {record_index}"
            self._set_delta_meanings(record_node, data)
            if self.marks_deltas and self.mistake is None:
                previous_delta = mark_deltas(record_node, self.header_values, previous_delta)
            if mistake is not None and mark_record(record_node, mistake, data):
                mistake = None
            yield record_node
            if not record_node.is_complete:
                error_end = max(record_node.end, position + 1)
                if error_end < len(data):
                    yield FieldNode(
                        "rest", "bytes", error_end, len(data), meaning="decoding stops here"
                    )
                return
            position = record_node.end
            record_index += 1
            if self.only_record_index is not None:
                return
        if record_index < n_declared:
            error = f"the batch ends after {record_index} of {n_declared} records"
            yield FieldNode("end", "nothing", position, position, error=error)

    def _skip_records(self, max_records: int, data: bytes, position: int) -> tuple[int, int]:
        """Skip at most `max_records` records by their lengths, up to an invalid length; returns the
        number of skipped records, and where they end."""
        for n_skipped in range(max_records):
            try:
                encoded_length, body_start = decode_uvarint(data, position, len(data), 32)
            except VarintError:
                return n_skipped, position
            record_end = body_start + zigzag_decode(encoded_length)
            if not body_start <= record_end < len(data):
                return n_skipped, position
            position = record_end
        return max_records, position

    def _set_delta_meanings(self, record_node: FieldNode, data: bytes) -> None:
        for child in record_node.children:
            if child.name == "timestamp_delta" and isinstance(child.value, int):
                child.meaning = f"→ {self._format_timestamp(child.value)}"
            elif child.name == "offset_delta" and isinstance(child.value, int):
                child.record_offset = self.header_values.base_offset + child.value
                child.meaning = f"→ offset {child.record_offset}"
        node_by_name = FieldDict({child.name: child for child in record_node.children})
        if "value" in node_by_name:
            decode_payload_nodes(
                node_by_name.key, node_by_name.value, data, self.is_control, self.decoder
            )

    def _format_timestamp(self, timestamp_delta: int) -> str:
        if TIMESTAMP_TYPE.extract_value(self.header_values.attributes):
            return format_time(self.header_values.max_timestamp)
        return format_time(self.header_values.base_timestamp + timestamp_delta)


def _set_absolute_offsets(message_nodes: list[FieldNode], wrapper_offset: int) -> None:
    """Show the absolute offsets of the messages in a wrapper of magic 1."""
    offset_nodes = [
        message_node.children[0]
        for message_node in message_nodes
        if message_node.children and message_node.children[0].name == "offset"
    ]
    stored_offsets = [node.value for node in offset_nodes if isinstance(node.value, int)]
    for offset_node in offset_nodes:
        if isinstance(offset_node.value, int) and wrapper_offset:
            offset_node.record_offset = wrapper_offset - stored_offsets[-1] + offset_node.value
            offset_node.meaning = f"→ offset {offset_node.record_offset}"


def _iter_message_nodes(data: bytes, decoder: Decoder | None) -> Iterator[FieldNode]:
    """The messages of a set."""
    position = message_index = 0
    magic_position = MESSAGE_LAYOUTS[0].field_start("magic")
    while position < len(data):
        magic = data[position + magic_position] if position + magic_position < len(data) else 0
        if magic >= len(MESSAGE_LAYOUTS):
            yield FieldNode("rest", "bytes", position, len(data), error=f"magic {magic}")
            return
        message_node = read_field_tree(MESSAGE_LAYOUTS[magic], data, position, len(data))
        message_node.name = f"message {message_index}, magic {magic}"
        if message_node.is_complete:
            crc_node = message_node.require_child("crc")
            message = data[message_node.start : message_node.end]
            target = checksummed_bytes(message, message_node.start, magic)
            computed_crc = zlib.crc32(data[crc_node.end : message_node.end])
            set_checksum_meaning(crc_node, target, computed_crc, message_node.end)
            decode_payload_nodes(
                message_node.require_child("key"),
                message_node.require_child("value"),
                data,
                False,
                decoder,
            )
        yield message_node
        if not message_node.is_complete:
            return
        position = message_node.end
        message_index += 1
