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
    """A partition whose 75 batches all fail their checksum."""
    directory = tmp_path / "orders-0"
    shutil.copytree(ORDERS, directory)
    for log in directory.glob("*.log"):
        log.write_bytes(with_broken_checksums(log.read_bytes()))
    return directory


def finding_counts(result: Done) -> tuple[dict[str, int], int, int]:
    """Findings by code, shown and suppressed; errors of the partition; errors in total."""
    counts = dict.fromkeys(result.codes, 0)
    for code in result.codes:
        counts[code] += 1
    for row in result.of("findings_left_out"):
        counts[row["code"]] = counts.get(row["code"], 0) + row["count"]
    (partition,) = result.of("partition")
    (summary,) = result.of("summary")
    return counts, partition["errors"], summary["errors"]


def test_check_counts_what_it_does_not_show(damaged: Path) -> None:
    result = kfmt("check", damaged, "--json", "--max-findings", "1000")
    expected = finding_counts(result)
    assert expected[0]["crc-mismatch"] == 75
    assert result.of("findings_left_out") == []
    for limit in ("1", "2", "50"):
        result = kfmt("check", damaged, "--json", "--max-findings", limit)
        assert finding_counts(result) == expected
        assert result.codes.count("crc-mismatch") == int(limit)
        table = kfmt("check", damaged, "--max-findings", limit).out
        assert "crc-mismatch ×75" in table


def test_check_counts_what_it_does_not_show_of_indexes(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    shutil.copytree(ORDERS, directory)
    (directory / f"{0:020}.index").write_bytes(
        b"".join(struct.pack(">ii", i // 2, i * 100) for i in range(300))
    )
    expected = finding_counts(kfmt("check", directory, "--json", "--max-findings", "1000"))
    assert expected[0]["index-entries-not-increasing"] == 150
    for limit in ("1", "100"):
        result = kfmt("check", directory, "--json", "--max-findings", limit)
        assert finding_counts(result) == expected
        assert result.codes.count("index-entries-not-increasing") == int(limit)


def test_hidden_findings_are_counted_too(tmp_path: Path) -> None:
    log = kfmt("dump", ORDERS, "--records", "--json").out.encode()
    assert kfmt("build", "-", tmp_path / "a-0", "--batch-records", "1", stdin=log).code == 0
    for path in (tmp_path / "a-0").glob("*.log"):
        path.write_bytes(with_broken_checksums(path.read_bytes()))
    message = "hidden by --only or --ignore"
    unfiltered = kfmt("check", tmp_path / "a-0")
    assert "crc-mismatch ×1500" in unfiltered.out.replace("\u202f", "").replace("1 500", "1500")
    assert message not in unfiltered.out + unfiltered.err
    result = kfmt("check", tmp_path / "a-0", "--ignore", "crc-mismatch")
    assert f"1 500 findings {message}" in (result.out + result.err).replace("\u202f", " ")


@pytest.mark.parametrize("name", [f"orders-0/{0:020}.index", "meta.properties"])
def test_a_healthy_file_without_a_log_is_said_to_be_healthy(name: str) -> None:
    result = kfmt("check", ORDERS.parent / name)
    assert result.code == 0
    assert "no damage in the files given" in result.out + result.err


def test_predictions_do_not_depend_on_what_is_shown(damaged: Path) -> None:
    limited, unlimited = (
        kfmt("check", damaged, "--json", "--max-findings", limit) for limit in ("1", "1000")
    )
    for kind in ("broker_start", "next"):
        assert limited.of(kind) == unlimited.of(kind)
