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

from kfmt_cli.broker.start.stored_batches import (
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
from kfmt_cli.log.block import BATCH_HEADER_BYTES, CRC_START_BY_MAGIC, LOG_OVERHEAD_BYTES
from kfmt_cli.log.damage.batch_candidates import BYTES_UP_TO_MAGIC

_CODECS = tuple(name for name in COMPRESSION.value_names if not name.startswith("unknown"))
_LAST_LEGACY_CODEC = _CODECS.index("lz4")  # the last codec of magic 0 and 1
_MAX_BATCH_BYTES = 64 << 20  # limit for reading a batch record by record
_INT32 = struct.Struct(">i")


class ConsumerFault(enum.Enum):
    """How a consumer stops at a batch."""

    NONE = "none"
    ERROR = "error, after the records before the fault"
    POISON = "the whole poll fails, including the records before this batch"


@dataclass(frozen=True, slots=True)
class DeliveredOffsets:
    """The offsets that a consumer receives from a batch, in its order, and the final fault."""

    offsets: tuple[int, ...]
    fault: ConsumerFault = ConsumerFault.NONE


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
        offsets.extend(_iter_offsets(log, batch, checks_crc))
    except (_KafkaError, CorruptError):
        return DeliveredOffsets(tuple(offsets), ConsumerFault.ERROR)
    except _UnexpectedError:
        return DeliveredOffsets(tuple(offsets), ConsumerFault.POISON)
    return DeliveredOffsets(tuple(offsets))


def header_fault(log: LogBytes, position: int, end: int) -> ConsumerFault:
    """How a consumer stops at bytes that the broker does not regard as a complete batch, but sends
    with the bytes before them. end: the end of the bytes sent."""
    header_bytes = log.read(position, min(BYTES_UP_TO_MAGIC, end - position))
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
        ConsumerFault.POISON
        if batch_length + LOG_OVERHEAD_BYTES > (1 << 31) - 1
        else ConsumerFault.NONE
    )


def _iter_offsets(log: LogBytes, batch: StoredBatch, checks_crc: bool) -> Iterator[int]:
    if not 0 <= batch.magic <= 2:
        raise _KafkaError
    if batch.magic == 2 and (
        batch.size < BATCH_HEADER_BYTES or (checks_crc and not is_batch_valid(log, batch))
    ):
        raise _KafkaError
    data = log.read(batch.position, min(batch.size, _MAX_BATCH_BYTES))
    yield from (
        _iter_v2_offsets(data, batch) if batch.magic == 2 else _iter_legacy_offsets(data, batch)
    )


def _iter_v2_offsets(data: bytes, batch: StoredBatch) -> Iterator[int]:
    count = header.records_count(data)
    codec = COMPRESSION.extract(batch.attributes)
    if count == 0:
        return
    if codec >= len(_CODECS):
        raise _UnexpectedError
    if count < 0:
        raise _KafkaError
    body = data[BATCH_HEADER_BYTES:]
    if codec:
        body = _decompress(codec, body)
    position = 0
    for i in range(count):
        position, offset_delta = _parse_record(body, position)
        if i == count - 1 and position != len(body):
            raise _KafkaError
        if not batch.is_control:
            yield batch.base_offset + offset_delta


def _parse_record(body: bytes, start: int) -> tuple[int, int]:
    """The end of a record and its offset delta."""
    try:
        raw, position = decode_uvarint(body, start, len(body), 32)
    except VarintError as error:
        raise (_KafkaError if error.status == "EXHAUSTED" else _UnexpectedError) from None
    size = zigzag_decode(raw)
    end = position + size
    if size < 0 or end > len(body):
        raise _KafkaError

    def read_varint(bits: int = 32) -> int:
        nonlocal position
        raw, position = decode_uvarint(body, position, len(body), bits)
        return zigzag_decode(raw)

    def skip_bytes() -> None:
        nonlocal position
        size = max(read_varint(), 0)
        position += size
        if position > len(body):
            raise _KafkaError

    try:
        position += 1
        read_varint(64)
        delta = read_varint()
        skip_bytes()
        skip_bytes()
        n_headers = read_varint()
        if n_headers < 0 or n_headers > len(body) - position:
            raise _KafkaError
        for _ in range(n_headers):
            size = read_varint()
            if size < 0 or position + size > len(body):
                raise _KafkaError
            position += size
            skip_bytes()
    except VarintError:
        raise _KafkaError from None
    if position != end:
        raise _KafkaError
    return end, delta


def _iter_legacy_offsets(data: bytes, batch: StoredBatch) -> Iterator[int]:
    """The offsets in a message or a wrapper of magic 0 or 1."""
    try:
        codec = _read_codec(data)
    except struct.error:
        codec = 0
    if not codec:
        _check_message(data)
        yield batch.base_offset
        return
    if codec >= len(_CODECS):
        raise _UnexpectedError
    if codec > _LAST_LEGACY_CODEC:
        raise _KafkaError
    offset_shift, messages = _open_wrapper(data, batch, codec)
    for offset, message in messages:
        if header.magic(message) != batch.magic or _read_codec(message):
            raise _KafkaError
        _check_message(message)
        yield offset_shift + offset


def _open_wrapper(
    data: bytes, batch: StoredBatch, codec: int
) -> tuple[int, list[tuple[int, bytes]]]:
    """The offset to add to the offsets of a wrapper's messages, and the messages with these."""
    value = _read_value(data)
    if value is None:
        raise _KafkaError
    messages = list(_iter_messages(_decompress(codec, value, batch.magic)))
    if not messages:
        raise _KafkaError
    offset_shift = 0
    if batch.magic == 1 and batch.base_offset:
        offset_shift = batch.base_offset - messages[-1][0]
        if offset_shift < 0:
            raise _KafkaError
    return offset_shift, messages


def read_base_offset(log: LogBytes, batch: StoredBatch) -> int:
    """The base offset of a batch, for which Kafka 4.0 and later decompress a wrapper.

    Raises InputError, and StartError if the wrapper cannot be read.
    """
    if batch.magic >= 2:
        return batch.base_offset
    data = log.read(batch.position, min(batch.size, _MAX_BATCH_BYTES))
    try:
        codec = _read_codec(data)
        if not codec:
            return batch.base_offset
        if codec > _LAST_LEGACY_CODEC or batch.magic < 0:
            raise _KafkaError
        offset_shift, messages = _open_wrapper(data, batch, codec)
        offset, message = messages[0]
        if _read_codec(message):
            raise _KafkaError
    except (_KafkaError, _UnexpectedError, struct.error):
        raise StartError(
            f"{log.name} byte {batch.position}: the wrapper cannot be read, but a lookup needs the "
            "offset of its first message"
        ) from None
    return offset_shift + offset


def wrapper_first_offset(message: bytes, last_offset: int) -> int | None:
    """The first offset in a valid wrapper of magic 0 or 1; `last_offset` if the message is not a
    wrapper. None if the wrapper cannot be read."""
    try:
        codec, magic = _read_codec(message), header.magic(message)
        if not 0 < codec < len(_CODECS):
            return last_offset
        value = message[_value_start(message) :]
        offsets = [offset for offset, _ in _iter_messages(_decompress(codec, value, magic))]
    except (_KafkaError, struct.error):
        return None
    if not offsets:
        return None
    return offsets[0] if magic == 0 else last_offset - offsets[-1] + offsets[0]


def _decompress(codec: int, data: bytes, magic: int = 2) -> bytes:
    try:
        return decompress(
            _CODECS[codec], data, DecompressionLimit().max_output_bytes(len(data)), magic
        )
    except CompressionError:
        raise _KafkaError from None


def _iter_messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position + BYTES_UP_TO_MAGIC <= len(data):
        header_bytes = data[position : position + BYTES_UP_TO_MAGIC]
        offset, batch_length = header.base_offset(header_bytes), header.batch_length(header_bytes)
        if batch_length < MIN_BATCH_LENGTH:
            raise _KafkaError
        end = position + LOG_OVERHEAD_BYTES + batch_length
        if end > len(data):
            return
        yield offset, data[position:end]
        position = end


def _value_start(message: bytes) -> int:
    """The byte at which a message's value begins."""
    size_position = MESSAGE_LAYOUTS[int(header.magic(message) == 1)].field_start("key")
    size = int(_INT32.unpack_from(message, size_position)[0])
    return size_position + 8 + max(size, 0)


def _read_value(message: bytes) -> bytes | None:
    """The value of a message; raises _UnexpectedError if its key or value size is invalid."""
    try:
        value_start = _value_start(message)
        (size,) = _INT32.unpack_from(message, value_start - 4)
    except struct.error:
        raise _UnexpectedError from None
    if value_start + size > len(message):
        raise _UnexpectedError
    return message[value_start : value_start + size] if size >= 0 else None


def _read_codec(message: bytes) -> int:
    """The codec of a message; raises `struct.error` if the message is too short."""
    return COMPRESSION.extract(header.message_attributes(message))


def _check_message(message: bytes) -> None:
    """Raise the consumer's exception if a message's checksum or sizes are wrong."""
    if len(message) < LOG_OVERHEAD_BYTES + MIN_BATCH_LENGTH:
        raise _KafkaError
    if zlib.crc32(message[CRC_START_BY_MAGIC[0] :]) != header.message_crc(message):
        raise _KafkaError
    _read_value(message)
