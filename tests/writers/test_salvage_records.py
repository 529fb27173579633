"""`kfmt salvage --records`: what can be read of damaged batches, re-encoded and marked."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.disk.directory_listing import classify_file
from kfmt_cli.writers.salvage import holes as holes_module
from kfmt_cli.writers.salvage.holes import NO_END, LogHole
from kfmt_cli.writers.salvage.salvager import Salvager
from tests.support.samples import ORDERS, TXN, kfmt
from tests.support.segments import positions, with_bytes, write
from tests.writers.test_salvage import BROKER, many_batches
from tools.kafka import SAMPLES

PLACES = [
    ("kafka-3.9.1-broker1/orders-0", 3),
    ("kafka-3.9.1-broker1/codec-zstd-0", 2),
    ("kafka-3.9.1-broker1/codec-lz4-0", 2),
    ("kafka-2.8.2/v1-none-0", 4),
    ("kafka-2.8.2/v1-gzip-0", 2),
]


@pytest.mark.parametrize(("sample", "batch"), PLACES, ids=[place[0] for place in PLACES])
def test_records_of_a_damaged_batch_are_kept_and_marked(
    sample: str, batch: int, tmp_path: Path
) -> None:
    source = min((SAMPLES / sample).glob("*.log"))
    data = source.read_bytes()
    at = positions(data)[batch]
    crc_at = at + (17 if data[at + 16] == 2 else 12)  # the records are whole
    file = write(
        tmp_path / "in-0", with_bytes(data, crc_at, bytes([data[crc_at] ^ 1])), source.name
    )
    done = kfmt("salvage", file, tmp_path / "out", "--records", "--json")
    assert done.code == 1
    (hole,) = done.of("hole")
    names = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")
    whole = kfmt("dump", source, "--records", "--json").of("record")
    mark = {"key": "kfmt.salvaged", "value": "crc-mismatch"}
    expected = []
    for entry in whole:
        row = {name: entry.get(name) for name in names}
        if entry["batch_position"] == at:
            row["headers"] = [*(row["headers"] or ()), mark]
        expected.append(row)
    after = kfmt("dump", tmp_path / "out", "--records", "--json")
    assert [{name: row.get(name) for name in names} for row in after.of("record")] == expected
    n_marked = sum(row["batch_position"] == at for row in whole)
    assert hole["reencoded"] == n_marked > 0
    (row,) = done.of("file")
    assert row["reencoded"] == n_marked
    assert kfmt("verify-crc", "--deep", tmp_path / "out").code == 0
    assert kfmt("index-check", tmp_path / "out").code == 0


def test_records_before_a_fault_are_kept(tmp_path: Path) -> None:
    data = ORDERS.read_bytes()
    at = positions(data)[3]
    records = kfmt("dump", ORDERS, "--records", "--json").of("record")
    fault = next(record for record in records if record["offset"] == 70)
    file = write(tmp_path / "in-0", with_bytes(data, fault["position"], b"\xff" * 12))
    kfmt("salvage", file, tmp_path / "out", "--records")
    after = kfmt("dump", tmp_path / "out", "--records", "--json")
    offsets = [row["offset"] for row in after.of("record")]
    assert offsets == [number for number in range(240) if not 70 <= number < 80]
    assert {row["position"] for row in after.of("batch")} >= {0, at}


@pytest.mark.parametrize("fill", [b"", bytes(700)], ids=["cut", "zeros"])
def test_records_before_the_end_of_the_file_are_kept(fill: bytes, tmp_path: Path) -> None:
    """The last batch was being written when the power failed."""
    data = ORDERS.read_bytes()
    at = positions(data)[-2]
    records = kfmt("dump", ORDERS, "--records", "--json").of("record")
    last = [record for record in records if record["batch_position"] == at]
    end = last[7]["position"]
    file = write(tmp_path / "in-0", data[: end + 3] + fill)
    assert kfmt("verify-crc", file, "--json").code == 1
    done = kfmt("salvage", file, tmp_path / "out", "--records", "--json")
    (row,) = done.of("file")
    assert row["reencoded"] == 7
    after = kfmt("dump", tmp_path / "out", "--records", "--json").of("record")
    assert [row["offset"] for row in after] == [*range(last[0]["offset"] + 7)]
    mark = after[-1]["headers"][-1]
    assert mark["key"] == "kfmt.salvaged"
    assert [row["value"] for row in after] == [row["value"] for row in records[: len(after)]]
    without = kfmt("salvage", file, tmp_path / "only", "--json").of("file")
    assert [row["reencoded"] for row in without] == [0]


def test_of_a_transaction_records_are_kept_if_its_producer_is_known(tmp_path: Path) -> None:
    source = TXN
    data = source.read_bytes()
    batches = kfmt("dump", source, "--json").of("batch")
    seen: set[int] = set()
    for batch in batches[:12]:
        at = batch["position"]
        file = write(tmp_path / f"{at}-0", with_bytes(data, at + 17, bytes([data[at + 17] ^ 1])))
        to = tmp_path / f"out{at}"
        done = kfmt("salvage", file, to, "--records", "--json")
        control = batch["attributes"]["control"]
        known = not control and batch["producer_id"] in seen
        (hole,) = done.of("hole")
        assert hole["reencoded"] == (batch["records_count"] if known else 0)
        if known:
            (new,) = [
                row
                for row in kfmt("dump", to, "--json").of("batch")
                if row["base_offset"] == batch["base_offset"]
            ]
            names = ("producer_id", "producer_epoch", "base_sequence", "last_offset")
            assert {name: new[name] for name in names} == {name: batch[name] for name in names}
            assert new["attributes"]["transactional"]
        seen.add(batch["producer_id"])


def test_a_producer_of_an_earlier_log_is_known(tmp_path: Path) -> None:
    shutil.copytree(BROKER / "txn-0", tmp_path / "txn-0")
    second = sorted((tmp_path / "txn-0").glob("*.log"))[1]
    first = kfmt("dump", second, "--json").of("batch")[0]
    assert first["attributes"]["transactional"]
    data = second.read_bytes()
    second.write_bytes(with_bytes(data, 17, bytes([data[17] ^ 1])))
    done = kfmt("salvage", tmp_path / "txn-0", tmp_path / "out", "--records", "--json")
    assert [row["reencoded"] for row in done.of("hole")] == [first["records_count"]]


def test_much_that_is_damaged_is_split_as_it_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holes_module, "MAX_HELD_BYTES", 30_000)
    log = many_batches(tmp_path / "in-0")
    data = bytearray(log.read_bytes())
    places = positions(bytes(data))[:-1]
    for at in places[100:-100]:
        data[at + 17] ^= 1
    log.write_bytes(data)
    out = bytearray()
    found: list[LogHole] = []
    salvager = Salvager(DecompressionLimit(), 2, keeps_remains=True)
    done = salvager.salvage(classify_file(str(log), log.name), NO_END, out.extend, found.append)
    new = write(tmp_path / "out-0", bytes(out))
    records = kfmt("dump", new, "--records", "--json").of("record")
    assert [record["offset"] for record in records] == list(range(12_000))
    n_marked = sum(bool(record["headers"]) for record in records)
    assert (
        n_marked
        == sum(hole.reencoded for hole in found)
        == done.reencoded
        > 7 * len(places[100:-100])
    )
