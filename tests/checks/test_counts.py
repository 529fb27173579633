"""However few findings are shown, all are counted."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from tests.support.broken_partitions import ORDERS
from tests.support.samples import Done, kfmt
from tests.support.segments import with_broken_checksums


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A partition whose 75 batches all fail their checksum, and with an index of bad entries."""
    folder = tmp_path / "orders-0"
    shutil.copytree(ORDERS, folder)
    for log in folder.glob("*.log"):
        log.write_bytes(with_broken_checksums(log.read_bytes()))
    return folder


def numbers(done: Done) -> tuple[dict[str, int], int, int]:
    """The findings of each code, shown and left out; the errors of the partition and in all."""
    found = dict.fromkeys(done.codes, 0)
    for code in done.codes:
        found[code] += 1
    for row in done.of("findings_left_out"):
        found[row["code"]] = found.get(row["code"], 0) + row["count"]
    (partition,) = done.of("partition")
    (summary,) = done.of("summary")
    return found, partition["errors"], summary["errors"]


def test_check_counts_what_it_does_not_show(damaged: Path) -> None:
    done = kfmt("check", damaged, "--json", "--max-findings", "1000")
    every = numbers(done)
    assert every[0]["crc-mismatch"] == 75
    assert done.of("findings_left_out") == []
    for most in ("1", "2", "50"):
        done = kfmt("check", damaged, "--json", "--max-findings", most)
        assert numbers(done) == every
        assert done.codes.count("crc-mismatch") == int(most)
        table = kfmt("check", damaged, "--max-findings", most).out
        assert "crc-mismatch ×75" in table


def test_check_counts_what_it_does_not_show_of_indexes(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    shutil.copytree(ORDERS, folder)
    (folder / f"{0:020}.index").write_bytes(
        b"".join(struct.pack(">ii", i // 2, i * 100) for i in range(300))
    )
    every = numbers(kfmt("check", folder, "--json", "--max-findings", "1000"))
    assert every[0]["index-entries-not-increasing"] == 150
    for most in ("1", "100"):
        done = kfmt("check", folder, "--json", "--max-findings", most)
        assert numbers(done) == every
        assert done.codes.count("index-entries-not-increasing") == int(most)


def test_hidden_findings_are_counted_too(tmp_path: Path) -> None:
    log = kfmt("dump", ORDERS, "--records", "--json").out.encode()
    assert kfmt("build", "-", tmp_path / "a-0", "--batch-records", "1", stdin=log).code == 0
    for path in (tmp_path / "a-0").glob("*.log"):
        path.write_bytes(with_broken_checksums(path.read_bytes()))
    words = "hidden by --only or --ignore"
    every = kfmt("check", tmp_path / "a-0")
    assert "crc-mismatch ×1500" in every.out.replace("\u202f", "").replace("1 500", "1500")
    assert words not in every.out + every.err
    done = kfmt("check", tmp_path / "a-0", "--ignore", "crc-mismatch")
    assert f"1 500 findings {words}" in (done.out + done.err).replace("\u202f", " ")


@pytest.mark.parametrize("name", [f"orders-0/{0:020}.index", "meta.properties"])
def test_a_healthy_file_without_a_log_is_said_to_be_healthy(name: str) -> None:
    done = kfmt("check", ORDERS.parent / name)
    assert done.code == 0
    assert "no damage in the files given" in done.out + done.err


def test_predictions_do_not_depend_on_what_is_shown(damaged: Path) -> None:
    few, many = (kfmt("check", damaged, "--json", "--max-findings", most) for most in ("1", "1000"))
    for kind in ("broker_start", "next"):
        assert few.of(kind) == many.of(kind)
