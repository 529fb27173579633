"""The records that a consumer receives from one batch, and how it stops at a damaged one.

Used for batches with a fault; all others are delivered completely. Source:
`org.apache.kafka.clients.consumer.internals.CompletedFetch`, `DefaultRecordBatch`, `DefaultRecord`,
`AbstractLegacyRecordBatch`, `ByteBufferLogInputStream`.
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from kfmt_cli.broker.log_reading.stored_batches import (
    MIN_BATCH_LENGTH,
    CorruptError,
    LogBytes,
    StartError,
    StoredBatch,
    is_batch_valid,
)
from kfmt_cli.core.codecs.decompress import CompressionError, DecompressionLimit, decompress
from kfmt_cli.core.layout.varint import VarintError, decode_uvarint, zigzag_decode
from kfmt_cli.formats import batch_header_readers as header
from kfmt_cli.formats.batch import COMPRESSION
from kfmt_cli.formats.legacy import MESSAGE_LAYOUTS
from kfmt_cli.log.block import BATCH_HEADER_BYTES, CHECKSUMMED_START_BY_MAGIC, LOG_OVERHEAD_BYTES
from kfmt_cli.log.damage.batch_candidates import BYTES_UP_TO_MAGIC

_CODEC_NAMES = tuple(name for name in COMPRESSION.value_names if not name.startswith("unknown"))
_LAST_LEGACY_CODEC_ID = _CODEC_NAMES.index("lz4")  # the last codec of magic 0 and 1
_MAX_BATCH_BYTES = 64 << 20  # limit for reading a batch record by record
_INT32_STRUCT = struct.Struct(">i")


class ConsumerFault(enum.Enum):
    """How a consumer stops at a batch."""

    NONE = "none"
    ERROR = "error, after the records before the fault"
    POLL_FAILURE = "the whole poll fails, including the records before this batch"


@dataclass(frozen=True, slots=True)
class DeliveredOffsets:
    """The offsets that a consumer receives from a batch, in its order, and the final fault."""

    offsets: tuple[int, ...]
    fault: ConsumerFault = ConsumerFault.NONE

    def is_complete(self, batch: StoredBatch) -> bool:
        """Whether a consumer receives every record of a magic 2 batch. Transaction markers and
        offsets whose records compaction has removed deliver nothing."""
        if self.fault is not ConsumerFault.NONE or batch.magic != 2:
            return False
        if batch.is_control:
            return batch.size > BATCH_HEADER_BYTES
        if not self.offsets:
            return batch.size == BATCH_HEADER_BYTES
        bounded_offsets = (batch.base_offset - 1, *self.offsets, batch.last_offset + 1)
        return all(offset < next_offset for offset, next_offset in pairwise(bounded_offsets))


class _KafkaError(Exception):
    """The consumer throws a Kafka exception: it stops at the record."""


class _UnexpectedError(Exception):
    """The consumer throws any other exception: the whole poll fails."""


def read_delivered_offsets(
    log: LogBytes, batch: StoredBatch, *, checks_crc: bool = True
) -> DeliveredOffsets:
    """The offsets that a consumer receives from a batch, and the fault; raises InputError.

    checks_crc: False for readers that do not compare the checksum of a batch.
    """
    offsets: list[int] = []
    try:
        offsets.extend(_iter_delivered_offsets(log, batch, checks_crc))
    except (_KafkaError, CorruptError):
        return DeliveredOffsets(tuple(offsets), ConsumerFault.ERROR)
    except _UnexpectedError:
        return DeliveredOffsets(tuple(offsets), ConsumerFault.POLL_FAILURE)
    return DeliveredOffsets(tuple(offsets))


def read_header_fault(log: LogBytes, position: int, end_position: int) -> ConsumerFault:
    """How a consumer stops at bytes that the broker does not regard as a complete batch, but sends
    with the bytes before them. end_position: the end of the bytes sent."""
    header_bytes = log.read_bytes(position, min(BYTES_UP_TO_MAGIC, end_position - position))
    if len(header_bytes) < LOG_OVERHEAD_BYTES:
        return ConsumerFault.NONE
    batch_length = header.batch_length(header_bytes)
    if batch_length < MIN_BATCH_LENGTH:
        return ConsumerFault.ERROR
    if len(header_bytes) < BYTES_UP_TO_MAGIC:
        return ConsumerFault.NONE
    if not 0 <= header.magic(header_bytes) <= 2:
        return ConsumerFault.ERROR
    # A size whose sum with 12 overflows a signed 32-bit int is negative for a consumer.
    return (
        ConsumerFault.POLL_FAILURE
        if batch_length + LOG_OVERHEAD_BYTES > (1 << 31) - 1
        else ConsumerFault.NONE
    )


def _iter_delivered_offsets(log: LogBytes, batch: StoredBatch, checks_crc: bool) -> Iterator[int]:
    if not 0 <= batch.magic <= 2:
        raise _KafkaError
    if batch.magic == 2 and (
        batch.size < BATCH_HEADER_BYTES or (checks_crc and not is_batch_valid(log, batch))
    ):
        raise _KafkaError
    batch_bytes = log.read_bytes(batch.position, min(batch.size, _MAX_BATCH_BYTES))
    yield from (
        _iter_v2_offsets(batch_bytes, batch)
        if batch.magic == 2
        else _iter_legacy_offsets(batch_bytes, batch)
    )


def _iter_v2_offsets(batch_bytes: bytes, batch: StoredBatch) -> Iterator[int]:
    n_records = header.records_count(batch_bytes)
    codec_id = COMPRESSION.extract_value(batch.attributes)
    if n_records == 0:
        return
    if codec_id >= len(_CODEC_NAMES):
        raise _UnexpectedError
    if n_records < 0:
        raise _KafkaError
    records_bytes = batch_bytes[BATCH_HEADER_BYTES:]
    if codec_id:
        records_bytes = _decompress(codec_id, records_bytes)
    position = 0
    for record_index in range(n_records):
        position, offset_delta = _parse_end_and_offset_delta(records_bytes, position)
        if record_index == n_records - 1 and position != len(records_bytes):
            raise _KafkaError
        if not batch.is_control:
            yield batch.base_offset + offset_delta


def _parse_end_and_offset_delta(records_bytes: bytes, record_start: int) -> tuple[int, int]:
    """The end of a record and its offset delta."""
    try:
        zigzag_size, position = decode_uvarint(records_bytes, record_start, len(records_bytes), 32)
    except VarintError as error:
        raise (_KafkaError if error.status == "EXHAUSTED" else _UnexpectedError) from None
    size_bytes = zigzag_decode(zigzag_size)
    record_end = position + size_bytes
    if size_bytes < 0 or record_end > len(records_bytes):
        raise _KafkaError

    def read_varint(max_bits: int = 32) -> int:
        nonlocal position
        zigzag_value, position = decode_uvarint(
            records_bytes, position, len(records_bytes), max_bits
        )
        return zigzag_decode(zigzag_value)

    def skip_sized_bytes() -> None:
        nonlocal position
        n_bytes = max(read_varint(), 0)
        position += n_bytes
        if position > len(records_bytes):
            raise _KafkaError

    try:
        position += 1
        read_varint(64)
        offset_delta = read_varint()
        skip_sized_bytes()
        skip_sized_bytes()
        n_headers = read_varint()
        if n_headers < 0 or n_headers > len(records_bytes) - position:
            raise _KafkaError
        for _ in range(n_headers):
            size_bytes = read_varint()
            if size_bytes < 0 or position + size_bytes > len(records_bytes):
                raise _KafkaError
            position += size_bytes
            skip_sized_bytes()
    except VarintError:
        raise _KafkaError from None
    if position != record_end:
        raise _KafkaError
    return record_end, offset_delta


def _iter_legacy_offsets(message_bytes: bytes, batch: StoredBatch) -> Iterator[int]:
    """The offsets in a message or a wrapper of magic 0 or 1."""
    try:
        codec_id = _read_codec_id(message_bytes)
    except struct.error:
        codec_id = 0
    if not codec_id:
        _require_valid_message(message_bytes)
        yield batch.base_offset
        return
    if codec_id >= len(_CODEC_NAMES):
        raise _UnexpectedError
    if codec_id > _LAST_LEGACY_CODEC_ID:
        raise _KafkaError
    offset_shift, inner_messages = _read_wrapper(message_bytes, batch, codec_id)
    for inner_offset, inner_message in inner_messages:
        if header.magic(inner_message) != batch.magic or _read_codec_id(inner_message):
            raise _KafkaError
        _require_valid_message(inner_message)
        yield offset_shift + inner_offset


def _read_wrapper(
    wrapper_bytes: bytes, batch: StoredBatch, codec_id: int
) -> tuple[int, list[tuple[int, bytes]]]:
    """The offset to add to the offsets of a wrapper's messages, and the messages with these."""
    wrapper_value = _read_message_value(wrapper_bytes)
    if wrapper_value is None:
        raise _KafkaError
    inner_messages = list(_iter_messages(_decompress(codec_id, wrapper_value, batch.magic)))
    if not inner_messages:
        raise _KafkaError
    offset_shift = 0
    if batch.magic == 1 and batch.base_offset:
        offset_shift = batch.base_offset - inner_messages[-1][0]
        if offset_shift < 0:
            raise _KafkaError
    return offset_shift, inner_messages


def read_base_offset(log: LogBytes, batch: StoredBatch) -> int:
    """The base offset of a batch, for which Kafka 4.0 and later decompress a wrapper.

    Raises InputError, and StartError if the wrapper cannot be read.
    """
    if batch.magic >= 2:
        return batch.base_offset
    message_bytes = log.read_bytes(batch.position, min(batch.size, _MAX_BATCH_BYTES))
    try:
        codec_id = _read_codec_id(message_bytes)
        if not codec_id:
            return batch.base_offset
        if codec_id > _LAST_LEGACY_CODEC_ID or batch.magic < 0:
            raise _KafkaError
        offset_shift, inner_messages = _read_wrapper(message_bytes, batch, codec_id)
        first_offset, first_message = inner_messages[0]
        if _read_codec_id(first_message):
            raise _KafkaError
    except (_KafkaError, _UnexpectedError, struct.error):
        raise StartError(
            f"{log.name} byte {batch.position}: the wrapper cannot be read, but a lookup needs the "
            "offset of its first message"
        ) from None
    return offset_shift + first_offset


def read_wrapper_first_offset(message: bytes, last_offset: int) -> int | None:
    """The first offset in a valid wrapper of magic 0 or 1; `last_offset` if the message is not a
    wrapper. None if the wrapper cannot be read."""
    try:
        codec_id, magic = _read_codec_id(message), header.magic(message)
        if not 0 < codec_id < len(_CODEC_NAMES):
            return last_offset
        wrapper_value = message[_value_position(message) :]
        inner_offsets = [
            offset for offset, _ in _iter_messages(_decompress(codec_id, wrapper_value, magic))
        ]
    except (_KafkaError, struct.error):
        return None
    if not inner_offsets:
        return None
    return inner_offsets[0] if magic == 0 else last_offset - inner_offsets[-1] + inner_offsets[0]


def _decompress(codec_id: int, compressed_bytes: bytes, magic: int = 2) -> bytes:
    try:
        return decompress(
            _CODEC_NAMES[codec_id],
            compressed_bytes,
            DecompressionLimit().max_output_bytes(len(compressed_bytes)),
            magic,
        )
    except CompressionError:
        raise _KafkaError from None


def _iter_messages(message_set_bytes: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position + BYTES_UP_TO_MAGIC <= len(message_set_bytes):
        header_bytes = message_set_bytes[position : position + BYTES_UP_TO_MAGIC]
        message_offset, batch_length = (
            header.base_offset(header_bytes),
            header.batch_length(header_bytes),
        )
        if batch_length < MIN_BATCH_LENGTH:
            raise _KafkaError
        message_end = position + LOG_OVERHEAD_BYTES + batch_length
        if message_end > len(message_set_bytes):
            return
        yield message_offset, message_set_bytes[position:message_end]
        position = message_end


def _value_position(message: bytes) -> int:
    """The byte at which a message's value begins."""
    key_size_position = MESSAGE_LAYOUTS[int(header.magic(message) == 1)].field_start("key")
    key_size = int(_INT32_STRUCT.unpack_from(message, key_size_position)[0])
    return key_size_position + 8 + max(key_size, 0)


def _read_message_value(message: bytes) -> bytes | None:
    """The value of a message; raises _UnexpectedError if its key or value size is invalid."""
    try:
        value_start = _value_position(message)
        (value_size,) = _INT32_STRUCT.unpack_from(message, value_start - 4)
    except struct.error:
        raise _UnexpectedError from None
    if value_start + value_size > len(message):
        raise _UnexpectedError
    return message[value_start : value_start + value_size] if value_size >= 0 else None


def _read_codec_id(message: bytes) -> int:
    """The codec of a message; raises `struct.error` if the message is too short."""
    return COMPRESSION.extract_value(header.message_attributes(message))


def _require_valid_message(message: bytes) -> None:
    """Raise the consumer's exception if a message's checksum or sizes are wrong."""
    if len(message) < LOG_OVERHEAD_BYTES + MIN_BATCH_LENGTH:
        raise _KafkaError
    if zlib.crc32(message[CHECKSUMMED_START_BY_MAGIC[0] :]) != header.message_crc(message):
        raise _KafkaError
    _read_message_value(message)
