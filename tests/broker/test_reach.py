"""What consumers reach after a start.

Expected is what Kafka's own log and consumer give for a seek to each offset: tools/judge.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.broken_partitions import V1_GZIP, Broken, sample
from tests.support.claims_of_logs import LOG_CLAIMS
from tests.support.claims_of_records import RECORD_CLAIMS
from tests.support.rebuild import batch_of, record, with_crc
from tests.support.samples import kfmt
from tests.support.segments import NAME, int32, positions, with_bytes
from tools.observe import Files

Ranges = list[list[int]]
BROKEN = {f"{claim.code} {claim.what}".strip(): claim.broken for claim in LOG_CLAIMS}
BROKEN |= {f"{claim.code} {claim.what}".strip(): claim.broken for claim in RECORD_CLAIMS}
# Of the starts after a crash and after a clean shutdown; where a crash cuts the log, none.
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


def unreachable(files: Files, folder: Path) -> tuple[Ranges, Ranges]:
    """What a crash and a clean shutdown leave out of reach; the recovery point is 0."""
    partition = folder / "given-0"
    partition.mkdir(parents=True)
    for name, content in files.items():
        (partition / name).write_bytes(content)
    (folder / "recovery-point-offset-checkpoint").write_text("0\n1\ngiven 0 0\n")
    rows = kfmt("check", folder, "--json").of("broker_start")
    starts = {row["after"]: row for row in rows if row["file"] == str(partition)}
    assert all(row["starts"] for row in starts.values())
    crash, clean = starts["crash"], starts["clean-shutdown"]
    return crash["unreachable_offsets"], clean["unreachable_offsets"]


@pytest.mark.parametrize("what", UNREACHABLE)
def test_what_is_not_given_is_unreachable(what: str, tmp_path: Path) -> None:
    broken: Broken = BROKEN[what]()
    assert unreachable(broken.files, tmp_path) == UNREACHABLE[what]


# A poll takes 500 records; where it meets a batch that the consumer does not understand, it fails
# with all that it has.


def plain(base: int, count: int, codec: int = 0) -> bytes:
    """A batch of small records; one of codec 5 fails a poll."""
    records = b"".join(record(b"k", b"v", delta) for delta in range(count))
    return batch_of(records, codec, count, base)


def overlong(base: int, whole: int, count: int) -> bytes:
    """A batch that fails a poll at the record after some whole ones: its size has six bytes."""
    records = b"".join(record(b"k", b"v", delta) for delta in range(whole))
    return batch_of(records + b"\xff" * 5 + b"\x01" + bytes(40), 0, count, base)


def one_too_few(base: int, count: int) -> bytes:
    """A batch with a record more than it says: the one before that is an error."""
    return with_crc(with_bytes(plain(base, count), 57, int32(count - 1)))


def test_a_poll_that_is_full_does_not_meet_the_batch_that_would_fail_it(tmp_path: Path) -> None:
    for before, first in ((499, 0), (500, 1), (501, 2)):
        for sizes in ((before,), (before - 1, 1), (1, before - 1)):
            data, base = b"", 0
            for size in sizes:
                data += plain(base, size)
                base += size
            data += plain(base, 10, codec=5) + plain(base + 10, 20)
            folder = tmp_path / "-".join(map(str, sizes))
            expected = [[first, base + 9]]
            assert unreachable({NAME: data}, folder) == (expected, expected), sizes


@pytest.mark.parametrize(
    ("size", "is_in_the_fetch"), [(900 << 10, True), (1023 << 10, True), (1 << 20, False)]
)
def test_a_fetch_of_one_mebibyte_does_not_reach_the_batch_that_would_fail_its_poll(
    size: int, is_in_the_fetch: bool, tmp_path: Path
) -> None:
    """Where the batches before it fill the fetch, as max.partition.fetch.bytes is 1 MiB."""
    large = batch_of(record(None, bytes(size)), 0, 1, 10)
    data = plain(0, 10) + large + plain(11, 10, codec=5) + plain(21, 5)
    expected = [[0 if is_in_the_fetch else 11, 20]]
    assert unreachable({NAME: data}, tmp_path) == (expected, expected)


@pytest.mark.parametrize(("length", "fails"), [(-1, True), (-12, True), (-13, False)])
def test_a_length_that_overflows_fails_a_poll(length: int, fails: bool, tmp_path: Path) -> None:
    """With the 12 bytes before it, it does not fit 32 bits; a length that does is waited for."""
    for before, first in ((499, 0), (500, 1), (501, 2)):
        broken = with_bytes(plain(before, 10), 8, int32((1 << 31) + length))
        end = before + 30
        logs = {
            0: plain(0, before) + broken + plain(before + 10, 20),
            end: plain(end, 20),
        }
        files: dict[str, bytes] = {}
        for base, data in logs.items():
            contents = {".log": data, ".index": b"", ".timeindex": bytes(12)}
            files |= {f"{base:020}{suffix}": content for suffix, content in contents.items()}
        expected = [[first if fails else before, end - 1]]
        assert unreachable(files, tmp_path / str(before)) == ([], expected), before


@pytest.mark.parametrize(("number", "last"), [(2, 59), (22, 459)])
def test_a_wrapper_of_another_magic_fails_the_poll_of_those_before(
    number: int, last: int, tmp_path: Path
) -> None:
    data = sample(V1_GZIP)[NAME]
    files = {**sample(V1_GZIP), NAME: with_bytes(data, positions(data)[number] + 16, b"\0")}
    assert unreachable(files, tmp_path) == ([], [[0, last]])


def test_a_poll_may_be_full_inside_the_batch_that_would_fail_it(tmp_path: Path) -> None:
    for whole, first in ((499, 0), (500, 1), (501, 2)):
        for ahead in (0, 30):
            end = ahead + whole + 50
            data = plain(0, ahead) if ahead else b""
            data += overlong(ahead, whole, whole + 50) + plain(end, 20)
            expected = [[ahead + first, end - 1]]
            found = unreachable({NAME: data}, tmp_path / f"{ahead}-{whole}")
            assert found == (expected, expected), (ahead, whole)


def test_a_consumer_that_stops_at_an_error_keeps_what_is_before_it(tmp_path: Path) -> None:
    """It does not come to the batch that would fail its poll."""
    stopping = {
        "too few": (one_too_few(20, 20), 38),
        "cut": (
            batch_of(b"".join(record(None, b"v", i) for i in range(9)) + b"\2\0", 0, 20, 20),
            29,
        ),
    }
    for name, (batch, first) in stopping.items():
        data = plain(0, 20) + batch + plain(40, 10, codec=5) + plain(50, 20)
        expected = [[first, 49]]
        assert unreachable({NAME: data}, tmp_path / name) == (expected, expected), name
