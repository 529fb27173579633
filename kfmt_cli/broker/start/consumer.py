"""The records that a consumer receives of one batch, and how it stops at a damaged one.

Used for batches with a fault; all others are delivered complete. Source:
`org.apache.kafka.clients.consumer.internals.CompletedFetch`, `DefaultRecordBatch`, `DefaultRecord`,
`AbstractLegacyRecordBatch`, `ByteBufferLogInputStream`.
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from kfmt_cli.broker.start.stored import (
    LEAST_SIZE,
    CorruptError,
    LogBytes,
    StartFailed,
    StoredBatch,
    is_valid,
)
from kfmt_cli.core.codecs.decompress import CompressionError, Limit, decompress
from kfmt_cli.core.layout.varint import VarintError, decode, unzigzag
from kfmt_cli.formats import header_numbers as header
from kfmt_cli.formats.batch import COMPRESSION
from kfmt_cli.formats.legacy import MESSAGES
from kfmt_cli.log.block import CHECKED_FROM, HEADER_SIZE, LOG_OVERHEAD
from kfmt_cli.log.damages.batch_candidates import HEADER_UP_TO_MAGIC

_CODECS = tuple(word for word in COMPRESSION.words if not word.startswith("unknown"))
_LAST_OF_LEGACY = _CODECS.index("lz4")  # the last codec of magic 0 and 1
_MOST_BYTES = 64 << 20  # limit for reading a batch record by record
_INT32 = struct.Struct(">i")


class Fault(enum.Enum):
    """How a consumer stops at a batch."""

    NONE = "none"
    ERROR = "error, after the records before the fault"
    POISON = "the whole poll fails, including the records before this batch"


@dataclass(frozen=True, slots=True)
class Given:
    """The offsets that a consumer receives of a batch, in its order, and the final fault."""

    offsets: tuple[int, ...]
    fault: Fault = Fault.NONE


class _Error(Exception):
    """An exception of Kafka's own kind."""


class _Poison(Exception):  # noqa: N818
    """Any other exception."""


def given_of(log: LogBytes, batch: StoredBatch, *, checks_crc: bool = True) -> Given:
    """The offsets that a consumer receives of a batch, and the fault; raises InputError.

    checks_crc: False for readers that do not compare the checksum of a batch.
    """
    offsets: list[int] = []
    try:
        offsets.extend(_offsets(log, batch, checks_crc))
    except (_Error, CorruptError):
        return Given(tuple(offsets), Fault.ERROR)
    except _Poison:
        return Given(tuple(offsets), Fault.POISON)
    return Given(tuple(offsets))


def fault_of_header(log: LogBytes, at: int, end: int) -> Fault:
    """How a consumer stops at bytes that the broker does not regard as a complete batch, but sends
    with the bytes before them. end: the end of the bytes sent."""
    head = log.read(at, min(HEADER_UP_TO_MAGIC, end - at))
    if len(head) < LOG_OVERHEAD:
        return Fault.NONE
    size = header.batch_length(head)
    if size < LEAST_SIZE:
        return Fault.ERROR
    if len(head) < HEADER_UP_TO_MAGIC:
        return Fault.NONE
    if not 0 <= header.magic(head) <= 2:
        return Fault.ERROR
    # A size whose sum with 12 overflows a signed 32-bit int is negative for a consumer.
    return Fault.POISON if size + LOG_OVERHEAD > (1 << 31) - 1 else Fault.NONE


def _offsets(log: LogBytes, batch: StoredBatch, checks_crc: bool) -> Iterator[int]:
    if not 0 <= batch.magic <= 2:
        raise _Error
    if batch.magic == 2 and (batch.size < HEADER_SIZE or (checks_crc and not is_valid(log, batch))):
        raise _Error
    data = log.read(batch.position, min(batch.size, _MOST_BYTES))
    yield from _of_v2(data, batch) if batch.magic == 2 else _of_message(data, batch)


def _of_v2(data: bytes, batch: StoredBatch) -> Iterator[int]:
    count = header.records_count(data)
    codec = COMPRESSION.of(batch.attributes)
    if count == 0:
        return
    if codec >= len(_CODECS):
        raise _Poison
    if count < 0:
        raise _Error
    body = data[HEADER_SIZE:]
    if codec:
        body = _decompressed(codec, body)
    at = 0
    for number in range(count):
        at, delta = _record(body, at)
        if number == count - 1 and at != len(body):
            raise _Error
        if not batch.is_control:
            yield batch.base_offset + delta


def _record(body: bytes, start: int) -> tuple[int, int]:
    """The end of a record and its offset delta."""
    try:
        raw, at = decode(body, start, len(body), 32)
    except VarintError as error:
        raise (_Error if error.status == "EXHAUSTED" else _Poison) from None
    size = unzigzag(raw)
    end = at + size
    if size < 0 or end > len(body):
        raise _Error

    def number(bits: int = 32) -> int:
        nonlocal at
        raw, at = decode(body, at, len(body), bits)
        return unzigzag(raw)

    def piece() -> None:
        nonlocal at
        size = max(number(), 0)
        at += size
        if at > len(body):
            raise _Error

    try:
        at += 1
        number(64)
        delta = number()
        piece()
        piece()
        headers = number()
        if headers < 0 or headers > len(body) - at:
            raise _Error
        for _ in range(headers):
            size = number()
            if size < 0 or at + size > len(body):
                raise _Error
            at += size
            piece()
    except VarintError:
        raise _Error from None
    if at != end:
        raise _Error
    return end, delta


def _of_message(data: bytes, batch: StoredBatch) -> Iterator[int]:
    """The offsets in a message or a wrapper of magic 0 or 1."""
    try:
        codec = _codec(data)
    except struct.error:
        codec = 0
    if not codec:
        _check_message(data)
        yield batch.base_offset
        return
    if codec >= len(_CODECS):
        raise _Poison
    if codec > _LAST_OF_LEGACY:
        raise _Error
    first, messages = _opened(data, batch, codec)
    for offset, message in messages:
        if header.magic(message) != batch.magic or _codec(message):
            raise _Error
        _check_message(message)
        yield first + offset


def _opened(data: bytes, batch: StoredBatch, codec: int) -> tuple[int, list[tuple[int, bytes]]]:
    """The messages in a wrapper with their offsets, and what the wrapper adds to these."""
    value = _value(data)
    if value is None:
        raise _Error
    messages = list(_messages(_decompressed(codec, value, batch.magic)))
    if not messages:
        raise _Error
    first = 0
    if batch.magic == 1 and batch.base_offset:
        first = batch.base_offset - messages[-1][0]
        if first < 0:
            raise _Error
    return first, messages


def base_offset_of(log: LogBytes, batch: StoredBatch) -> int:
    """The base offset of a batch, for which Kafka 4.0 and later decompress a wrapper.

    Raises InputError, and StartFailed if the wrapper cannot be read.
    """
    if batch.magic >= 2:
        return batch.base_offset
    data = log.read(batch.position, min(batch.size, _MOST_BYTES))
    try:
        codec = _codec(data)
        if not codec:
            return batch.base_offset
        if codec > _LAST_OF_LEGACY or batch.magic < 0:
            raise _Error
        first, messages = _opened(data, batch, codec)
        offset, message = messages[0]
        if _codec(message):
            raise _Error
    except (_Error, _Poison, struct.error):
        raise StartFailed(
            f"{log.name} byte {batch.position}: the wrapper cannot be read, but a lookup needs the "
            "offset of its first message"
        ) from None
    return first + offset


def first_of_wrapper(message: bytes, last: int) -> int | None:
    """The first offset in a valid wrapper of magic 0 or 1, a message's own offset; None if the
    wrapper cannot be read."""
    try:
        codec, magic = _codec(message), header.magic(message)
        if not 0 < codec < len(_CODECS):
            return last
        value = message[_value_at(message) :]
        offsets = [offset for offset, _ in _messages(_decompressed(codec, value, magic))]
    except (_Error, struct.error):
        return None
    if not offsets:
        return None
    return offsets[0] if magic == 0 else last - offsets[-1] + offsets[0]


def _decompressed(codec: int, data: bytes, magic: int = 2) -> bytes:
    try:
        return decompress(_CODECS[codec], data, Limit().of(len(data)), magic)
    except CompressionError:
        raise _Error from None


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + HEADER_UP_TO_MAGIC <= len(data):
        head = data[at : at + HEADER_UP_TO_MAGIC]
        offset, size = header.base_offset(head), header.batch_length(head)
        if size < LEAST_SIZE:
            raise _Error
        end = at + LOG_OVERHEAD + size
        if end > len(data):
            return
        yield offset, data[at:end]
        at = end


def _value_at(message: bytes) -> int:
    """The byte at which a message's value begins."""
    at = MESSAGES[int(header.magic(message) == 1)].offset_of("key")
    size = int(_INT32.unpack_from(message, at)[0])
    return at + 8 + max(size, 0)


def _value(message: bytes) -> bytes | None:
    """The value of a message; raises _Poison if the size of its key or value is invalid."""
    try:
        at = _value_at(message)
        (size,) = _INT32.unpack_from(message, at - 4)
    except struct.error:
        raise _Poison from None
    if at + size > len(message):
        raise _Poison
    return message[at : at + size] if size >= 0 else None


def _codec(message: bytes) -> int:
    """The codec of a message; raises `struct.error` if the message is too short."""
    return COMPRESSION.of(header.message_attributes(message))


def _check_message(message: bytes) -> None:
    """Raise the consumer's exception if a message's checksum or sizes are wrong."""
    if len(message) < LOG_OVERHEAD + LEAST_SIZE:
        raise _Error
    if zlib.crc32(message[CHECKED_FROM[0] :]) != header.message_crc(message):
        raise _Error
    _value(message)
