"""The anatomy of a batch of any magic, including its compressed block."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

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


@dataclass(frozen=True, slots=True)
class BatchAnatomy:
    """Batch i of a block."""

    block: Block
    i: int
    data: bytes
    """Its bytes in the file; the reader fixes a wrong length."""
    decoder: Decoder | None
    limit: Limit
    only: int | None = None
    """The number of the one record to show with the header, None for all."""

    def parts(self) -> Iterator[AnatomyPart]:
        """The batch, and the block that is compressed in it."""
        return self._batch() if self.block.batches.is_v2[self.i] else self._message()

    def _number(self, name: str) -> int:
        return int(self.block.batches[name][self.i])

    def _part(self, nodes: Iterator[Node]) -> AnatomyPart:
        base, last = self._number("base_offset"), self._number("last_offset")
        offsets = f"offset {last}" if base == last else f"offsets {base}–{last}"
        if not self._number("has_base_offset"):
            offsets = f"offsets up to {last}"
        position = self._number("position")
        place = f"batch {self._number('number')} at byte {position}"
        title = f"{place}, {len(self.data)} bytes, {offsets}"
        return AnatomyPart(title, self.data, position, nodes)

    def _show_crc(self, node: Node) -> None:
        """Show on its node whether the checksum matches."""
        magic, position = self._number("magic"), self._number("position")
        first, end = position + CHECKED_FROM[magic], position + self._number("size")
        covered = f"{'CRC-32C' if magic == 2 else 'CRC-32'} of bytes {first:x}..{end - 1:x}"
        show_checksum(node, covered, self._number("crc_computed"))

    def _opened(
        self,
        nodes: Iterable[Node],
        packed: Node,
        place: tuple[int, int],
        inside: Callable[[bytes], Iterator[Node]],
    ) -> Iterator[AnatomyPart]:
        """A batch, and what is compressed in a node's bytes; their failure is set on the node."""
        codec, data = self._number("compression"), self.data[slice(*place)]
        plain = None
        if codec >= len(CODECS):
            packed.fault = f"codec {codec} is unknown"
        else:
            try:
                limit, magic = self.limit.of(len(data)), self._number("magic")
                plain = decompress(CODECS[codec], data, limit, magic)
                packed.meaning = f"{CODECS[codec]}: {len(plain)} bytes decompressed"
            except CompressionError as error:
                packed.fault = str(error)
        yield self._part(iter(nodes))
        if plain is not None:
            first, end = (self._number("position") + at for at in place)
            words = f"bytes {first:x}..{end - 1:x}, decompressed"
            yield AnatomyPart(words, plain, first, inside(plain), CODECS[codec])

    def _batch(self) -> Iterator[AnatomyPart]:
        data, batches = self.data, self.block.batches
        header = tree(RECORD_BATCH, data, 0, HEADER_SIZE)
        numbers = _numbers(header)
        self._show_crc(header.child("crc"))
        base, delta = numbers.base_offset, numbers.last_offset_delta
        header.child("last_offset_delta").meaning = f"→ offset {base + delta}"
        if batches.delete_horizon[self.i]:
            header.child("base_timestamp").meaning += " delete horizon"
        length = header.child("batch_length")
        length.meaning = "bytes after this field"
        if numbers.batch_length != len(data) - LOG_OVERHEAD:
            _mended(length, len(data))
        if numbers.base_sequence >= 0:
            last = (numbers.base_sequence + delta) & MAX_SEQUENCE
            header.child("base_sequence").meaning = f"last is {last}"
        inside = _Inside(numbers, bool(batches.control[self.i]), self.decoder, self.only)
        if not batches.compression[self.i]:
            return iter([self._part(chain([header], inside.records(data, HEADER_SIZE)))])
        packed = Node("records", "bytes", HEADER_SIZE, len(data))
        place = HEADER_SIZE, len(data)
        return self._opened((header, packed), packed, place, lambda plain: inside.records(plain, 0))

    def _message(self) -> Iterator[AnatomyPart]:
        """A message of magic 0 or 1."""
        magic = self._number("magic")
        stored, at = self.data, MESSAGES[magic].offset_of("message_size")
        data = stored[:at] + (len(stored) - LOG_OVERHEAD).to_bytes(4, "big") + stored[at + 4 :]
        node = tree(MESSAGES[magic], data, 0, len(data))
        node.name = f"message of magic {magic}"
        size = node.child("message_size")
        if data != stored:
            size.value = int.from_bytes(stored[at : at + 4], "big", signed=True)
            _mended(size, len(stored))
        self._show_crc(node.child("crc"))
        value = next((child for child in node.children if child.name == "value"), None)
        place = None if value is None else bytes_of(value)
        if not self._number("compression") or value is None or place is None:
            if value is not None:
                open_payload(node.child("key"), value, data, False, self.decoder)
            return iter([self._part(iter((node,)))])
        return self._opened((node,), value, place, self._messages)

    def _messages(self, plain: bytes) -> Iterator[Node]:
        """The messages in a wrapper."""
        inner = list(_inner(plain, self.decoder))
        if self._number("magic"):
            _place(inner, self._number("last_offset"))
        return iter(inner if self.only is None else inner[self.only : self.only + 1])


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
        return AnatomyPart(title, data, position, chain([header], records(data, header.end)))
    nodes = [header]
    if header.end < len(data):
        nodes.append(Node("rest", "bytes", header.end, len(data), meaning="decoding stops here"))
    return AnatomyPart(title, data, position, iter(nodes))


def _numbers(header: Node) -> Fields:
    """The numbers in a header."""
    values = {child.name: child.value for child in header.children}
    return Fields({name: value for name, value in values.items() if isinstance(value, int)})


def _mended(length: Node, size: int) -> None:
    """Show on its node that the length of a batch is wrong. size: its bytes."""
    length.is_bad = True
    length.meaning = f"✗ should be {size - LOG_OVERHEAD}, according to the checksum"


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
