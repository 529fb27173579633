"""The anatomy of a batch of any magic, including its compressed block."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from kfmt_cli.core.codecs.decompress import CompressionError, Limit, decompress
from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.core.layout.tree import Node, tree
from kfmt_cli.core.layout.varint import VarintError, decode, unzigzag
from kfmt_cli.core.times import time_text
from kfmt_cli.formats.batch import (
    CODECS,
    COMPRESSION,
    CONTROL,
    MAX_SEQUENCE,
    RECORD,
    RECORD_BATCH,
    TIMESTAMP_TYPE,
)
from kfmt_cli.formats.legacy import MESSAGES
from kfmt_cli.log.anatomy.part import AnatomyPart, show_checksum
from kfmt_cli.log.anatomy.payloads import bytes_of, open_payload
from kfmt_cli.log.block import CHECKED_FROM, HEADER_SIZE, LOG_OVERHEAD, Block
from kfmt_cli.topics.decoder import Decoder


def batch_parts(
    block: Block,
    i: int,
    data: bytes,
    decoder: Decoder | None,
    limit: Limit,
    only: int | None = None,
) -> Iterator[AnatomyPart]:
    """Batch i of a block. data: its bytes in the file; the reader fixes a wrong length.
    only: the number of the one record to show with the header, None for all."""
    batches = block.batches
    position = int(batches.position[i])
    if batches.is_v2[i]:
        yield from _batch(block, i, data, position, decoder, limit, only)
    else:
        yield from _message(block, i, data, position, decoder, limit, only)


def loose_part(data: bytes, position: int) -> AnatomyPart:
    """Bytes that are not a batch of the log, decoded as one as long as possible."""
    magic_at = RECORD_BATCH.offset_of("magic")
    magic = data[magic_at] if len(data) > magic_at else 2
    layout = MESSAGES[magic] if magic < len(MESSAGES) else RECORD_BATCH
    header = tree(layout, data, 0, len(data))
    title = f"byte {position} is not inside any batch; decoded as if a batch started there"
    numbers = _numbers(header)
    if magic == 2 and header.is_whole and not COMPRESSION.of(numbers.attributes):
        is_control = bool(CONTROL.of(numbers.attributes))
        records = _Inside(numbers, is_control, None).records
        return AnatomyPart(title, data, position, _in_turn(header, records(data, header.end)))
    nodes = [header]
    if header.end < len(data):
        nodes.append(Node("rest", "bytes", header.end, len(data), meaning="decoding stops here"))
    return AnatomyPart(title, data, position, iter(nodes))


def _numbers(header: Node) -> Fields:
    """The numbers in a header."""
    values = {child.name: child.value for child in header.children}
    return Fields({name: value for name, value in values.items() if isinstance(value, int)})


def _title(block: Block, i: int, data: bytes) -> str:
    batches = block.batches
    base, last = int(batches.base_offset[i]), int(batches.last_offset[i])
    offsets = f"offset {last}" if base == last else f"offsets {base}–{last}"
    if not batches.has_base_offset[i]:
        offsets = f"offsets up to {last}"
    place = f"batch {batches.number[i]} at byte {batches.position[i]}"
    return f"{place}, {len(data)} bytes, {offsets}"


# Magic 2.


def _batch(
    block: Block,
    i: int,
    data: bytes,
    position: int,
    decoder: Decoder | None,
    limit: Limit,
    only: int | None,
) -> Iterator[AnatomyPart]:
    header = tree(RECORD_BATCH, data, 0, HEADER_SIZE)
    numbers = _numbers(header)
    _crc(header.child("crc"), block, i)
    base, delta = numbers.base_offset, numbers.last_offset_delta
    header.child("last_offset_delta").meaning = f"→ offset {base + delta}"
    if block.batches.delete_horizon[i]:
        header.child("base_timestamp").meaning += " delete horizon"
    length = header.child("batch_length")
    length.meaning = "bytes after this field"
    if numbers.batch_length != len(data) - LOG_OVERHEAD:
        _mended(length, len(data))
    if numbers.base_sequence >= 0:
        last = (numbers.base_sequence + delta) & MAX_SEQUENCE
        header.child("base_sequence").meaning = f"last is {last}"
    inside = _Inside(numbers, bool(block.batches.control[i]), decoder, only)
    title = _title(block, i, data)
    codec = int(block.batches.compression[i])
    if not codec:
        records = inside.records(data, HEADER_SIZE)
        yield AnatomyPart(title, data, position, _in_turn(header, records))
        return
    packed = Node("records", "bytes", HEADER_SIZE, len(data))
    plain = _decompressed(packed, codec, data[HEADER_SIZE:], limit, 2)
    yield AnatomyPart(title, data, position, iter((header, packed)))
    if plain is not None:
        words = f"bytes {position + HEADER_SIZE:x}..{position + len(data) - 1:x}, decompressed"
        records = inside.records(plain, 0)
        yield AnatomyPart(words, plain, position + HEADER_SIZE, records, CODECS[codec])


def _in_turn(first: Node, others: Iterator[Node]) -> Iterator[Node]:
    yield first
    yield from others


def _crc(node: Node, block: Block, i: int) -> None:
    """Show on its node whether the checksum of a batch matches."""
    batches = block.batches
    magic, position = int(batches.magic[i]), int(batches.position[i])
    first, end = position + CHECKED_FROM[magic], position + int(batches.size[i])
    name = "CRC-32C" if magic == 2 else "CRC-32"
    show_checksum(node, f"{name} of bytes {first:x}..{end - 1:x}", int(batches.crc_computed[i]))


def _mended(length: Node, size: int) -> None:
    """Show on its node that the length of a batch is wrong. size: its bytes."""
    length.is_bad = True
    length.meaning = f"✗ should be {size - LOG_OVERHEAD}, according to the checksum"


def _decompressed(node: Node, codec: int, data: bytes, limit: Limit, magic: int) -> bytes | None:
    """Decompress a block, and set the result or the failure on its node."""
    if codec >= len(CODECS):
        node.fault = f"codec {codec} is unknown"
        return None
    try:
        plain = decompress(CODECS[codec], data, limit.of(len(data)), magic)
    except CompressionError as error:
        node.fault = str(error)
        return None
    node.meaning = f"{CODECS[codec]}: {len(plain)} bytes decompressed"
    return plain


@dataclass(frozen=True, slots=True)
class _Inside:
    """The records of a batch."""

    header: Fields
    """The numbers in its header."""
    control: bool
    decoder: Decoder | None
    only: int | None = None
    """The number of the one record to show, None for all."""

    def records(self, data: bytes, at: int) -> Iterator[Node]:
        """The records in a buffer, starting at a byte."""
        declared = self.header.records_count
        n = 0
        if self.only is not None:
            n, at = self._skipped(self.only, data, at)
        while at < len(data):
            if n >= max(declared, 0):
                words = f"{len(data) - at} bytes after the last record"
                yield Node("rest", "bytes", at, len(data), fault=words)
                return
            record = tree(RECORD, data, at, len(data))
            record.name = f"record {n}"
            self._explain(record, data)
            yield record
            if not record.is_whole:
                end = max(record.end, at + 1)
                if end < len(data):
                    yield Node("rest", "bytes", end, len(data), meaning="decoding stops here")
                return
            at = record.end
            n += 1
            if self.only is not None:
                return
        if n < declared:
            words = f"the batch ends after {n} of {declared} records"
            yield Node("end", "nothing", at, at, fault=words)

    def _skipped(self, most: int, data: bytes, at: int) -> tuple[int, int]:
        """Skip at most `most` records by their lengths, up to an invalid length; returns how many,
        and where they end."""
        for n in range(most):
            try:
                raw, begin = decode(data, at, len(data), 32)
            except VarintError:
                return n, at
            end = begin + unzigzag(raw)
            if not begin <= end < len(data):
                return n, at
            at = end
        return most, at

    def _explain(self, record: Node, data: bytes) -> None:
        for child in record.children:
            if child.name == "timestamp_delta" and isinstance(child.value, int):
                child.meaning = f"→ {self._timestamp(child.value)}"
            elif child.name == "offset_delta" and isinstance(child.value, int):
                child.offset = self.header.base_offset + child.value
                child.meaning = f"→ offset {child.offset}"
        named = Fields({child.name: child for child in record.children})
        if "value" in named:
            open_payload(named.key, named.value, data, self.control, self.decoder)

    def _timestamp(self, delta: int) -> str:
        if TIMESTAMP_TYPE.of(self.header.attributes):
            return time_text(self.header.max_timestamp)
        return time_text(self.header.base_timestamp + delta)


# Magic 0 and 1.


def _message(
    block: Block,
    i: int,
    data: bytes,
    position: int,
    decoder: Decoder | None,
    limit: Limit,
    only: int | None,
) -> Iterator[AnatomyPart]:
    magic = int(block.batches.magic[i])
    stored, at = data, MESSAGES[magic].offset_of("message_size")
    data = stored[:at] + (len(stored) - LOG_OVERHEAD).to_bytes(4, "big") + stored[at + 4 :]
    node = tree(MESSAGES[magic], data, 0, len(data))
    node.name = f"message of magic {magic}"
    size = node.child("message_size")
    if data != stored:
        size.value = int.from_bytes(stored[at : at + 4], "big", signed=True)
        _mended(size, len(stored))
    _crc(node.child("crc"), block, i)
    codec = int(block.batches.compression[i])
    value = next((child for child in node.children if child.name == "value"), None)
    place = None if value is None else bytes_of(value)
    if not codec or value is None or place is None:
        if value is not None:
            open_payload(node.child("key"), value, data, False, decoder)
        yield AnatomyPart(_title(block, i, data), stored, position, iter((node,)))
        return
    plain = _decompressed(value, codec, data[place[0] : place[1]], limit, magic)
    yield AnatomyPart(_title(block, i, data), stored, position, iter((node,)))
    if plain is not None:
        words = f"bytes {position + place[0]:x}..{position + place[1] - 1:x}, decompressed"
        inner = list(_inner(plain, decoder))
        if magic:
            _place(inner, int(block.batches.last_offset[i]))
        inner = inner if only is None else inner[only : only + 1]
        yield AnatomyPart(words, plain, position + place[0], iter(inner), CODECS[codec])


def _place(messages: list[Node], of_wrapper: int) -> None:
    """Show the absolute offsets of the messages in a wrapper of magic 1."""
    offsets = [
        message.children[0]
        for message in messages
        if message.children and message.children[0].name == "offset"
    ]
    stored = [offset.value for offset in offsets if isinstance(offset.value, int)]
    for offset in offsets:
        if isinstance(offset.value, int) and of_wrapper:
            offset.offset = of_wrapper - stored[-1] + offset.value
            offset.meaning = f"→ offset {offset.offset}"


def _inner(data: bytes, decoder: Decoder | None) -> Iterator[Node]:
    """The messages of a set."""
    at = n = 0
    magic_at = MESSAGES[0].offset_of("magic")
    while at < len(data):
        magic = data[at + magic_at] if at + magic_at < len(data) else 0
        if magic >= len(MESSAGES):
            yield Node("rest", "bytes", at, len(data), fault=f"magic {magic}")
            return
        node = tree(MESSAGES[magic], data, at, len(data))
        node.name = f"message {n}, magic {magic}"
        if node.is_whole:
            crc = node.child("crc")
            computed = zlib.crc32(data[crc.end : node.end])
            show_checksum(crc, f"CRC-32 of bytes {crc.end:x}..{node.end - 1:x}", computed)
            open_payload(node.child("key"), node.child("value"), data, False, decoder)
        yield node
        if not node.is_whole:
            return
        at = node.end
        n += 1
