"""Whatever is done to a file: no exception, bounded work, and what is untouched is shown."""

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
from tests.support.mutants import Mutant, embedding_mutant, judge, mutant_of, torn_copy
from tests.support.samples import ORDERS, every_log, name_of
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
    """All that kfmt does with a log; place and checksum of each undamaged batch."""
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
            good = rows.select_rows(rows["crc_valid"] == 1)
            places = zip(
                *(good[name].tolist() for name in ("position", "size", "crc")), strict=True
            )
            batches += places
            for out in formats:
                shown = record_rows(run, records)
                text = b"".join(map(bytes, out.render(shown, 0, len(rows))))
                if isinstance(out, JsonRowWriter):
                    for line in text.splitlines():
                        json.loads(line)
    for finding in findings:
        json.dumps(finding_row(finding))
        format_finding(finding, NO_COLOUR)
    source.close()
    return batches, findings


def flip(data: bytearray, rng: random.Random) -> tuple[int, int, int]:
    """Flip some bits in a few bytes; the bytes touched, and how far what follows was moved."""
    at = rng.randrange(len(data))
    end = min(at + rng.randint(1, 8), len(data))
    for i in range(at, end):
        data[i] ^= rng.randint(1, 255)
    return at, end, 0


def zero(data: bytearray, rng: random.Random) -> tuple[int, int, int]:
    """Overwrite a stretch with zeros."""
    at = rng.randrange(len(data))
    end = min(at + rng.randint(1, 600), len(data))
    data[at:end] = bytes(end - at)
    return at, end, 0


def cut(data: bytearray, rng: random.Random) -> tuple[int, int, int]:
    """Take a stretch out."""
    at = rng.randrange(len(data))
    end = min(at + rng.randint(1, 600), len(data))
    del data[at:end]
    return at, end, at - end


def insert(data: bytearray, rng: random.Random) -> tuple[int, int, int]:
    """Put random bytes in."""
    at = rng.randrange(len(data))
    new = rng.randbytes(rng.randint(1, 600))
    data[at:at] = new
    return at, at, len(new)


def extreme(data: bytearray, rng: random.Random) -> tuple[int, int, int]:
    """Overwrite four bytes with an extreme number."""
    at = rng.randrange(max(len(data) - 4, 1))
    value = rng.choice([0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0, 1, 0x7F000000, 0x00FFFFFF])
    new = value.to_bytes(4, "big")[: len(data) - at]
    data[at : at + 4] = new
    return at, at + len(new), 0


Mutation = Callable[[bytearray, random.Random], tuple[int, int, int]]
MUTATIONS: list[Mutation] = [flip, zero, cut, insert, extreme]


@pytest.mark.parametrize("log", LOGS, ids=[name_of(log) for log in LOGS])
def test_any_mutation_costs_only_what_it_touches(log: Path, tmp_path: Path) -> None:
    original = log.read_bytes()
    whole, findings = read_everything(write(tmp_path, original))
    assert not [finding for finding in findings if finding.code.name != "offset-out-of-segment"]
    rng = random.Random(name_of(log))
    for mutate in MUTATIONS * 3:
        data = bytearray(original)
        first, last, shift = mutate(data, rng)
        shown, _ = read_everything(write(tmp_path, bytes(data)))
        kept = set(shown)
        for position, size, crc in whole:
            if position + size <= first:
                assert (position, size, crc) in kept, (mutate.__name__, first, last)
            elif position >= last and position + size + shift <= len(data):
                assert (position + shift, size, crc) in kept, (mutate.__name__, first, last)


def peak_of_reading(file: Path) -> int:
    """The most bytes that reading a log holds at a time."""
    tracemalloc.start()
    try:
        read_everything(file)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# Mostly zeros and small numbers look like lengths and magics all over.
LIKE_HEADERS = b"\0\0\0\0\0\1\2\x31"


@pytest.mark.parametrize("alphabet", [bytes(range(256)), LIKE_HEADERS], ids=["any", "headers"])
def test_random_bytes_are_read_in_bounded_memory(alphabet: bytes, tmp_path: Path) -> None:
    rng = random.Random(7)
    for size in (1, 16, 17, 61, 1000, 300_000):
        file = write(tmp_path, bytes(rng.choices(alphabet, k=size)))
        assert peak_of_reading(file) < (2 << 20) + 8 * size, size


def test_a_count_that_promises_billions_takes_no_memory(tmp_path: Path) -> None:
    from tests.support.rebuild import batch_of, record

    batch = batch_of(record(b"k", b"v"), 0, (1 << 31) - 1)
    assert peak_of_reading(write(tmp_path, batch * 50)) < 32 << 20


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
    whole, _ = read_everything(write(tmp_path, data))
    shown, _ = read_everything(write(tmp_path, data[:first] + data[last:]))
    after = {(at - (last - first), size, crc) for at, size, crc in whole if at >= last}
    assert after <= set(shown)


FUZZED = [log for log in LOGS if len(log.read_bytes()) < 40_000]


@pytest.mark.parametrize("log", FUZZED, ids=[name_of(log) for log in FUZZED])
def test_several_damages_lose_no_undamaged_batch_and_make_none_up(
    log: Path, tmp_path: Path
) -> None:
    data = log.read_bytes()
    places = positions(data)
    for number in range(12):
        mutant = mutant_of(data, places, random.Random(f"{name_of(log)} {number}"))
        verdict = judge(mutant, data, places, tmp_path / log.name)
        assert not verdict, (number, verdict)


@pytest.mark.parametrize("log", FUZZED, ids=[name_of(log) for log in FUZZED])
def test_the_torn_front_of_a_batch_does_not_hide_the_whole_one(log: Path, tmp_path: Path) -> None:
    """A write that was cut off and repeated, with and without zeros after the log."""
    data = log.read_bytes()
    places = positions(data)
    rng = random.Random(name_of(log))
    for tail in (b"", bytes(4096)):
        for number in range(6):
            mutant = Mutant.of(data)
            mutant.insert(len(data), tail)
            torn_copy(mutant, places, rng)
            verdict = judge(mutant, data, places, tmp_path / log.name)
            assert not verdict, (number, len(tail), verdict)


@pytest.mark.parametrize("length", [-5, 0, 13, 4000, 0x7FFFFFFF])
@pytest.mark.parametrize("front", [19, 61, 1327])
def test_nor_does_one_whose_length_is_damaged_too(front: int, length: int, tmp_path: Path) -> None:
    log = SAMPLES / "kafka-3.9.1-broker1/appendtime-0/00000000000000000525.log"
    data = log.read_bytes()
    places = positions(data)
    for at in places[:2]:
        torn = bytearray(data[at : at + front])
        torn[8:12] = (length & 0xFFFFFFFF).to_bytes(4, "big")
        mutant = Mutant.of(data)
        mutant.insert(places[2], data[places[2] : places[2] + 975])
        mutant.insert(at, bytes(torn))
        assert not judge(mutant, data, places, tmp_path / log.name), at


@pytest.mark.parametrize("seed", range(10))
def test_a_batch_in_a_value_is_none_of_the_log(seed: int, tmp_path: Path) -> None:
    for number in range(20):
        data, places, mutant = embedding_mutant(random.Random(f"{seed} {number}"))
        name = f"{int.from_bytes(data[:8], 'big'):020}.log"
        verdict = judge(mutant, data, places, tmp_path / name)
        assert not verdict, (number, verdict)


def test_a_length_past_three_batches_hides_none_that_is_whole(tmp_path: Path) -> None:
    data = ORDERS.read_bytes()
    places = positions(data)
    mutant = Mutant.of(data)
    mutant.put(places[3] + 8, (places[7] - places[3] - 12).to_bytes(4, "big"))
    for batch in (4, 6):
        mutant.put(places[batch] + 100, b"\xff\xff\xff")
    assert not judge(mutant, data, places, tmp_path / ORDERS.name)


def test_no_message_inside_a_damaged_wrapper_is_taken_for_one_of_the_log(tmp_path: Path) -> None:
    log = SAMPLES / "kafka-0.8.2.2/real08-lz4-0" / NAME
    data = log.read_bytes()
    places = positions(data)
    for i in range(len(places) - 1):
        mutant = Mutant.of(data)
        mutant.put(places[i] + 8, (1 << 20).to_bytes(4, "big"))
        mutant.put(places[i] + 12, b"\1\2\3\4")
        assert not judge(mutant, data, places, tmp_path / log.name), i
