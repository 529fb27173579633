"""The anatomy of a batch of any magic, including its compressed block."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from kfmt_cli.core.codecs.decompress import CompressionError, DecompressionLimit, decompress
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.core.layout.tree import FieldNode, read_field_tree
from kfmt_cli.core.layout.varint import VarintError, decode_uvarint, zigzag_decode
from kfmt_cli.core.times import format_time
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
from kfmt_cli.log.anatomy.part import AnatomyPart, set_checksum_meaning
from kfmt_cli.log.anatomy.payloads import decode_payload_nodes, payload_bounds
from kfmt_cli.log.block import (
    BATCH_HEADER_BYTES,
    CHECKSUMMED_START_BY_MAGIC,
    LOG_OVERHEAD_BYTES,
    Block,
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

    def _set_crc_meaning(self, node: FieldNode) -> None:
        """Show on its node whether the checksum matches."""
        magic, position = self._header_value("magic"), self._header_value("position")
        first_byte, end_byte = (
            position + CHECKSUMMED_START_BY_MAGIC[magic],
            position + self._header_value("size"),
        )
        checksum_label = (
            f"{'CRC-32C' if magic == 2 else 'CRC-32'} of bytes {first_byte:x}..{end_byte - 1:x}"
        )
        set_checksum_meaning(node, checksum_label, self._header_value("crc_computed"))

    def _iter_compressed_parts(
        self,
        nodes: Iterable[FieldNode],
        compressed_node: FieldNode,
        compressed_range: tuple[int, int],
        iter_inner_nodes: Callable[[bytes], Iterator[FieldNode]],
    ) -> Iterator[AnatomyPart]:
        """The batch, then a node's bytes decompressed; a failure is set as the node's error."""
        codec, compressed_data = (
            self._header_value("compression"),
            self.data[slice(*compressed_range)],
        )
        decompressed_data = None
        if codec >= len(CODECS):
            compressed_node.error = f"codec {codec} is unknown"
        else:
            try:
                max_output_bytes = self.decompression_limit.max_output_bytes(len(compressed_data))
                magic = self._header_value("magic")
                decompressed_data = decompress(
                    CODECS[codec], compressed_data, max_output_bytes, magic
                )
                compressed_node.meaning = (
                    f"{CODECS[codec]}: {len(decompressed_data)} bytes decompressed"
                )
            except CompressionError as error:
                compressed_node.error = str(error)
        yield self._batch_part(iter(nodes))
        if decompressed_data is not None:
            first_byte, end_byte = (
                self._header_value("position") + range_end for range_end in compressed_range
            )
            title = f"bytes {first_byte:x}..{end_byte - 1:x}, decompressed"
            yield AnatomyPart(
                title,
                decompressed_data,
                first_byte,
                iter_inner_nodes(decompressed_data),
                CODECS[codec],
            )

    def _iter_v2_parts(self) -> Iterator[AnatomyPart]:
        data, batches = self.data, self.block.batches
        header_node = read_field_tree(RECORD_BATCH, data, 0, BATCH_HEADER_BYTES)
        header_values = _integer_header_values(header_node)
        self._set_crc_meaning(header_node.require_child("crc"))
        base_offset, last_offset_delta = header_values.base_offset, header_values.last_offset_delta
        header_node.require_child(
            "last_offset_delta"
        ).meaning = f"→ offset {base_offset + last_offset_delta}"
        if batches.delete_horizon[self.batch_index]:
            header_node.require_child("base_timestamp").meaning += " delete horizon"
        length_node = header_node.require_child("batch_length")
        length_node.meaning = "bytes after this field"
        if header_values.batch_length != len(data) - LOG_OVERHEAD_BYTES:
            _set_length_error(length_node, len(data))
        if header_values.base_sequence >= 0:
            last_sequence = (header_values.base_sequence + last_offset_delta) & MAX_SEQUENCE
            header_node.require_child("base_sequence").meaning = f"last is {last_sequence}"
        record_node_reader = _RecordNodeReader(
            header_values,
            bool(batches.control[self.batch_index]),
            self.decoder,
            self.only_record_index,
        )
        if not batches.compression[self.batch_index]:
            return iter(
                [
                    self._batch_part(
                        chain(
                            [header_node],
                            record_node_reader.iter_record_nodes(data, BATCH_HEADER_BYTES),
                        )
                    )
                ]
            )
        compressed_node = FieldNode("records", "bytes", BATCH_HEADER_BYTES, len(data))
        compressed_range = BATCH_HEADER_BYTES, len(data)
        return self._iter_compressed_parts(
            (header_node, compressed_node),
            compressed_node,
            compressed_range,
            lambda decompressed: record_node_reader.iter_record_nodes(decompressed, 0),
        )

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
            _set_length_error(size_node, len(stored_bytes))
        self._set_crc_meaning(message_node.require_child("crc"))
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
            (message_node,), value_node, value_range, self._iter_inner_message_nodes
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


def _set_length_error(length_node: FieldNode, batch_bytes: int) -> None:
    """Show on its node that a batch's length is wrong. batch_bytes: the batch's size."""
    length_node.is_invalid = True
    length_node.meaning = (
        f"✗ should be {batch_bytes - LOG_OVERHEAD_BYTES}, according to the checksum"
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

    def iter_record_nodes(self, data: bytes, position: int) -> Iterator[FieldNode]:
        """The records in a buffer, starting at a byte."""
        n_declared = self.header_values.records_count
        record_index = 0
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
            computed_crc = zlib.crc32(data[crc_node.end : message_node.end])
            set_checksum_meaning(
                crc_node,
                f"CRC-32 of bytes {crc_node.end:x}..{message_node.end - 1:x}",
                computed_crc,
            )
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
