"""The batches of a log as a broker steps over them, and where that fails.

A broker checks less than kfmt: it accepts a length that is not too small, silently stops at one
that reaches past the end, and verifies checksums only in log recovery. Source:
`org.apache.kafka.common.record.FileLogInputStream`, `DefaultRecordBatch`, `LegacyRecord`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from kfmt_cli.core.codecs.checksum import crc_of
from kfmt_cli.core.layout.varint import VarintError, decode, unzigzag
from kfmt_cli.core.source import Source
from kfmt_cli.disk.opening import open_source
from kfmt_cli.formats import header_numbers as header
from kfmt_cli.formats.batch import CONTROL, TRANSACTIONAL
from kfmt_cli.formats.control import ABORT
from kfmt_cli.formats.legacy import MESSAGES
from kfmt_cli.log.block import CHECKED_FROM, HEADER_SIZE, LOG_OVERHEAD, POLYNOMIALS, STORED_CRC_AT
from kfmt_cli.log.control import KEY_SIZE, MARKER_SIZE, MARKERS
from kfmt_cli.log.damages.batch_candidates import HEADER_UP_TO_MAGIC

_MESSAGE_TIME_END = MESSAGES[1].offset_of("key")
LEAST_SIZE = 14  # size of a message of magic 0, without offset and size
WINDOW = 1 << 20
PIECE = 16 << 20  # bytes read at once to compute a batch's checksum


def wrapped(value: int) -> int:
    """A sum of offsets, wrapped to 64 bits."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


class CorruptError(Exception):
    """Corruption for a broker: `CorruptRecordException`, `InvalidRecordException`."""


class StartFailed(Exception):  # noqa: N818 (it is the start that fails)
    """The broker does not start; the message has the reason. is_offline: if it has several log
    directories, it starts without this one."""

    def __init__(self, words: str, *, is_offline: bool = False) -> None:
        super().__init__(words)
        self.is_offline = is_offline


class PartialHeader(StartFailed):
    """The file ends inside the header of a batch. base_offset: the batch's, which a broker needs
    less of the header for."""

    def __init__(self, words: str, base_offset: int) -> None:
        super().__init__(words)
        self.base_offset = base_offset


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch as a broker steps over it."""

    position: int
    size: int
    """Its size in bytes, including offset and length."""
    magic: int
    base_offset: int
    last_offset: int
    """The last offset in its header."""
    max_timestamp: int = -1
    """The max timestamp in its header."""
    attributes: int = 0
    """Its attributes, if magic 2 or later."""
    producer_id: int = -1
    """Its producer id, if magic 2 or later."""

    @property
    def end(self) -> int:
        """The byte after it."""
        return self.position + self.size

    @property
    def is_transactional(self) -> bool:
        """Whether it is marked as transactional."""
        return bool(self.attributes & TRANSACTIONAL.mask)

    @property
    def is_control(self) -> bool:
        """Whether it is marked as a control batch."""
        return bool(self.attributes & CONTROL.mask)


class LogBytes:
    """The bytes of a log, read in windows; raises InputError. size: bytes at opening."""

    def __init__(self, path: str, name: str) -> None:
        self.name = name
        self._source: Source = open_source(path, name)
        self.size = self._source.size or 0
        self._at = 0
        self._held = b""

    def read(self, position: int, n: int) -> bytes:
        """Up to n bytes; fewer at the end of the file."""
        if position < self._at or position + n > self._at + len(self._held):
            self._at = position
            self._held = self._source.block(position, max(WINDOW, n), min(n, self.size))
        return self._held[position - self._at : position - self._at + n]

    def close(self) -> None:
        """Close the file."""
        self._source.close()


def batches(
    log: LogBytes, start: int, end: int, *, is_recovery: bool = False
) -> Iterator[StoredBatch]:
    """The batches from a byte onward; raises CorruptError, and StartFailed at a partial header.

    is_recovery: a batch that is shorter than its header ends the log, since recovery checks the
    size of a batch before it reads its fields.
    """
    at = start
    while at < end - HEADER_UP_TO_MAGIC:
        head = log.read(at, HEADER_SIZE)
        if len(head) < HEADER_UP_TO_MAGIC:
            return
        offset, size = header.base_offset(head), header.batch_length(head)
        if size < LEAST_SIZE:
            raise CorruptError(
                f"{log.name} byte {at}: batch size {size} is below the minimum, {LEAST_SIZE}"
            )
        if at > end - LOG_OVERHEAD - size:
            return
        if is_recovery and header.magic(head) >= 2 and LOG_OVERHEAD + size < HEADER_SIZE:
            return
        yield _batch(log, at, LOG_OVERHEAD + size, offset, head)
        at += LOG_OVERHEAD + size


def _batch(log: LogBytes, at: int, size: int, offset: int, head: bytes) -> StoredBatch:
    magic = header.magic(head)
    if magic < 2:
        has_time = magic == 1 and len(head) >= _MESSAGE_TIME_END
        time = header.message_timestamp(head) if has_time else -1
        return StoredBatch(at, size, magic, offset, offset, time)
    if len(head) < HEADER_SIZE:
        raise PartialHeader(f"{log.name} byte {at}: the file ends inside a batch header", offset)
    return StoredBatch(
        *(at, size, magic, offset, wrapped(offset + header.last_offset_delta(head))),
        *(header.max_timestamp(head), header.attributes(head), header.producer_id(head)),
    )


def is_valid(log: LogBytes, batch: StoredBatch) -> bool:
    """Whether a batch has a complete header and its checksum matches."""
    generation = 2 if batch.magic >= 2 else max(batch.magic, 0)
    if batch.magic >= 2 and batch.size < HEADER_SIZE:
        return False
    crc, at = 0, batch.position + CHECKED_FROM[generation]
    while at < batch.end:
        piece = log.read(at, min(PIECE, batch.end - at))
        if not piece:
            return False
        crc = crc_of(POLYNOMIALS[generation], piece, crc)
        at += len(piece)
    stored = log.read(batch.position + STORED_CRC_AT[generation], 4)
    return crc == int.from_bytes(stored, "big")


@dataclass(frozen=True, slots=True)
class Marker:
    """A transaction marker."""

    is_abort: bool
    coordinator_epoch: int
    timestamp: int
    """The record's timestamp."""


def read_marker(log: LogBytes, batch: StoredBatch) -> Marker | None:
    """Read a transaction marker to rebuild producer state; None if the cleaner emptied the batch.

    Raises CorruptError if a broker cannot read the marker, StartFailed if a broker does not treat
    the fault as corruption.
    """
    data = log.read(batch.position, min(batch.size, WINDOW))
    if header.records_count(data) == 0:
        return None
    try:
        _, at = decode(data, HEADER_SIZE, len(data), 32)
        delta, at = decode(data, at + 1, len(data), 64)
        _, at = decode(data, at, len(data), 32)
        raw, at = decode(data, at, len(data), 32)
        key_size = unzigzag(raw)
        key = data[at : at + max(key_size, 0)]
        raw, at = decode(data, at + max(key_size, 0), len(data), 32)
        value_size = unzigzag(raw)
    except VarintError:
        raise CorruptError("undecodable control record") from None
    if key_size < KEY_SIZE or len(key) < KEY_SIZE:
        raise CorruptError(f"control record whose key is too short (size {key_size})")
    version, type_ = struct.unpack_from(">hh", key)
    if version < 0:
        raise CorruptError(f"control record with negative version {version}")
    if type_ not in MARKERS:
        raise StartFailed(
            f"{log.name} byte {batch.position}: control record of type {type_} instead of a "
            "transaction marker"
        )
    if value_size < MARKER_SIZE or at + MARKER_SIZE > len(data):
        raise CorruptError(f"control record whose value is too short (size {value_size})")
    marker_version, coordinator_epoch = struct.unpack_from(">hi", data, at)
    if marker_version < 0:
        raise CorruptError("transaction marker with a negative version")
    timestamp = wrapped(header.base_timestamp(data) + unzigzag(delta))
    return Marker(type_ == ABORT, coordinator_epoch, timestamp)
