"""Producer state, as a broker rebuilds it."""

from __future__ import annotations

import pytest

from kfmt_cli.broker.transactions.producer_state import ProducerStateManager
from kfmt_cli.core.source import BytesSource
from kfmt_cli.log.reader import LogReader
from tests.support.rebuild import batch_of, control_batch, record, with_crc
from tests.support.segments import with_bytes

COMMIT_KEY, MARKER = b"\0\0\0\1", b"\0\0\0\0\0\7"
OPEN, ENDED = 0, -1


@pytest.mark.parametrize(
    ("key", "value", "first_offset"),
    [
        (COMMIT_KEY, MARKER, ENDED),
        (b"\0\1\0\1" + b"more", b"\0\1\0\0\0\7" + b"more", ENDED),
        pytest.param(b"\xff\xff\0\1", MARKER, OPEN, id="negative version of the key"),
        pytest.param(COMMIT_KEY, b"\xff\xff\0\0\0\7", OPEN, id="negative version of the marker"),
        pytest.param(b"\0\0\0\2", MARKER, OPEN, id="leader change"),
        pytest.param(b"\0\0\0", MARKER, OPEN, id="short key"),
        pytest.param(COMMIT_KEY, MARKER[:5], OPEN, id="short value"),
    ],
)
def test_only_what_a_broker_accepts_as_a_marker_ends_a_transaction(
    key: bytes, value: bytes, first_offset: int
) -> None:
    batches = batch_of(record(b"k", b"v"), 0x10, 1, 0), control_batch(key, value, 1)
    log = b"".join(with_crc(with_bytes(batch, 43, bytes(10))) for batch in batches)
    producer_state = ProducerStateManager()
    for block in LogReader(BytesSource(log, "log"), 0).iter_blocks():
        producer_state.apply_block(block, len(block.batches))
    [producer] = producer_state.entry_by_producer_id.values()
    assert producer.current_txn_first_offset == first_offset
