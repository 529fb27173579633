"""`kfmt salvage --records`: what can be read of damaged batches, re-encoded and marked."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.disk.directory_listing import classify_file
from kfmt_cli.writers.salvage import holes as holes_module
from kfmt_cli.writers.salvage.holes import NO_NEXT_OFFSET, LogHole
from kfmt_cli.writers.salvage.salvager import Salvager
from tests.support.samples import ORDERS, TXN, kfmt
from tests.support.segments import positions, with_bytes, write
from tests.writers.test_salvage import BROKER, many_batches
from tools.kafka import SAMPLES

DAMAGED_BATCHES = [
    ("kafka-3.9.1-broker1/orders-0", 3),
    ("kafka-3.9.1-broker1/codec-zstd-0", 2),
    ("kafka-3.9.1-broker1/codec-lz4-0", 2),
    ("kafka-2.8.2/v1-none-0", 4),
    ("kafka-2.8.2/v1-gzip-0", 2),
]


@pytest.mark.parametrize(
    ("sample", "batch"), DAMAGED_BATCHES, ids=[case[0] for case in DAMAGED_BATCHES]
)
def test_records_of_a_damaged_batch_are_kept_and_marked(
    sample: str, batch: int, tmp_path: Path
) -> None:
    source = min((SAMPLES / sample).glob("*.log"))
    data = source.read_bytes()
    start = positions(data)[batch]
    crc_position = start + (17 if data[start + 16] == 2 else 12)  # the records are undamaged
    file = write(
        tmp_path / "in-0",
        with_bytes(data, crc_position, bytes([data[crc_position] ^ 1])),
        source.name,
    )
    result = kfmt("salvage", file, tmp_path / "out", "--records", "--json")
    assert result.code == 1
    (hole,) = result.of("hole")
    names = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")
    records = kfmt("dump", source, "--records", "--json").of("record")
    marker_header = {"key": "kfmt.salvaged", "value": "crc-mismatch"}
    expected = []
    for record in records:
        row = {name: record.get(name) for name in names}
        if record["batch_position"] == start:
            row["headers"] = [*(row["headers"] or ()), marker_header]
        expected.append(row)
    salvaged = kfmt("dump", tmp_path / "out", "--records", "--json")
    assert [{name: row.get(name) for name in names} for row in salvaged.of("record")] == expected
    n_marked = sum(row["batch_position"] == start for row in records)
    assert hole["reencoded"] == n_marked > 0
    (row,) = result.of("file")
    assert row["reencoded"] == n_marked
    assert kfmt("verify-crc", "--deep", tmp_path / "out").code == 0
    assert kfmt("index-check", tmp_path / "out").code == 0


def test_records_before_a_malformed_one_are_kept(tmp_path: Path) -> None:
    data = ORDERS.read_bytes()
    start = positions(data)[3]
    records = kfmt("dump", ORDERS, "--records", "--json").of("record")
    malformed = next(record for record in records if record["offset"] == 70)
    file = write(tmp_path / "in-0", with_bytes(data, malformed["position"], b"\xff" * 12))
    kfmt("salvage", file, tmp_path / "out", "--records")
    salvaged = kfmt("dump", tmp_path / "out", "--records", "--json")
    offsets = [row["offset"] for row in salvaged.of("record")]
    assert offsets == [offset for offset in range(240) if not 70 <= offset < 80]
    assert {row["position"] for row in salvaged.of("batch")} >= {0, start}


@pytest.mark.parametrize("tail", [b"", bytes(700)], ids=["cut", "zeros"])
def test_records_before_the_end_of_the_file_are_kept(tail: bytes, tmp_path: Path) -> None:
    """The last batch was being written when the power failed."""
    data = ORDERS.read_bytes()
    start = positions(data)[-2]
    records = kfmt("dump", ORDERS, "--records", "--json").of("record")
    last = [record for record in records if record["batch_position"] == start]
    end = last[7]["position"]
    file = write(tmp_path / "in-0", data[: end + 3] + tail)
    assert kfmt("verify-crc", file, "--json").code == 1
    result = kfmt("salvage", file, tmp_path / "out", "--records", "--json")
    (row,) = result.of("file")
    assert row["reencoded"] == 7
    salvaged = kfmt("dump", tmp_path / "out", "--records", "--json").of("record")
    assert [row["offset"] for row in salvaged] == [*range(last[0]["offset"] + 7)]
    marker_header = salvaged[-1]["headers"][-1]
    assert marker_header["key"] == "kfmt.salvaged"
    assert [row["value"] for row in salvaged] == [row["value"] for row in records[: len(salvaged)]]
    files_without_records = kfmt("salvage", file, tmp_path / "only", "--json").of("file")
    assert [row["reencoded"] for row in files_without_records] == [0]


def test_records_of_a_transaction_are_kept_if_its_producer_is_known(tmp_path: Path) -> None:
    source = TXN
    data = source.read_bytes()
    batches = kfmt("dump", source, "--json").of("batch")
    producers: set[int] = set()
    for batch in batches[:12]:
        start = batch["position"]
        file = write(
            tmp_path / f"{start}-0", with_bytes(data, start + 17, bytes([data[start + 17] ^ 1]))
        )
        destination = tmp_path / f"out{start}"
        result = kfmt("salvage", file, destination, "--records", "--json")
        control = batch["attributes"]["control"]
        is_known = not control and batch["producer_id"] in producers
        (hole,) = result.of("hole")
        assert hole["reencoded"] == (batch["records_count"] if is_known else 0)
        if is_known:
            (salvaged,) = [
                row
                for row in kfmt("dump", destination, "--json").of("batch")
                if row["base_offset"] == batch["base_offset"]
            ]
            names = ("producer_id", "producer_epoch", "base_sequence", "last_offset")
            assert {name: salvaged[name] for name in names} == {name: batch[name] for name in names}
            assert salvaged["attributes"]["transactional"]
        producers.add(batch["producer_id"])


def test_a_producer_of_an_earlier_log_is_known(tmp_path: Path) -> None:
    shutil.copytree(BROKER / "txn-0", tmp_path / "txn-0")
    second = sorted((tmp_path / "txn-0").glob("*.log"))[1]
    first = kfmt("dump", second, "--json").of("batch")[0]
    assert first["attributes"]["transactional"]
    data = second.read_bytes()
    second.write_bytes(with_bytes(data, 17, bytes([data[17] ^ 1])))
    result = kfmt("salvage", tmp_path / "txn-0", tmp_path / "out", "--records", "--json")
    assert [row["reencoded"] for row in result.of("hole")] == [first["records_count"]]


def test_much_that_is_damaged_is_split_as_it_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holes_module, "MAX_PENDING_REMAINS_BYTES", 30_000)
    log = many_batches(tmp_path / "in-0")
    data = bytearray(log.read_bytes())
    starts = positions(bytes(data))[:-1]
    for start in starts[100:-100]:
        data[start + 17] ^= 1
    log.write_bytes(data)
    out = bytearray()
    holes: list[LogHole] = []
    salvager = Salvager(DecompressionLimit(), 2, recovers_remains=True)
    result = salvager.salvage_log(
        classify_file(str(log), log.name), NO_NEXT_OFFSET, out.extend, holes.append
    )
    salvaged = write(tmp_path / "out-0", bytes(out))
    records = kfmt("dump", salvaged, "--records", "--json").of("record")
    assert [record["offset"] for record in records] == list(range(12_000))
    n_marked = sum(bool(record["headers"]) for record in records)
    assert (
        n_marked
        == sum(hole.reencoded for hole in holes)
        == result.reencoded
        > 7 * len(starts[100:-100])
    )
