"""The offsets that consumers reach after a broker starts.

Expected is what Kafka's own log and consumer return for a seek to each offset: tools/judge.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.broken_partitions import V1_GZIP, DamagedPartition, sample
from tests.support.claims_of_logs import LOG_CLAIMS
from tests.support.claims_of_records import RECORD_CLAIMS
from tests.support.rebuild import batch_of, record, with_crc
from tests.support.samples import kfmt
from tests.support.segments import NAME, int32, positions, with_bytes
from tools.observe import Files

Ranges = list[list[int]]
BROKEN = {f"{claim.code} {claim.description}".strip(): claim.broken for claim in LOG_CLAIMS}
BROKEN |= {f"{claim.code} {claim.description}".strip(): claim.broken for claim in RECORD_CLAIMS}
# After a crash and after a clean shutdown; none where recovery truncates the log.
UNREACHABLE: dict[str, tuple[Ranges, Ranges]] = {
    "crc-mismatch in a closed segment": ([], [[340, 359]]),
    "crc-mismatch first batch of a segment": ([], [[240, 259]]),
    "crc-mismatch in the last segment": ([], [[1460, 1479]]),
    "batch-length-negative in a closed segment": ([], [[340, 378]]),
    "batch-length-too-small length 3": ([], [[340, 378]]),
    "batch-length-too-small length 20": ([], [[340, 378]]),
    "batch-length-too-big extends into the next batch": ([], [[340, 378]]),
    "batch-length-too-big length 2^31 - 1": ([], [[240, 378]]),
    "batch-truncated in a closed segment": ([], [[460, 479]]),
    "batch-truncated 17 bytes in the last segment": ([], []),
    "magic-unknown magic 3 in a magic 2 log": ([[340, 359]], [[340, 359]]),
    "magic-unknown magic -1 in a magic 2 log": ([], [[340, 359]]),
    "magic-unknown magic 5 in a magic 1 log": ([], [[245, 245]]),
    "codec-unknown": ([[240, 359]], [[240, 359]]),
    "zero-tail in a closed segment": ([], []),
    "zero-hole": ([], [[340, 398]]),
    "garbage in place of a batch": ([], [[340, 378]]),
    "garbage a large length after the last batch": ([], []),
    "offsets-backwards two batches swapped": ([[340, 358], [360, 379]], [[340, 359], [379, 398]]),
    "offsets-backwards a batch twice": ([], []),
    "offset-out-of-segment the first batch starts below the base offset": ([], []),
    "decompression-failed": ([[340, 359]], [[340, 359]]),
    "record-malformed": ([[342, 359]], [[342, 359]]),
    "records-count-mismatch the count is too low": ([[358, 359]], [[358, 359]]),
    "records-count-mismatch the count is too high": ([], []),
    "records-count-mismatch the count is 0": ([[340, 359]], [[340, 359]]),
    "records-count-mismatch the count is 0, and the records are garbage": (
        [[340, 359]],
        [[340, 359]],
    ),
    "record-offsets-backwards": ([[343, 343]], [[343, 343]]),
    "record-offset-out-of-batch the header's last offset is too low": ([], []),
    "record-offset-out-of-batch a record's offset is too high": ([[343, 359]], [[343, 359]]),
    "max-timestamp-mismatch too high": ([], []),
    "message-malformed": ([[240, 245]], [[240, 245]]),
    "wrapper-offset-invalid": ([[40, 59]], [[40, 59]]),
}


def unreachable(files: Files, directory: Path) -> tuple[Ranges, Ranges]:
    """Unreachable offsets after a crash and after a clean shutdown; the recovery point is 0."""
    partition = directory / "given-0"
    partition.mkdir(parents=True)
    for name, content in files.items():
        (partition / name).write_bytes(content)
    (directory / "recovery-point-offset-checkpoint").write_text("0\n1\ngiven 0 0\n")
    rows = kfmt("check", directory, "--json").of("broker_start")
    starts = {row["after"]: row for row in rows if row["file"] == str(partition)}
    assert all(row["starts"] for row in starts.values())
    crash, clean = starts["crash"], starts["clean-shutdown"]
    return crash["unreachable_offsets"], clean["unreachable_offsets"]


@pytest.mark.parametrize("case", UNREACHABLE)
def test_offsets_that_no_consumer_receives_are_unreachable(case: str, tmp_path: Path) -> None:
    broken: DamagedPartition = BROKEN[case]()
    assert unreachable(broken.files, tmp_path) == UNREACHABLE[case]


# A poll returns 500 records; if it reads a batch that the consumer does not understand, it fails
# and returns none of them.


def small_batch(base: int, count: int, codec: int = 0) -> bytes:
    """A batch of small records; one of codec 5 fails a poll."""
    records = b"".join(record(b"k", b"v", delta) for delta in range(count))
    return batch_of(records, codec, count, base)


def batch_with_overlong_record(base: int, n_valid: int, count: int) -> bytes:
    """A batch whose record after the valid ones fails a poll: its size has six bytes."""
    records = b"".join(record(b"k", b"v", delta) for delta in range(n_valid))
    return batch_of(records + b"\xff" * 5 + b"\x01" + bytes(40), 0, count, base)


def undercounted_batch(base: int, count: int) -> bytes:
    """A batch with one record more than its count: the record before it is an error."""
    return with_crc(with_bytes(small_batch(base, count), 57, int32(count - 1)))


def test_a_poll_that_is_full_does_not_meet_the_batch_that_would_fail_it(tmp_path: Path) -> None:
    for n_before, first in ((499, 0), (500, 1), (501, 2)):
        for sizes in ((n_before,), (n_before - 1, 1), (1, n_before - 1)):
            data, base = b"", 0
            for size in sizes:
                data += small_batch(base, size)
                base += size
            data += small_batch(base, 10, codec=5) + small_batch(base + 10, 20)
            directory = tmp_path / "-".join(map(str, sizes))
            expected = [[first, base + 9]]
            assert unreachable({NAME: data}, directory) == (expected, expected), sizes


@pytest.mark.parametrize(
    ("size", "is_in_the_fetch"), [(900 << 10, True), (1023 << 10, True), (1 << 20, False)]
)
def test_a_fetch_of_one_mebibyte_does_not_reach_the_batch_that_would_fail_its_poll(
    size: int, is_in_the_fetch: bool, tmp_path: Path
) -> None:
    """Where the batches before it fill the fetch, as max.partition.fetch.bytes is 1 MiB."""
    large = batch_of(record(None, bytes(size)), 0, 1, 10)
    data = small_batch(0, 10) + large + small_batch(11, 10, codec=5) + small_batch(21, 5)
    expected = [[0 if is_in_the_fetch else 11, 20]]
    assert unreachable({NAME: data}, tmp_path) == (expected, expected)


@pytest.mark.parametrize(("length", "fails"), [(-1, True), (-12, True), (-13, False)])
def test_a_length_that_overflows_fails_a_poll(length: int, fails: bool, tmp_path: Path) -> None:
    """With the 12 bytes before it, it overflows 32 bits; the consumer waits for one that fits."""
    for n_before, first in ((499, 0), (500, 1), (501, 2)):
        broken = with_bytes(small_batch(n_before, 10), 8, int32((1 << 31) + length))
        end = n_before + 30
        logs = {
            0: small_batch(0, n_before) + broken + small_batch(n_before + 10, 20),
            end: small_batch(end, 20),
        }
        files: dict[str, bytes] = {}
        for base, data in logs.items():
            contents = {".log": data, ".index": b"", ".timeindex": bytes(12)}
            files |= {f"{base:020}{suffix}": content for suffix, content in contents.items()}
        expected = [[first if fails else n_before, end - 1]]
        assert unreachable(files, tmp_path / str(n_before)) == ([], expected), n_before


@pytest.mark.parametrize(("batch_index", "last"), [(2, 59), (22, 459)])
def test_a_wrapper_of_another_magic_fails_the_poll_of_those_before(
    batch_index: int, last: int, tmp_path: Path
) -> None:
    data = sample(V1_GZIP)[NAME]
    files = {**sample(V1_GZIP), NAME: with_bytes(data, positions(data)[batch_index] + 16, b"\0")}
    assert unreachable(files, tmp_path) == ([], [[0, last]])


def test_a_poll_may_be_full_inside_the_batch_that_would_fail_it(tmp_path: Path) -> None:
    for n_valid, first in ((499, 0), (500, 1), (501, 2)):
        for n_before in (0, 30):
            end = n_before + n_valid + 50
            data = small_batch(0, n_before) if n_before else b""
            data += batch_with_overlong_record(n_before, n_valid, n_valid + 50) + small_batch(
                end, 20
            )
            expected = [[n_before + first, end - 1]]
            actual = unreachable({NAME: data}, tmp_path / f"{n_before}-{n_valid}")
            assert actual == (expected, expected), (n_before, n_valid)


def test_a_consumer_that_stops_at_an_error_keeps_what_is_before_it(tmp_path: Path) -> None:
    """It does not read the batch that would fail its poll."""
    stopping = {
        "too few": (undercounted_batch(20, 20), 38),
        "cut": (
            batch_of(b"".join(record(None, b"v", i) for i in range(9)) + b"\2\0", 0, 20, 20),
            29,
        ),
    }
    for name, (batch, first) in stopping.items():
        data = small_batch(0, 20) + batch + small_batch(40, 10, codec=5) + small_batch(50, 20)
        expected = [[first, 49]]
        assert unreachable({NAME: data}, tmp_path / name) == (expected, expected), name
