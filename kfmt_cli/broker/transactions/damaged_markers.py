"""Transaction markers whose batch is damaged: what their bytes still prove.

A marker has 78 bytes, nearly all of which are the same in each marker or known from its producer.
The checksum thus often shows which bytes were written: those that match it. Source:
`org.apache.kafka.common.record.MemoryRecords.writeEndTransactionalMarker`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from kfmt_cli.broker.log_reading.stored_batches import (
    CorruptError,
    StartError,
    read_transaction_marker,
)
from kfmt_cli.core.codecs.checksum import CRC32C_POLYNOMIAL, compute_crc
from kfmt_cli.formats import batch_header_readers as header
from kfmt_cli.formats.batch import (
    ATTRIBUTES,
    CONTROL,
    NO_SEQUENCE,
    RECORD_BATCH,
    TIMESTAMP_TYPE,
    TRANSACTIONAL,
)
from kfmt_cli.formats.control import ABORT, COMMIT, CONTROL_RECORD_KEY, END_TXN_MARKER
from kfmt_cli.log.block import BATCH_HEADER_BYTES, CHECKSUMMED_START_BY_MAGIC, LOG_OVERHEAD_BYTES

_RECORD_START = bytes.fromhex("20 00 00 00 08")  # size, attributes, deltas, the key's size
_VALUE_SIZE, _NO_HEADERS = b"\x0c", b"\x00"
_KEY_POSITION = BATCH_HEADER_BYTES + len(_RECORD_START)
_TYPE_POSITION = _KEY_POSITION + CONTROL_RECORD_KEY.field_start("type")
_VALUE_POSITION = _KEY_POSITION + CONTROL_RECORD_KEY.dtype.itemsize + len(_VALUE_SIZE)
_EPOCH_POSITION = _VALUE_POSITION + END_TXN_MARKER.field_start("coordinator_epoch")
MARKER_BATCH_BYTES = _VALUE_POSITION + END_TXN_MARKER.dtype.itemsize + len(_NO_HEADERS)
MAX_MARKER_BATCH_BYTES = MARKER_BATCH_BYTES + 9
"""Its size if its timestamp differs from the base timestamp, which the cleaner overwrites."""
_CRC_START = CHECKSUMMED_START_BY_MAGIC[2]
_MARKER_FLAGS = TRANSACTIONAL.mask | CONTROL.mask
_KNOWN_FLAGS = sum(bit_field.mask for bit_field in ATTRIBUTES)
_MAX_TRIED_PRODUCERS = 64
# How many of the bytes that are the same in each marker may differ, and of those that are not 0.
_MAX_WRONG_BYTES, _MAX_WRONG_NONZERO_BYTES = 12, 5


class DamagedMarker(NamedTuple):
    """The known facts about a marker whose batch is damaged or misplaced."""

    offset: int
    producer_id: int
    producer_epoch: int
    control_type: int
    """`ABORT` or `COMMIT`."""
    coordinator_epoch: int
    timestamp: int
    leader_epoch: int
    attributes: int
    is_verified: bool
    """Whether a checksum confirms it: that of the batch, once its damaged bytes are corrected."""

    def encode(self) -> bytes:
        """The batch that a broker wrote for it."""
        record = b"".join(
            (
                _RECORD_START,
                CONTROL_RECORD_KEY.encode_row({"version": 0, "type": self.control_type}),
                _VALUE_SIZE,
                END_TXN_MARKER.encode_row(
                    {"version": 0, "coordinator_epoch": self.coordinator_epoch}
                ),
                _NO_HEADERS,
            )
        )
        row = {
            "base_offset": self.offset,
            "batch_length": MARKER_BATCH_BYTES - LOG_OVERHEAD_BYTES,
            "partition_leader_epoch": self.leader_epoch,
            "magic": 2,
            "crc": 0,
            "attributes": (self.attributes & TIMESTAMP_TYPE.mask) | _MARKER_FLAGS,
            "last_offset_delta": 0,
            "base_timestamp": self.timestamp,
            "max_timestamp": self.timestamp,
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
            "base_sequence": NO_SEQUENCE,
            "records_count": 1,
        }
        covered = (RECORD_BATCH.encode_row(row) + record)[_CRC_START:]
        return RECORD_BATCH.encode_row({**row, "crc": _crc(covered)}) + record


class DamagedBatch(NamedTuple):
    """The facts that the bytes of a damaged batch show."""

    marker: DamagedMarker | None
    is_certain: bool
    """Whether it is certain that it is this marker, or none."""


def read_damaged_batch(data: bytes, epoch_by_producer: Mapping[int, int]) -> DamagedBatch:
    """Read a damaged batch that may be a marker.

    data: its bytes, at most a batch. epoch_by_producer: the epochs of the producers with an open
    transaction, by producer id.
    """
    if not MARKER_BATCH_BYTES <= len(data) <= MAX_MARKER_BATCH_BYTES:
        return DamagedBatch(None, is_certain=True)
    corrected = _correct_one_byte(data)
    if corrected is not None:
        return DamagedBatch(_parse_marker(corrected, is_verified=True), is_certain=True)
    if len(data) > MARKER_BATCH_BYTES or not _resembles_marker(data):
        return DamagedBatch(None, is_certain=False)
    for candidate in _iter_candidates(data, epoch_by_producer):
        if _crc(candidate[_CRC_START:]) == _stored_crc(data):
            return DamagedBatch(_parse_marker(candidate, is_verified=True), is_certain=True)
    marker = _parse_marker(bytes(_template(data)), is_verified=False)
    if marker is not None and (
        marker.producer_id not in epoch_by_producer or _may_be_zeroed(data, marker)
    ):
        marker = None
    return DamagedBatch(marker, is_certain=False)


def _may_be_zeroed(data: bytes, marker: DamagedMarker) -> bool:
    """Whether the producer or the type of a marker may be 0 because zeros overwrote them: a byte
    next to them that is never 0 is 0."""
    is_producer_zeroed = marker.producer_id == 0 and (
        marker.timestamp == 0 or data[RECORD_BATCH.field_start("base_sequence")] == 0
    )
    is_type_zeroed = marker.control_type == ABORT and (
        data[_KEY_POSITION - 1] == 0 or data[_VALUE_POSITION - len(_VALUE_SIZE)] == 0
    )
    return is_producer_zeroed or is_type_zeroed


def _crc(covered: bytes) -> int:
    return compute_crc(CRC32C_POLYNOMIAL, covered)


def _stored_crc(data: bytes) -> int:
    return int.from_bytes(data[_CRC_START - 4 : _CRC_START], "big")


def _correct_one_byte(data: bytes) -> bytes | None:
    """The batch with at most one of its bytes from the checksum on corrected, so that the checksum
    matches; None if that is impossible."""
    covered = data[_CRC_START:]
    difference = _crc(covered) ^ _stored_crc(data)
    if any(difference & ~(0xFF << shift) == 0 for shift in (0, 8, 16, 24)):
        return data  # the checksum itself is damaged, or bytes that it does not cover
    position_and_bits = _single_byte_differences(len(covered)).get(difference)
    if position_and_bits is None:
        return None
    position, bits = position_and_bits
    corrected = bytearray(data)
    corrected[_CRC_START + position] ^= bits
    return bytes(corrected)


@lru_cache(maxsize=MAX_MARKER_BATCH_BYTES - MARKER_BATCH_BYTES + 1)
def _single_byte_differences(n_bytes: int) -> dict[int, tuple[int, int]]:
    """By how the checksum of n bytes changes: the byte that changed, and its changed bits."""
    zero_crc = _crc(bytes(n_bytes))
    differences = {}
    for position in range(n_bytes):
        by_bit = [
            _crc(bytes(position) + bytes([1 << bit]) + bytes(n_bytes - position - 1)) ^ zero_crc
            for bit in range(8)
        ]
        for bits in range(1, 256):
            difference = 0
            for bit in range(8):
                if bits >> bit & 1:
                    difference ^= by_bit[bit]
            differences[difference] = position, bits
    return differences


def _template(data: bytes) -> bytearray:
    """The bytes of a marker with the values that `data` has where markers differ."""
    template = bytearray(data)
    template[_CRC_START : _CRC_START + 2] = struct.pack(
        ">h", _MARKER_FLAGS | (header.attributes(data) & TIMESTAMP_TYPE.mask)
    )
    for name, value_format, value in (
        ("last_offset_delta", ">i", 0),
        ("base_sequence", ">i", NO_SEQUENCE),
        ("records_count", ">i", 1),
    ):
        struct.pack_into(value_format, template, RECORD_BATCH.field_start(name), value)
    template[BATCH_HEADER_BYTES:_TYPE_POSITION] = _RECORD_START + bytes(2)
    template[_VALUE_POSITION - 1 : _EPOCH_POSITION] = _VALUE_SIZE + bytes(2)
    template[-1:] = _NO_HEADERS
    return template


def _resembles_marker(data: bytes) -> bool:
    """Whether most of the bytes that are the same in each marker are those of a marker."""
    pairs = zip(data[_CRC_START:], _template(data)[_CRC_START:], strict=True)
    wrong_bytes = [expected for byte, expected in pairs if byte != expected]
    n_nonzero = sum(expected != 0 for expected in wrong_bytes)
    return len(wrong_bytes) <= _MAX_WRONG_BYTES and n_nonzero <= _MAX_WRONG_NONZERO_BYTES


def _iter_candidates(data: bytes, epoch_by_producer: Mapping[int, int]) -> Iterator[bytes]:
    """The markers that a damaged one may have been."""
    template = _template(data)
    stored_id, stored_epoch = header.producer_id(data), header.producer_epoch(data)
    producers = [(stored_id, stored_epoch)]
    for producer_id, epoch in [*epoch_by_producer.items()][:_MAX_TRIED_PRODUCERS]:
        producers += {(producer_id, stored_epoch), (producer_id, epoch), (producer_id, epoch + 1)}
    base_timestamp, max_timestamp = header.base_timestamp(data), header.max_timestamp(data)
    times = {base_timestamp, max_timestamp}
    attributes = {_MARKER_FLAGS, _MARKER_FLAGS | TIMESTAMP_TYPE.mask}
    for flags, time, (producer_id, epoch), control_type in product(
        attributes, times, producers, (ABORT, COMMIT)
    ):
        struct.pack_into(">h", template, _CRC_START, flags)
        struct.pack_into(">qq", template, RECORD_BATCH.field_start("base_timestamp"), time, time)
        position = RECORD_BATCH.field_start("producer_id")
        struct.pack_into(">qh", template, position, producer_id, min(epoch, (1 << 15) - 1))
        struct.pack_into(">h", template, _TYPE_POSITION, control_type)
        yield bytes(template)


def _parse_marker(data: bytes, *, is_verified: bool) -> DamagedMarker | None:
    """The marker in a batch; None if it is another batch."""
    attributes = header.attributes(data)
    if attributes & _MARKER_FLAGS != _MARKER_FLAGS or attributes & ~_KNOWN_FLAGS:
        return None
    try:
        marker = read_transaction_marker(data, "")
    except (CorruptError, StartError):
        return None
    if marker is None or header.producer_id(data) < 0:
        return None
    return DamagedMarker(
        header.base_offset(data),
        header.producer_id(data),
        header.producer_epoch(data),
        marker.control_type,
        marker.coordinator_epoch,
        marker.timestamp,
        header.partition_leader_epoch(data),
        attributes,
        is_verified,
    )
