"""Log recovery is implemented twice: batch by batch for a start, block by block for writing."""

from __future__ import annotations

import struct
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from kfmt_cli.broker.log_reading.stored_batches import CorruptError, StoredBatch, is_batch_valid
from kfmt_cli.broker.log_recovery import IndexBuilder, iter_recovered_blocks
from kfmt_cli.broker.start.recovered_files import encode_index_files
from kfmt_cli.broker.start.recovery_segment import InvalidOffset, OffsetOverflow, RecoverySegment
from kfmt_cli.broker.transactions.producer_state import ProducerStateManager
from kfmt_cli.broker.version import OLDEST_VERSION
from kfmt_cli.core.source import BytesSource
from kfmt_cli.formats.batch import RECORD_BATCH
from kfmt_cli.formats.control import ABORT, COMMIT
from kfmt_cli.formats.index import ABORTED_TRANSACTION
from kfmt_cli.log.block import max_timestamps
from kfmt_cli.log.reader import LogReader
from tests.support.rebuild import record, with_crc
from tests.support.segments import with_bytes

BASE_OFFSET = 1000
IDEMPOTENT, TRANSACTIONAL = 1, (2, 3)


@dataclass(frozen=True)
class Recovery:
    """The results of log recovery."""

    size: int
    index: bytes
    time_index: bytes
    transaction_index: bytes
    snapshot: bytes


def legacy_message(magic: int, offset: int, timestamp: int, value: bytes) -> bytes:
    """An uncompressed message of magic 0 or 1."""
    content = bytes([magic, 0]) + (struct.pack(">q", timestamp) if magic else b"")
    content += struct.pack(">ii", -1, len(value)) + value
    message = struct.pack(">I", zlib.crc32(content)) + content
    return struct.pack(">qi", offset, len(message)) + message


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Batches of all magics with increasing offsets."""
    log, offset = b"", BASE_OFFSET
    for _ in range(draw(st.integers(1, 12))):
        offset += draw(st.integers(0, 3))
        timestamp = draw(st.integers(-1, 5))
        value = bytes(draw(st.sampled_from([0, 100, 5000])))
        magic = draw(st.sampled_from([0, 1, 2, 2, 2, 2]))
        if magic < 2:
            log += legacy_message(magic, offset, timestamp, value)
            offset += 1
            continue
        n_offsets = draw(st.integers(1, 3))
        producer_id = draw(st.sampled_from([-1, IDEMPOTENT, *TRANSACTIONAL, *TRANSACTIONAL]))
        control_type = None
        if producer_id in TRANSACTIONAL:
            control_type = draw(st.sampled_from([None, None, ABORT, COMMIT]))
        content = record(b"k", value)
        if control_type is not None:
            coordinator_epoch = draw(st.binary(min_size=4, max_size=4))
            content = record(bytes([0, 0, 0, control_type]), b"\0\0" + coordinator_epoch)
        is_transactional, is_control = producer_id in TRANSACTIONAL, control_type is not None
        header = {
            "base_offset": offset,
            "batch_length": 49 + len(content),
            "partition_leader_epoch": 0,
            "magic": 2,
            "crc": 0,
            "attributes": is_transactional << 4 | is_control << 5,
            "last_offset_delta": n_offsets - 1,
            "base_timestamp": timestamp,
            "max_timestamp": timestamp,
            "producer_id": producer_id,
            "producer_epoch": draw(st.integers(0, 1)),
            "base_sequence": draw(st.sampled_from([-1, 0, 7, 2**31 - 2])),
            "records_count": 1,
        }
        log += with_crc(RECORD_BATCH.encode_row(header) + content)
        offset += n_offsets
    return log


@st.composite
def damaged_logs(draw: st.DrawFn) -> bytes:
    """Logs with up to two kinds of damage."""
    log = draw(logs())
    for _ in range(draw(st.integers(0, 2))):
        position = draw(st.integers(0, len(log) - 1))
        kind = draw(st.sampled_from(["flip", "cut", "remove", "append", "overwrite"]))
        if kind == "flip":
            log = with_bytes(log, position, bytes([log[position] ^ 1 << draw(st.integers(0, 7))]))
        elif kind == "cut":
            log = log[: position + 1]
        elif kind == "remove":
            log = log[:position] + log[position + draw(st.integers(1, 200)) :] or b"\0"
        elif kind == "append":
            log += draw(st.sampled_from([bytes(100), b"\xff" * 20, log[:50], log]))
        else:
            log = with_bytes(log, position, bytes(draw(st.integers(1, 80))))[: len(log)]
    return log


def recover_by_block(log: bytes, interval: int) -> Recovery:
    """Recovery as `rebuild-index` does it."""
    index_builder = IndexBuilder(BASE_OFFSET, interval)
    producer_state = ProducerStateManager(map_end_offset=BASE_OFFSET)
    transaction_index, size = b"", 0
    blocks = LogReader(BytesSource(log, "log"), BASE_OFFSET).iter_blocks()
    for block, n_recovered in iter_recovered_blocks(blocks, BASE_OFFSET):
        if n_recovered:
            batches = block.batches.select_rows(slice(0, n_recovered))
            size = int(batches.position[-1] + batches.end[-1] - batches.start[-1])
            index_builder.add_batches(
                batches.position, batches.last_offset, max_timestamps(batches)
            )
            aborted_transactions = producer_state.apply_block(block, n_recovered)
            transaction_index += b"".join(map(ABORTED_TRANSACTION.encode_row, aborted_transactions))
    return Recovery(
        size,
        index_builder.encode_offset_index(),
        index_builder.encode_time_index(),
        transaction_index,
        producer_state.encode_snapshot(),
    )


def recover_by_batch(segment: RecoverySegment, interval: int) -> Recovery:
    """Recovery as a start does it."""
    producer_state = ProducerStateManager(map_end_offset=BASE_OFFSET)

    def process_batch(batch: StoredBatch) -> None:
        aborted_transaction = producer_state.process_batch(segment.log_bytes, batch)
        if aborted_transaction is not None:
            segment.add_aborted_transaction(aborted_transaction, batch.position)
        producer_state.apply_pending_transactions()

    segment.recover(interval, process_batch)
    index, time_index, transaction_index = encode_index_files(segment).content_by_name.values()
    assert index is not None
    assert time_index is not None
    return Recovery(
        segment.size,
        index,
        time_index,
        transaction_index or b"",
        producer_state.encode_snapshot(),
    )


def has_valid_batch(segment: RecoverySegment, position: int) -> bool:
    """Whether a broker finds a batch with a valid checksum at a byte."""
    try:
        batch = next(segment.iter_batches(position, is_recovery=True), None)
    except CorruptError:
        return False
    return batch is not None and is_batch_valid(segment.log_bytes, batch)


@settings(max_examples=60, deadline=None)
@given(damaged_logs(), st.sampled_from([0, 100, 4096]))
def test_both_recoveries_keep_the_same_bytes_and_build_the_same_files(
    log: bytes, interval: int
) -> None:
    """Unless the fast one refuses a batch for its offsets or magic alone: a start then decides."""
    by_block = recover_by_block(log, interval)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "log")
        path.write_bytes(log)
        segment = RecoverySegment(BASE_OFFSET, "log", str(path), len(log), None, OLDEST_VERSION)
        is_left_to_start = has_valid_batch(segment, by_block.size)
        try:
            by_batch = recover_by_batch(segment, interval)
        except (OffsetOverflow, InvalidOffset):
            assert is_left_to_start
        else:
            assert by_batch.size > by_block.size if is_left_to_start else by_batch == by_block
        finally:
            segment.close()
