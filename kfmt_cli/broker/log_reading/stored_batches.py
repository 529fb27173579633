"""The batches of a log as a broker steps over them, and where that fails.

A broker checks less than kfmt: it accepts a length that is not too small, silently stops at one
that reaches past the end, and verifies checksums only in log recovery. Source:
`org.apache.kafka.common.record.FileLogInputStream`, `DefaultRecordBatch`, `LegacyRecord`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from kfmt_cli.core.codecs.checksum import compute_crc
from kfmt_cli.core.layout.varint import VarintError, decode_uvarint, zigzag_decode
from kfmt_cli.core.source import Source
from kfmt_cli.disk.file_access import open_source
from kfmt_cli.formats import batch_header_readers as header
from kfmt_cli.formats.batch import CONTROL, TRANSACTIONAL
from kfmt_cli.formats.legacy import MESSAGE_LAYOUTS
from kfmt_cli.log.block import (
    BATCH_HEADER_BYTES,
    CHECKSUMMED_START_BY_MAGIC,
    CRC_POSITION_BY_MAGIC,
    LOG_OVERHEAD_BYTES,
    POLYNOMIAL_BY_MAGIC,
)
from kfmt_cli.log.control import CONTROL_KEY_BYTES, MARKER_BYTES, MARKER_TYPES
from kfmt_cli.log.damage.batch_candidates import BYTES_UP_TO_MAGIC

_TIMESTAMP_END_POSITION = MESSAGE_LAYOUTS[1].field_start("key")
MIN_BATCH_LENGTH = 14  # size of a message of magic 0, without offset and size
WINDOW_BYTES = 1 << 20
CRC_CHUNK_BYTES = 16 << 20  # bytes read at once to compute a batch's checksum


def wrap_int64(offset_sum: int) -> int:
    """A sum of offsets, wrapped to 64 bits."""
    return (offset_sum + (1 << 63)) % (1 << 64) - (1 << 63)


class CorruptError(Exception):
    """Corruption for a broker: `CorruptRecordException`, `InvalidRecordException`."""


class StartError(Exception):
    """The broker does not start; the message has the reason. is_offline: if it has several log
    directories, it starts without this one."""

    def __init__(self, message: str, *, is_offline: bool = False) -> None:
        super().__init__(message)
        self.is_offline = is_offline


class PartialHeaderError(StartError):
    """The file ends inside the header of a batch. base_offset: the base offset of the batch, for
    which a broker needs less of the header."""

    def __init__(self, message: str, base_offset: int) -> None:
        super().__init__(message)
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
    def end_position(self) -> int:
        """The byte after the batch."""
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
        self._window_start = 0
        self._window = b""

    def read_bytes(self, position: int, n_bytes: int) -> bytes:
        """Up to n bytes; fewer at the end of the file."""
        if position < self._window_start or position + n_bytes > self._window_start + len(
            self._window
        ):
            self._window_start = position
            self._window = self._source.read_block(
                position, max(WINDOW_BYTES, n_bytes), min(n_bytes, self.size)
            )
        return self._window[position - self._window_start : position - self._window_start + n_bytes]

    def read_batch(self, batch: StoredBatch) -> bytes:
        """The bytes of a batch, at most a window of them."""
        return self.read_bytes(batch.position, min(batch.size, WINDOW_BYTES))

    def close(self) -> None:
        """Close the file."""
        self._source.close()


def iter_stored_batches(
    log: LogBytes, start_position: int, end_position: int, *, is_recovery: bool = False
) -> Iterator[StoredBatch]:
    """The batches from a byte onward; raises CorruptError, and StartError at a partial header.

    is_recovery: a batch that is shorter than its header ends the log, since recovery checks the
    size of a batch before it reads its fields.
    """
    position = start_position
    while position < end_position - BYTES_UP_TO_MAGIC:
        header_bytes = log.read_bytes(position, BATCH_HEADER_BYTES)
        if len(header_bytes) < BYTES_UP_TO_MAGIC:
            return
        base_offset, batch_length = (
            header.base_offset(header_bytes),
            header.batch_length(header_bytes),
        )
        if batch_length < MIN_BATCH_LENGTH:
            raise CorruptError(
                f"{log.name} byte {position}: batch size {batch_length} is below the minimum, "
                f"{MIN_BATCH_LENGTH}"
            )
        if position > end_position - LOG_OVERHEAD_BYTES - batch_length:
            return
        if (
            is_recovery
            and header.magic(header_bytes) >= 2
            and LOG_OVERHEAD_BYTES + batch_length < BATCH_HEADER_BYTES
        ):
            return
        yield _parse_batch(
            log, position, LOG_OVERHEAD_BYTES + batch_length, base_offset, header_bytes
        )
        position += LOG_OVERHEAD_BYTES + batch_length


def _parse_batch(
    log: LogBytes, position: int, size: int, base_offset: int, header_bytes: bytes
) -> StoredBatch:
    magic = header.magic(header_bytes)
    if magic < 2:
        has_timestamp = magic == 1 and len(header_bytes) >= _TIMESTAMP_END_POSITION
        max_timestamp = header.message_timestamp(header_bytes) if has_timestamp else -1
        return StoredBatch(position, size, magic, base_offset, base_offset, max_timestamp)
    if len(header_bytes) < BATCH_HEADER_BYTES:
        raise PartialHeaderError(
            f"{log.name} byte {position}: the file ends inside a batch header", base_offset
        )
    return StoredBatch(
        *(
            position,
            size,
            magic,
            base_offset,
            wrap_int64(base_offset + header.last_offset_delta(header_bytes)),
        ),
        *(
            header.max_timestamp(header_bytes),
            header.attributes(header_bytes),
            header.producer_id(header_bytes),
        ),
    )


def is_batch_valid(log: LogBytes, batch: StoredBatch) -> bool:
    """Whether a batch has a complete header and its checksum matches."""
    layout_magic = 2 if batch.magic >= 2 else max(batch.magic, 0)
    if batch.magic >= 2 and batch.size < BATCH_HEADER_BYTES:
        return False
    computed_crc, position = 0, batch.position + CHECKSUMMED_START_BY_MAGIC[layout_magic]
    while position < batch.end_position:
        chunk = log.read_bytes(position, min(CRC_CHUNK_BYTES, batch.end_position - position))
        if not chunk:
            return False
        computed_crc = compute_crc(POLYNOMIAL_BY_MAGIC[layout_magic], chunk, computed_crc)
        position += len(chunk)
    stored_crc = log.read_bytes(batch.position + CRC_POSITION_BY_MAGIC[layout_magic], 4)
    return computed_crc == int.from_bytes(stored_crc, "big")


@dataclass(frozen=True, slots=True)
class TransactionMarker:
    """A transaction marker."""

    control_type: int
    """`ABORT` or `COMMIT`."""
    coordinator_epoch: int
    timestamp: int
    """The record's timestamp."""


def read_transaction_marker(batch_bytes: bytes, location: str) -> TransactionMarker | None:
    """Read the marker in a control batch; None if the cleaner emptied the batch.

    Raises CorruptError if a broker cannot read the marker, StartError if a broker does not treat
    the fault as corruption. location: the file and the byte of the batch. Source:
    `org.apache.kafka.common.record.ControlRecordType.parse`, `EndTransactionMarker.deserialize`.
    """
    if header.records_count(batch_bytes) == 0:
        return None
    try:
        _, position = decode_uvarint(batch_bytes, BATCH_HEADER_BYTES, len(batch_bytes), 32)
        timestamp_delta, position = decode_uvarint(batch_bytes, position + 1, len(batch_bytes), 64)
        _, position = decode_uvarint(batch_bytes, position, len(batch_bytes), 32)
        zigzag_size, position = decode_uvarint(batch_bytes, position, len(batch_bytes), 32)
        key_size = zigzag_decode(zigzag_size)
        key_bytes = batch_bytes[position : position + max(key_size, 0)]
        zigzag_size, position = decode_uvarint(
            batch_bytes, position + max(key_size, 0), len(batch_bytes), 32
        )
        value_size = zigzag_decode(zigzag_size)
    except VarintError:
        raise CorruptError("undecodable control record") from None
    if key_size < CONTROL_KEY_BYTES or len(key_bytes) < CONTROL_KEY_BYTES:
        raise CorruptError(f"control record whose key is too short (size {key_size})")
    key_version, control_type = struct.unpack_from(">hh", key_bytes)
    if key_version < 0:
        raise CorruptError(f"control record with negative version {key_version}")
    if control_type not in MARKER_TYPES:
        raise StartError(
            f"{location}: control record of type {control_type} instead of a transaction marker"
        )
    if value_size < MARKER_BYTES or position + MARKER_BYTES > len(batch_bytes):
        raise CorruptError(f"control record whose value is too short (size {value_size})")
    marker_version, coordinator_epoch = struct.unpack_from(">hi", batch_bytes, position)
    if marker_version < 0:
        raise CorruptError("transaction marker with a negative version")
    timestamp = wrap_int64(header.base_timestamp(batch_bytes) + zigzag_decode(timestamp_delta))
    return TransactionMarker(control_type, coordinator_epoch, timestamp)
