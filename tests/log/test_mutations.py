"""Whatever changes in a file: no exception, bounded work, and unchanged batches are shown."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from kfmt_cli.checks.base import Scope
from kfmt_cli.checks.registry import create_log_checks
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.disk.file_access import open_source
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.block import split_runs
from kfmt_cli.log.decoding import read_records
from kfmt_cli.log.derived_columns import fill_derived_columns, record_rows
from kfmt_cli.log.reader import LogReader
from kfmt_cli.render.finding import format_finding
from kfmt_cli.render.sinks.csv_rows import CsvRowWriter
from kfmt_cli.render.sinks.json_rows import JsonRowWriter
from kfmt_cli.render.sinks.sink import DisplayOptions, FileHeading
from kfmt_cli.render.sinks.table_rows import BatchRowWriter
from kfmt_cli.render.style import NO_COLOUR
from kfmt_cli.rows.types.finding_row import finding_row
from kfmt_cli.rows.types.record import RECORD_ROW
from tests.support.mutants import Mutant, check_mutant, embedding_mutant, mutant_of, torn_copy
from tests.support.samples import ORDERS, every_log, sample_name
from tests.support.segments import NAME, positions, write
from tools.kafka import SAMPLES


class Narrow:
    """A screen of 100 columns without colour."""

    theme = err_theme = NO_COLOUR
    width = err_width = 100


LIMIT = DecompressionLimit(max_bytes=8 << 20, min_bytes=1 << 20)
LOGS = [log for log in every_log() if 0 < log.stat().st_size < 60_000 and "remote" not in log.parts]

Batch = tuple[int, int, int]


def read_everything(file: Path) -> tuple[list[Batch], list[Finding]]:
    """Read, check and format a log; position, size and checksum of each undamaged batch."""
    source = open_source(str(file))
    batches: list[Batch] = []
    findings: list[Finding] = []
    formats = [
        JsonRowWriter(["x"], "auto", RECORD_ROW),
        CsvRowWriter(["x"], "auto"),
        BatchRowWriter(FileHeading("x"), DisplayOptions(), Narrow()),  # type: ignore[arg-type]
    ]
    headers = create_log_checks(Scope.HEADERS, 0)
    for block in LogReader(source, 0).iter_blocks():
        findings += block.findings
        findings += [finding for check in headers for finding in check.check_block(block, None)]
        for run in split_runs(block):
            records = read_records(run, LIMIT)
            fill_derived_columns(run, records)
            findings += records.findings
            for check in create_log_checks(Scope.RECORDS, 0):
                findings += check.check_block(run, records)
            rows = run.batches
            valid = rows.select_rows(rows["crc_valid"] == 1)
            undamaged = zip(
                *(valid[name].tolist() for name in ("position", "size", "crc")), strict=True
            )
            batches += undamaged
            for writer in formats:
                table = record_rows(run, records)
                text = b"".join(map(bytes, writer.render(table, 0, len(rows))))
                if isinstance(writer, JsonRowWriter):
                    for line in text.splitlines():
                        json.loads(line)
    for finding in findings:
        json.dumps(finding_row(finding))
        format_finding(finding, NO_COLOUR)
    source.close()
    return batches, findings


def flip(data: bytearray, rng: random.Random) -> tuple[int, int, int]:
    """Flip some bits in a few bytes; the bytes changed, and how far later bytes are shifted."""
    start = rng.randrange(len(data))
    end = min(start + rng.randint(1, 8), len(data))
    for i in range(start, end):
        data[i] ^= rng.randint(1, 255)
    return start, end, 0


def zero(data: bytearray, rng: random.Random) -> tuple[int, int, int]:
    """Overwrite a range with zeros."""
    start = rng.randrange(len(data))
    end = min(start + rng.randint(1, 600), len(data))
    data[start:end] = bytes(end - start)
    return start, end, 0


def remove(data: bytearray, rng: random.Random) -> tuple[int, int, int]:
    """Remove a range."""
    start = rng.randrange(len(data))
    end = min(start + rng.randint(1, 600), len(data))
    del data[start:end]
    return start, end, start - end


def insert(data: bytearray, rng: random.Random) -> tuple[int, int, int]:
    """Insert random bytes."""
    start = rng.randrange(len(data))
    new = rng.randbytes(rng.randint(1, 600))
    data[start:start] = new
    return start, start, len(new)


def extreme(data: bytearray, rng: random.Random) -> tuple[int, int, int]:
    """Overwrite four bytes with an extreme number."""
    start = rng.randrange(max(len(data) - 4, 1))
    value = rng.choice([0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0, 1, 0x7F000000, 0x00FFFFFF])
    new = value.to_bytes(4, "big")[: len(data) - start]
    data[start : start + 4] = new
    return start, start + len(new), 0


Mutation = Callable[[bytearray, random.Random], tuple[int, int, int]]
MUTATIONS: list[Mutation] = [flip, zero, remove, insert, extreme]


@pytest.mark.parametrize("log", LOGS, ids=[sample_name(log) for log in LOGS])
def test_any_mutation_costs_only_what_it_touches(log: Path, tmp_path: Path) -> None:
    original = log.read_bytes()
    undamaged, findings = read_everything(write(tmp_path, original))
    assert not [finding for finding in findings if finding.code.name != "offset-out-of-segment"]
    rng = random.Random(sample_name(log))
    for mutate in MUTATIONS * 3:
        data = bytearray(original)
        first, last, shift = mutate(data, rng)
        batches, _ = read_everything(write(tmp_path, bytes(data)))
        read_batches = set(batches)
        for position, size, crc in undamaged:
            if position + size <= first:
                assert (position, size, crc) in read_batches, (mutate.__name__, first, last)
            elif position >= last and position + size + shift <= len(data):
                assert (position + shift, size, crc) in read_batches, (mutate.__name__, first, last)


def peak_reading_bytes(file: Path) -> int:
    """The peak memory of reading a log."""
    tracemalloc.start()
    try:
        read_everything(file)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# Mostly zeros and small numbers look like lengths and magics everywhere.
HEADER_LIKE_BYTES = b"\0\0\0\0\0\1\2\x31"


@pytest.mark.parametrize("alphabet", [bytes(range(256)), HEADER_LIKE_BYTES], ids=["any", "headers"])
def test_random_bytes_are_read_in_bounded_memory(alphabet: bytes, tmp_path: Path) -> None:
    rng = random.Random(7)
    for size in (1, 16, 17, 61, 1000, 300_000):
        file = write(tmp_path, bytes(rng.choices(alphabet, k=size)))
        assert peak_reading_bytes(file) < (2 << 20) + 8 * size, size


def test_a_count_that_promises_billions_takes_no_memory(tmp_path: Path) -> None:
    from tests.support.rebuild import batch_of, record

    batch = batch_of(record(b"k", b"v"), 0, (1 << 31) - 1)
    assert peak_reading_bytes(write(tmp_path, batch * 50)) < 32 << 20


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("kafka-3.9.1-broker2/__transaction_state-1", 9636, 10177),
        ("kafka-3.9.1-broker1/__transaction_state-0", 12279, 12813),
        ("kafka-3.9.1-tiered/broker/__transaction_state-0", 3247, 3253),
    ],
)
def test_bytes_missing_from_a_single_record_do_not_cost_the_next_batch(
    name: str, first: int, last: int, tmp_path: Path
) -> None:
    data = (SAMPLES / name / NAME).read_bytes()
    undamaged, _ = read_everything(write(tmp_path, data))
    batches, _ = read_everything(write(tmp_path, data[:first] + data[last:]))
    later_batches = {
        (position - (last - first), size, crc)
        for position, size, crc in undamaged
        if position >= last
    }
    assert later_batches <= set(batches)


FUZZED = [log for log in LOGS if len(log.read_bytes()) < 40_000]


@pytest.mark.parametrize("log", FUZZED, ids=[sample_name(log) for log in FUZZED])
def test_several_damages_lose_no_undamaged_batch_and_make_none_up(
    log: Path, tmp_path: Path
) -> None:
    data = log.read_bytes()
    starts = positions(data)
    for i in range(12):
        mutant = mutant_of(data, starts, random.Random(f"{sample_name(log)} {i}"))
        verdict = check_mutant(mutant, data, starts, tmp_path / log.name)
        assert not verdict, (i, verdict)


@pytest.mark.parametrize("log", FUZZED, ids=[sample_name(log) for log in FUZZED])
def test_the_torn_start_of_a_batch_does_not_hide_the_whole_one(log: Path, tmp_path: Path) -> None:
    """A write that was cut off and repeated, with and without zeros after the log."""
    data = log.read_bytes()
    starts = positions(data)
    rng = random.Random(sample_name(log))
    for tail in (b"", bytes(4096)):
        for i in range(6):
            mutant = Mutant.of(data)
            mutant.insert(len(data), tail)
            torn_copy(mutant, starts, rng)
            verdict = check_mutant(mutant, data, starts, tmp_path / log.name)
            assert not verdict, (i, len(tail), verdict)


@pytest.mark.parametrize("length", [-5, 0, 13, 4000, 0x7FFFFFFF])
@pytest.mark.parametrize("n_bytes", [19, 61, 1327])
def test_a_torn_batch_with_a_damaged_length_does_not_hide_the_whole_one(
    n_bytes: int, length: int, tmp_path: Path
) -> None:
    log = SAMPLES / "kafka-3.9.1-broker1/appendtime-0/00000000000000000525.log"
    data = log.read_bytes()
    starts = positions(data)
    for start in starts[:2]:
        torn = bytearray(data[start : start + n_bytes])
        torn[8:12] = (length & 0xFFFFFFFF).to_bytes(4, "big")
        mutant = Mutant.of(data)
        mutant.insert(starts[2], data[starts[2] : starts[2] + 975])
        mutant.insert(start, bytes(torn))
        assert not check_mutant(mutant, data, starts, tmp_path / log.name), start


@pytest.mark.parametrize("seed", range(10))
def test_a_batch_in_a_value_is_none_of_the_log(seed: int, tmp_path: Path) -> None:
    for i in range(20):
        data, starts, mutant = embedding_mutant(random.Random(f"{seed} {i}"))
        name = f"{int.from_bytes(data[:8], 'big'):020}.log"
        verdict = check_mutant(mutant, data, starts, tmp_path / name)
        assert not verdict, (i, verdict)


def test_a_length_past_three_batches_hides_none_that_is_whole(tmp_path: Path) -> None:
    data = ORDERS.read_bytes()
    starts = positions(data)
    mutant = Mutant.of(data)
    mutant.put(starts[3] + 8, (starts[7] - starts[3] - 12).to_bytes(4, "big"))
    for batch in (4, 6):
        mutant.put(starts[batch] + 100, b"\xff\xff\xff")
    assert not check_mutant(mutant, data, starts, tmp_path / ORDERS.name)


def test_no_message_inside_a_damaged_wrapper_is_taken_for_one_of_the_log(tmp_path: Path) -> None:
    log = SAMPLES / "kafka-0.8.2.2/real08-lz4-0" / NAME
    data = log.read_bytes()
    starts = positions(data)
    for i in range(len(starts) - 1):
        mutant = Mutant.of(data)
        mutant.put(starts[i] + 8, (1 << 20).to_bytes(4, "big"))
        mutant.put(starts[i] + 12, b"\1\2\3\4")
        assert not check_mutant(mutant, data, starts, tmp_path / log.name), i
